"""Panels: which tasks they hold, and what names them."""

from agentgym.core.hashing import sha256_json
from agentgym.core.panels import TaskPanel
from agentgym.registration import open_env


def test_a_panel_is_the_first_tasks_of_a_split_by_name_and_digest():
    tasks = open_env("agentgym/Sokoban-v0", split="valid").tasks
    few = TaskPanel.first(tasks, 3)
    assert few.header() == {
        "name": "valid[:3]",
        "tasks": 3,
        "sha256": sha256_json([task.id for task in tasks[:3]]),
    }
    whole = TaskPanel.first(tasks, len(tasks) + 1)
    assert (whole.name, len(whole.tasks)) == ("valid", len(tasks))
    assert TaskPanel("other", few.tasks[::-1]).digest != few.digest
