import numpy as np
import pytest

from agentgym.core.hashing import content_id
from agentgym.core.tasks import split_of
from agentgym.envs.sokoban.builtin.generator import Config, generate
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.sokoban.tasks import StreamTaskSet, builtin_tasks
from agentgym.errors import UsageError

CONFIG = Config(6, 6, 1)


def test_a_task_is_found_by_id_and_by_source_id():
    tasks = builtin_tasks("test", CONFIG, stream=False)
    task = tasks[123]
    assert tasks.find(task.id) == tasks.find(task.source_id) == task
    assert task.id == content_id(task.content.text)
    assert task.source_id in tasks
    assert builtin_tasks("train", CONFIG, stream=False)[0].id not in tasks


@pytest.mark.parametrize(
    "key", ["6x6-1#0", "6x6-1#99999999", "6x6-2#1", "6x6-1#x", "6x6-1#-3", "nothing", ""]
)
def test_unknown_tasks_are_refused(key):
    with pytest.raises(UsageError, match="no task"):
        builtin_tasks("test", CONFIG, stream=False).find(key)


def test_verify_notices_a_level_that_is_not_its_candidates(monkeypatch):
    tasks = type(builtin_tasks("valid", CONFIG, stream=False))(
        "valid", builtin_tasks("valid", CONFIG, stream=False)._bank
    )
    tasks.verify()
    tasks._candidates[500] += 1
    with pytest.raises(UsageError, match="task 500"):
        tasks.verify()


def test_the_manifest_says_what_fixes_the_levels():
    manifests = [
        builtin_tasks("train", CONFIG, stream=False),
        builtin_tasks("valid", CONFIG, stream=False),
        builtin_tasks("train", Config(6, 6, 2), stream=False),
        builtin_tasks("train", CONFIG, stream=True),
    ]
    assert len({tasks.manifest_sha256 for tasks in manifests}) == 4


def test_a_stream_goes_past_the_bank_and_stays_in_its_split():
    tasks = StreamTaskSet("valid", builtin_tasks("valid", CONFIG, stream=False)._bank)
    rng = np.random.default_rng(0)
    drawn = [tasks.draw(rng) for _ in range(20)]
    listed = set(tasks.ids)
    assert sum(task.id in listed for task in drawn) < 10  # few 6x6 rooms are easy, so those come again
    for task in drawn:
        assert split_of(task.id) == "valid"
        assert tasks.find(task.source_id) == task
        found = tasks.find(task.id)  # under another candidate number if two make one level
        assert (found.id, found.content) == (task.id, task.content)
        assert generate(CONFIG, int(task.source_id.split("#")[1])) == task.content
    assert tasks.find(tasks[5].id) == tasks[5]


def test_one_seed_draws_one_stream_in_every_environment():
    ids = [
        [env.reset(seed=7)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(3))]
        for env in (SokobanEnv(stream=True), SokobanEnv(stream=True))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 4


def test_levels_can_be_chosen_by_how_long_their_solutions_are():
    every = SokobanEnv(split="test").tasks
    easy = SokobanEnv(split="test", max_optimal=4).tasks
    assert list(easy.ids) == [t.id for t in every if t.metadata["optimal_moves"] <= 4]
    assert 100 < len(easy) < len(every)
    assert easy.manifest_sha256 != every.manifest_sha256
    assert easy.find(easy[3].source_id) == easy[3]
    assert easy[3].id in every
    hard = next(task for task in every if task.metadata["optimal_moves"] > 4)
    assert hard.id not in easy
    assert hard.source_id not in easy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_optimal": 0}, "at least 1, got 0"),
        ({"max_optimal": "4"}, "got '4'"),
        ({"max_optimal": 1, "num_boxes": 2}, "raise max_optimal"),
        ({"max_optimal": 4, "stream": True}, "leave max_optimal out"),
        ({"max_optimal": 4, "dataset": "levels.xsb"}, "goes with dataset='builtin'"),
    ],
)
def test_bad_choices_of_levels_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        SokobanEnv(**options)
