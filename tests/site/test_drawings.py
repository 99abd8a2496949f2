"""Drawings of every suite: each state of an episode can be drawn, and says what a person would look for."""

import random
import re
from pathlib import Path

import pytest

import agentgym.site
from agentgym.core.markup import pixels_of
from agentgym.core.types import Completion, Step
from agentgym.envs.alfworld.drawing import _SEEN
from agentgym.io.optional import load_reference
from agentgym.registration import ENVIRONMENTS, open_env, suite_spec
from tests.policy_requests import request_of

STYLE = (Path(agentgym.site.__file__).parent / "static" / "view.css").read_text()

SHOWS = {
    "Sokoban-v0": ("of 1 boxes on targets",),
    "VisualSokoban-v0": ("of 1 boxes on targets",),
    "EZPoints-v0": (),
    "ALFWorld-v0": ("Goal ", "Holds ", "you are here", "closed", "not seen yet"),
    "WebShop-v0": ("Buy Now", "What the purchase is scored by", "Score 1.00"),
    "HotpotQA-v0": ("Gold answer ", "supports the answer", "exact match 1"),
    "TwoWiki-v0": ("Gold answer ", "supports the answer"),
    "MuSiQue-v0": ("hops", "supports the answer"),
    "SearchQA-v0": ("Gold answer ",),
    "PaperSearch-v0": ("papers in the pool", "asked for"),
    "Sotopia-v0": ("Private goals", "The agent plays", "Rating"),
}
"""What the drawings of an episode of the oracle say between them."""


STYLED = {
    "ALFWorld-v0": {"accent", "card", "cards", "chip", "here", "muted", "now", "tag", "unseen"},
    "HotpotQA-v0": {"bad", "card", "good", "here", "muted", "passages", "tag"},
    "PaperSearch-v0": {"edges", "graph", "muted", "paper", "papers", "pool", "unseen", "wanted"},
    "Sotopia-v0": {"bubble", "bubbles", "left", "muted", "right"},
}
"""What the style sheet knows of them."""


def drawings(game, act, *, most=12):
    """Play an episode; return its drawings, and for each state what is beside it and the observation."""
    drawing = load_reference(game.suite_spec.drawing, trusted=True)
    observation, info = game.reset(seed=0)
    steps, found = [], []
    while True:
        seen = observation if isinstance(observation, str) else observation["text"]
        found.append((drawing.draw(game, steps), drawing.beside_state(game), seen))
        over = bool(steps) and (steps[-1].terminated or steps[-1].truncated)
        if over or len(steps) == most:
            return found
        action = act(game, observation, info, tuple(steps))
        answered = game.step(action)
        after = answered[4]
        steps.append(
            Step(
                observation,
                info["state_hash"],
                info["admissible_actions"],
                Completion(action),
                answered[1],
                after["state_hash"],
                after["action_is_valid"],
                answered[2],
                answered[3],
            )
        )
        observation, info = answered[0], after


def by_oracle(game):
    """Return what plays as the oracle does."""
    policy = game.oracle()

    def act(game, observation, info, steps):
        asked = request_of(game, info, observation=observation, history=steps, extra=info)
        return policy.act([asked])[0].action

    return act


def test_every_drawing_is_tested():
    # a suite may do without: then its text is shown
    drawn = {name.partition("/")[2] for name in ENVIRONMENTS if suite_spec(name).drawing}
    assert drawn == set(SHOWS)


@pytest.mark.parametrize("name", SHOWS)
def test_an_episode_is_drawn(name):
    game = open_env(f"agentgym/{name}", split="valid_seen" if name == "ALFWorld-v0" else "test")
    found = drawings(game, by_oracle(game))
    text = "\n".join(drawn.text for drawn, _, _ in found)
    assert [words for words in SHOWS[name] if words not in text] == []
    if name in ("Sokoban-v0", "VisualSokoban-v0", "EZPoints-v0"):
        assert all(pixels_of(drawn) is not None for drawn, _, _ in found)
    assert len({repr(drawn) for drawn, _, _ in found}) > 1
    classes = {word for drawn, _, _ in found for each in drawn.walk() for word in classes_of(each)}
    if name in STYLED:
        assert {word for word in classes if re.search(rf"\.{word}\b(?!-)", STYLE)} == STYLED[name]


def classes_of(one):
    return one.attributes.get("class", "").split()


def test_papers_are_on_a_ring_and_those_asked_for_are_told_apart():
    game = open_env("agentgym/PaperSearch-v0", split="test")
    counted = []
    for drawn, _, _ in drawings(game, by_oracle(game)):
        (graph,) = (each for each in drawn.walk() if each.tag == "svg")
        size = float(graph.attributes["width"])
        assert graph.attributes["viewBox"] == f"0 0 {size:g} {size:g}"
        assert graph.attributes["height"] == graph.attributes["width"]
        circles = [each.attributes for each in graph.walk() if each.tag == "circle"]
        assert all(9 <= float(each[key]) <= size - 9 for each in circles for key in ("cx", "cy"))
        papers = [classes_of(each) for each in graph.walk() if "paper" in classes_of(each)]
        counted.append(
            [len(papers), *(sum(name in each for each in papers) for name in ("wanted", "unseen"))]
        )
    gold = len(game.topic.gold)
    assert counted[0] == [gold, 0, gold]
    assert counted[-1][1:] == [gold, 0]


def test_what_is_beside_the_state_is_in_the_observation():
    game = open_env("agentgym/WebShop-v0", split="test", options={"noise": 1.0, "previous_actions": 1})
    found = drawings(game, lambda *_: "search[red shoes]", most=2)
    for drawn, beside, seen in found:
        assert sum(piece in seen for piece in beside) >= 2
        assert "node-advert" in repr(drawn)
    assert "search[red shoes]" in found[1][1]
    for name in ("Sokoban-v0", "EZPoints-v0", "ALFWorld-v0", "HotpotQA-v0", "PaperSearch-v0", "Sotopia-v0"):
        game = open_env(f"agentgym/{name}", split="valid_seen" if name == "ALFWorld-v0" else "test")
        refused = "search[" if name in ("HotpotQA-v0", "PaperSearch-v0") else "no such action"
        (_, _, before), (_, beside, seen) = drawings(game, lambda *_, said=refused: said, most=1)
        assert seen != before
        assert any(piece and piece in seen for piece in beside), name


def test_a_room_tells_what_was_seen_from_what_was_not():
    game = open_env("agentgym/ALFWorld-v0", split="valid_seen")
    found = drawings(game, by_oracle(game))
    unseen = [repr(drawn).count("chip unseen") for drawn, _, _ in found]
    assert unseen[0] > 0
    assert unseen[-1] < unseen[0]


def test_what_a_player_knows_is_the_same_drawn_at_once_or_step_by_step():
    drawing = load_reference("agentgym.envs.alfworld.drawing:DRAWING", trusted=True)
    game = open_env("agentgym/ALFWorld-v0")
    draws = random.Random(0)
    for _ in range(3):
        observation, info = game.reset(seed=draws.randrange(100))
        steps = []
        for number in range(25):
            drawn = drawing.draw(game, steps)
            if number % 8 == 7:
                _SEEN.clear()
                assert drawing.draw(game, steps) == drawn
                assert drawing.draw(game, list(steps)) == drawn
            action = draws.choice([*info["admissible_actions"], "no such thing"])
            before, (observation, reward, *_, info) = (observation, info), game.step(action)
            steps.append(
                Step(
                    before[0],
                    before[1]["state_hash"],
                    before[1]["admissible_actions"],
                    Completion(action),
                    reward=float(reward),
                    next_state_hash=info["state_hash"],
                    valid=info["action_is_valid"],
                    terminated=False,
                    truncated=False,
                )
            )
