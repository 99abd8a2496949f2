"""A game in another dialect keeps what it is about."""

import json

import pytest

from agentgym.envs.alfworld.engine.dialects import FILES, in_dialect, with_task_of
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.errors import MissingDataError, UsageError
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM

OLD = GameText(DOMAIN, GRAMMAR, PROBLEM, None, True)
NEW_GRAMMAR = (
    GRAMMAR.replace("warm a mug", "UNKNOWN")
    .replace("go to {to}", "walk to {to}")
    .replace("An evening in.", "A new evening.")
)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Make a data directory with another pair of domain and grammar."""
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    folder = tmp_path / "alfworld" / "logic"
    folder.mkdir(parents=True)
    for name, text in zip(FILES, (DOMAIN.replace("(not (heavy ?t))", ""), NEW_GRAMMAR), strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_own_dialect_is_left_alone():
    assert in_dialect(OLD, "game") is OLD


def test_the_sentence_of_the_task_stays(published):
    text = in_dialect(OLD, "current")
    game = Game(text.domain, text.grammar, text.problem)
    assert game.intro() == "A new evening.\nHere: a mug 2.\n\nYour task is to: warm a mug."
    commands = game.choices(game.initial).commands
    assert "walk to chest 1" in commands
    state = game.apply(game.initial, game.operations(game.initial)["walk to shelf 1"])
    assert "take anvil 1 from shelf 1" in game.choices(state).commands  # the other domain's rule
    assert text.problem == PROBLEM


def test_a_task_may_say_anything():
    rhs = "Say té\\n — 100 %\n#list_empty#"
    other = 'grammar :: """' + json.dumps({"task": [{"rhs": rhs}]}, ensure_ascii=False) + '""";'
    spliced = with_task_of(GRAMMAR, other)
    assert json.dumps(rhs, ensure_ascii=False) in spliced
    assert with_task_of(spliced, GRAMMAR) == GRAMMAR


@pytest.mark.parametrize(
    ("grammar", "named"),
    [
        (GRAMMAR.replace('"task"', '"chore"'), "'task', got 0"),
        (GRAMMAR.replace('warm a mug."}]', 'warm a mug."}, {"rhs": "b"}]'), "'task', got 2"),
        (GRAMMAR.replace('"rhs": "dim"', '"rhs": "Your task is to: warm a mug."'), "twice"),
    ],
)
def test_a_grammar_without_one_task_is_named(grammar, named):
    with pytest.raises(UsageError, match=named):
        with_task_of(grammar, GRAMMAR)


def test_a_missing_pair_is_named(published, monkeypatch):
    (published / FILES[1]).unlink()
    with pytest.raises(MissingDataError, match=FILES[1]):
        in_dialect(OLD, "current")
    (published / FILES[0]).unlink()
    published.rmdir()
    monkeypatch.setattr("agentgym.envs.alfworld.engine.dialects.installed_logic", lambda: None)
    with pytest.raises(MissingDataError, match=r"or (pip install|use an older Python)"):
        in_dialect(OLD, "current")


@pytest.mark.assets
def test_published_games_in_the_newest_words():
    own, current = (
        ALFWorldEnv(dataset="official", split="valid_seen", dialect=d) for d in ("game", "current")
    )
    for task in own.tasks[::20]:
        one, other = (env.reset(options={"task": task.id}) for env in (own, current))
        assert one[0] == other[0]
        assert one[1]["goal"] == other[1]["goal"]
        assert set(other[1]["admissible_actions"]) - set(one[1]["admissible_actions"]) == {"help"}
        assert one[1]["state_hash"] != other[1]["state_hash"]
        going = next(action for action in other[1]["admissible_actions"] if action.startswith("go to"))
        assert current.step(going)[0].startswith(f"You arrive at {going.removeprefix('go to ')}.")
        assert own.step(going)[0].startswith("You arrive at loc ")
