"""Texts of games and the compiled games that a process shares."""

import gc
import pickle
from dataclasses import dataclass, replace

import pytest

from agentgym.envs.alfworld import source
from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.engine.packing import pack_problem, problem_digest
from agentgym.envs.alfworld.source import GameText, load_game, load_scene, read_game
from agentgym.errors import UsageError


@dataclass(frozen=True, slots=True)
class Given:
    """A game whose text is given."""

    name: str
    text: GameText

    def read(self):
        return self.text


@pytest.fixture
def text():
    return builtin_tasks("train")[0].content.read()


def change(text, **parts):
    return GameText(**{part: parts.get(part, getattr(text, part)) for part in text.__slots__})


def test_texts_survive_json(text):
    assert GameText.parse(text.to_json(), "x") == text
    plain = change(text, walkthrough=None, solvable=False)
    assert GameText.parse(plain.to_json().encode(), "x") == plain


def test_a_game_is_compiled_once(text):
    first = load_scene(Given("one", text))
    assert load_scene(pickle.loads(pickle.dumps(Given("one", text)))) is first
    assert load_game(Given("one", text)) is first.game


def test_the_memory_of_games_is_bounded_but_what_is_played_is_shared(text, monkeypatch):
    monkeypatch.setattr(source, "_recent", type(source._recent)())
    played = load_scene(Given("0", text))
    monkeypatch.setattr(source, "MAX_CACHED_ATOMS", 2 * played.game.planes.width + 1)
    others = [id(load_scene(Given(str(number), text))) for number in range(1, 5)]
    assert len(others) == 4
    gc.collect()
    assert [key[0].name for key in source._recent] == ["3", "4"]
    assert {key[0].name for key in source._live} >= {"0", "3", "4"}
    assert not {key[0].name for key in source._live} & {"1", "2"}
    assert load_scene(Given("0", text)) is played


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("problem", "(:init", "(:inity"),
        ("problem", ")", ""),
        ("domain", "(:action ", "(:durative-action "),
        ("grammar", "#task#", "#no-such-rule#"),
    ],
)
def test_a_game_outside_the_language_is_named(text, part, old, new):
    changed = getattr(text, part)
    assert old in changed
    bad = change(text, **{part: changed.replace(old, new, 1)})
    with pytest.raises(UsageError, match=r"^kitchen/3/game\.tw-pddl: ") as error:
        load_game(Given("kitchen/3/game.tw-pddl", bad))
    assert "\n" not in str(error.value)


def test_a_games_own_words_are_its_own(text):
    assert read_game(Given("one", text), "game") == text


def test_a_changed_problem_is_not_taken_for_what_is_known_of_another(text):
    known = {problem_digest(text.domain, text.problem): pack_problem(text.domain, text.problem)}
    given = replace(text, grounded=known)
    fact = next(line for line in text.problem.splitlines() if "(inReceptacle " in line)
    changed = replace(given, problem=text.problem.replace(fact, "", 1))
    one, other = load_game(Given("given", given)), load_game(Given("changed", changed))
    assert one.initial.bit_count() == other.initial.bit_count() + 1
