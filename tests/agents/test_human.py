import pytest

from agentgym.agents.human import HumanPolicy, choose
from agentgym.agents.screen import printable
from agentgym.rollout import EpisodeSpec, RolloutWorker
from tests.corridor import CorridorVectorEnv

MOVES = ("up", "down", "left", "right")
FULL = ("no operation", "push up", "push down", "move up", "move down")


@pytest.mark.parametrize(
    ("line", "actions", "action"),
    [
        ("up", MOVES, "up"),
        (" up ", MOVES, "up"),
        ("4", MOVES, "right"),
        ("0", MOVES, "0"),
        ("5", MOVES, "5"),
        ("²", MOVES, "²"),
        ("w", MOVES, "up"),
        ("d", MOVES, "right"),
        ("d", ("up", "left"), "right"),  # what a key means does not depend on what is possible now
        ("do", MOVES, "down"),
        ("U", MOVES, "up"),
        ("", MOVES, ""),
        ("push", FULL, "push"),  # two begin so
        ("push u", FULL, "push up"),
        ("w", FULL, "w"),
        ("n", FULL, "no operation"),
        ("1", ("1", "10", "+"), "1"),
        ("2", ("1", "10", "+"), "2"),  # actions that are numbers cannot be chosen by number
        ("s", ("search[<query>]", "buy"), "s"),  # a template is not an action
        ("search[red]", ("search[<query>]",), "search[red]"),
    ],
)
def test_choose(line, actions, action):
    assert choose(line, actions) == action


def test_human_plays(capsys):
    lines = iter(["r", "jump", "1"])
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    player = RolloutWorker(envs, HumanPolicy(lambda: next(lines)), env_id="test/Corridor-v0")
    (episode,) = player.run([EpisodeSpec("corridor2", 0, 0)])
    assert [step.action for step in episode.steps] == ["right", "jump", "right"]
    assert [step.completion.text for step in episode.steps] == ["r", "jump", "1"]
    shown = capsys.readouterr().out
    assert "cell 0 of 2" in shown
    assert "actions  1 right  2 left  3 fall" in shown
    assert episode.initial_hash in shown
    assert "played jump  reward -0.5  rejected" in shown


def test_the_end_of_input_ends_the_episode(capsys):
    def read():
        raise EOFError

    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    (episode,) = RolloutWorker(envs, HumanPolicy(read), env_id="test/Corridor-v0").run(
        [EpisodeSpec("corridor2", 0, 0)]
    )
    assert episode.end_reason == "agent_error"


def test_no_text_steers_the_terminal():
    assert printable("a\x1b[2Jb\x07\r\n\tc\u202e d") == "a\\x1b[2Jb\\x07\\r\n\tc\\u202e d"
    assert printable("grüße 猫 [bold]") == "grüße 猫 [bold]"
