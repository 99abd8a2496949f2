import json

import pytest

from agentgym.agents.scripted import ANY_TASK, ScriptedPolicy, load_script
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.corridor import CorridorVectorEnv


def play(script, specs):
    envs = CorridorVectorEnv(2, autoreset_mode="Disabled")
    return list(RolloutWorker(envs, ScriptedPolicy(script), env_id="test/Corridor-v0").run(specs))


def test_text_is_one_action_a_line(tmp_path):
    path = tmp_path / "script.txt"
    path.write_bytes(b"# a comment\r\nright\r\n\nleft  \n")
    assert load_script(path) == {ANY_TASK: ["right", "left  "]}


def test_jsonl_has_actions_by_task(tmp_path):
    path = tmp_path / "script.jsonl"
    lines = [{"task_id": "a", "actions": ["x", "", "# y", "\u2028"], "rewards": [1]}, {"actions": ["z"]}]
    path.write_text("\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    assert load_script(path) == {"a": ["x", "", "# y", "\u2028"], ANY_TASK: ["z"]}


def test_a_task_prefers_its_own_actions():
    own = CorridorVectorEnv(1).tasks.find("corridor2").id
    script = {own: ["right", "right"], ANY_TASK: ["fall"]}
    episodes = {e.task_id: e for e in play(script, [EpisodeSpec(f"corridor{n}", 0, 0) for n in (2, 3)])}
    assert episodes.pop(own).end_reason == "success"
    assert [e.end_reason for e in episodes.values()] == ["failure"]


def test_a_script_that_ends_early_ends_the_episode():
    (episode,) = play({ANY_TASK: ["right"]}, [EpisodeSpec("corridor3", 0, 0)])
    assert (episode.end_reason, len(episode.steps), episode.score) == ("agent_error", 1, 0.0)


def test_a_task_without_actions_is_an_error():
    with pytest.raises(UsageError, match=r"has no actions for task '[0-9a-f]{32}'; it has 1 tasks"):
        play({"x": ["right"]}, [EpisodeSpec("corridor3", 0, 0)])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.txt", b"", "has no actions: write one action per line"),
        ("s.txt", b"# only\n\n", "has no actions"),
        ("s.jsonl", b"\n", "has no actions"),
        ("s.txt", b"up\n\xff", r"not UTF-8 text \(byte 3\)"),
        ("s.jsonl", b'{"actions": []}\n{"actions"', r"s\.jsonl:2: not JSON: .* \(line 1, column 11\)"),
        ("s.jsonl", b"[1]", r"s\.jsonl:1: expected"),
        ("s.jsonl", b'{"task_id": "a"}', r"s\.jsonl:1: expected"),
        ("s.jsonl", b'{"actions": "up"}', r"s\.jsonl:1: expected"),
        ("s.jsonl", b'{"actions": ["up", 3]}', r"s\.jsonl:1: actions are strings, got 3: put it in quotes"),
        ("s.jsonl", rb'{"actions": ["\ud83d"]}', r"s\.jsonl:1: half of a surrogate pair in '.*\\ud83d',"),
        ("s.jsonl", b'{"task_id": 7, "actions": []}', r"s\.jsonl:1: task_id is a string, got 7"),
        ("s.jsonl", b'{"task_id": "a", "actions": []}\n' * 2, r"s\.jsonl:2: actions for task 'a' come twice"),
        ("s.jsonl", b'{"actions": []}\n' * 2, r"s\.jsonl:2: actions for every task come twice"),
    ],
)
def test_bad_scripts(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        load_script(path)
    assert "\n" not in str(caught.value)


def test_missing_script(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the script .*missing\.txt: No such file"):
        load_script(tmp_path / "missing.txt")
