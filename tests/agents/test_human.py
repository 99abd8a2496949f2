import pytest

from agentgym.agents.human import choose, keys_for
from agentgym.agents.screen import printable
from agentgym.agents.table import make_agent
from agentgym.core.suite_spec import ScreenHints
from agentgym.errors import UsageError
from tests.corridor import CorridorVectorEnv

MOVES = ("up", "down", "left", "right")
FULL = ("no operation", "push up", "push down", "move up", "move down")


@pytest.mark.parametrize(
    ("line", "actions", "action"),
    [
        ("up", MOVES, "up"),
        (" up ", MOVES, "up"),
        ("4", MOVES, "right"),
        ("w", MOVES, "up"),
        ("do", MOVES, "down"),
        ("U", MOVES, "up"),
        ("push u", FULL, "push up"),
        ("n", FULL, "no operation"),
        ("1", ("1", "10", "+"), "1"),
        ("Go to bed 1", ("go to bed 1", "go to bed 10"), "go to bed 1"),
        ("search[red]", ("search[<query>]",), "search[red]"),
    ],
)
def test_choose(line, actions, action):
    assert choose(line, actions) == action


@pytest.mark.parametrize(
    ("line", "actions", "refusal"),
    [
        ("0", MOVES, "no action 0: they are numbered from 1 to 4"),
        ("5", MOVES, "no action 5"),
        ("²", MOVES, "no action '²' here"),
        ("d", ("up", "left"), "no action 'right' here"),  # what a key means does not depend on the state
        ("", MOVES, "no action '' here"),
        ("push", FULL, "'push' could mean: push up, push down; type more of it"),
        ("up", FULL, "'up' could mean: push up, move up"),
        ("w", FULL, "'w' could mean: "),  # no key where actions are no directions
        ("2", ("1", "10", "+"), "no action '2' here"),  # actions that are numbers have none
        ("s", ("search[<query>]", "buy"), "write your own text where it says <query>: search[<query>]"),
        ("1", ("search[<query>]", "buy"), "write your own text where it says <query>"),
        ("search[]", ("search[<query>]",), "no action 'search[]' here"),
        ("x", tuple(f"x{i}" for i in range(9)), "x5 and 3 more; type more of it"),
        ("go", (), "no action 'go' here"),
    ],
)
def test_what_is_no_action_is_not_played(line, actions, refusal):
    with pytest.raises(UsageError) as caught:
        choose(line, actions)
    assert refusal in str(caught.value)


def test_the_environment_decides_what_it_accepts():
    assert choose("say  x", ("say <text>",), accepts=lambda line: line == "say  x") == "say  x"
    with pytest.raises(UsageError):
        choose("say y", ("say <text>",), accepts=lambda line: False)


def test_keys_play_the_first_action_that_is_possible():
    hints = ScreenHints(keys={"up": ("up", "push up"), "left": ("left", "push left")})
    assert keys_for(hints, FULL) == {"up": "push up", "w": "push up", "left": "left", "a": "left"}
    assert keys_for(ScreenHints(), ("left",))["a"] == "left"
    assert keys_for(ScreenHints(), ()) == keys_for(ScreenHints(), ("look",)) == {}


def test_a_person_plays_by_a_command():
    with pytest.raises(UsageError, match="a person plays by `agentgym play ENV`"):
        make_agent("human", CorridorVectorEnv(1))


def test_no_text_steers_the_terminal():
    assert printable("a\x1b[2Jb\x07\r\n\tc\u202e d") == "a\\x1b[2Jb\\x07\\r\n\tc\\u202e d"
    assert printable("grüße 猫 [bold]") == "grüße 猫 [bold]"
