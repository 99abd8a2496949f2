"""Which of Gymnasium's wrappers work on text: every wrapper of the table of docs/gymnasium.md is tried."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.spaces import Discrete

import agentgym
from agentgym.core.spaces import UnicodeText

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gymnasium.md"
SOKOBAN = "agentgym/Sokoban-v0"


def text(**options):
    return gymnasium.make(SOKOBAN, max_steps=5, **options)


def visual(**options):
    return gymnasium.make("agentgym/VisualSokoban-v0", max_steps=5, **options)


def images():
    """VisualSokoban's picture alone."""
    env = visual()
    return wrappers.TransformObservation(env, lambda both: both["image"], env.observation_space["image"])


WORKS = {
    "AddRenderObservation": lambda: wrappers.AddRenderObservation(text(render_mode="rgb_array")),
    "Autoreset": lambda: wrappers.Autoreset(text()),
    "ClipReward": lambda: wrappers.ClipReward(text(), -1, 1),
    "DelayObservation": lambda: wrappers.DelayObservation(text(), 2),
    "FilterObservation": lambda: wrappers.FilterObservation(visual(), ["text"]),
    "FlattenObservation": lambda: wrappers.FlattenObservation(text()),
    "FrameStackObservation": lambda: wrappers.FrameStackObservation(text(), 3),
    "NormalizeReward": lambda: wrappers.NormalizeReward(text()),
    "OrderEnforcing": lambda: wrappers.OrderEnforcing(text()),
    "PassiveEnvChecker": lambda: wrappers.PassiveEnvChecker(text()),
    "RecordEpisodeStatistics": lambda: wrappers.RecordEpisodeStatistics(text()),
    "RenderCollection": lambda: wrappers.RenderCollection(text(render_mode="ansi")),
    "StickyAction": lambda: wrappers.StickyAction(text(), 0.5),
    "TimeAwareObservation": lambda: wrappers.TimeAwareObservation(text()),
    "TimeLimit": lambda: wrappers.TimeLimit(text(), 3),
    "TransformAction": lambda: wrappers.TransformAction(text(), ["up", "down"].__getitem__, Discrete(2)),
    "TransformObservation": lambda: wrappers.TransformObservation(text(), str.upper, UnicodeText()),
    "TransformReward": lambda: wrappers.TransformReward(text(), lambda reward: 2 * reward),
}
IMAGES_ONLY = {
    "DtypeObservation": lambda of: wrappers.DtypeObservation(of, np.float32),
    "GrayscaleObservation": wrappers.GrayscaleObservation,
    "MaxAndSkipObservation": lambda of: wrappers.MaxAndSkipObservation(of, 2),
    "NormalizeObservation": wrappers.NormalizeObservation,
    "RescaleObservation": lambda of: wrappers.RescaleObservation(of, np.float32(0), np.float32(1)),
    "ReshapeObservation": lambda of: wrappers.ReshapeObservation(of, (96 * 96, 3)),
}
NEVER = {
    "ClipAction": lambda: wrappers.ClipAction(text()),
    "RescaleAction": lambda: wrappers.RescaleAction(text(), np.float32(0), np.float32(1)),
}


def play(env, action):
    """Reset, play to the end, and return the first observation."""
    first, _ = env.reset(seed=0)
    assert env.observation_space.contains(first)
    over = False
    while not over:
        observation, _, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(observation)
        over = terminated or truncated
    return first


@pytest.mark.parametrize("name", WORKS)
def test_it_works_on_text(name):
    play(WORKS[name](), 0 if name == "TransformAction" else "up")


@pytest.mark.parametrize("name", IMAGES_ONLY)
def test_it_works_on_pictures_alone(name):
    play(IMAGES_ONLY[name](images()), "up")
    with pytest.raises((TypeError, ValueError, AssertionError)):
        IMAGES_ONLY[name](text())


@pytest.mark.parametrize("name", NEVER)
def test_it_cannot_work(name):
    with pytest.raises((TypeError, AssertionError)):
        NEVER[name]()


def test_what_the_observations_become():
    board = agentgym.make(SOKOBAN).reset(seed=0)[0]
    assert play(WORKS["FlattenObservation"](), "up") == board, "text has no flat array: it stays text"
    assert play(WORKS["FrameStackObservation"](), "up") == (board,) * 3
    padded = wrappers.FrameStackObservation(text(), 3, padding_type="zero")
    assert padded.reset(seed=0)[0] == ("", "", board)
    assert play(WORKS["DelayObservation"](), "up") == ""
    timed = play(WORKS["TimeAwareObservation"](), "up")
    assert timed["obs"] == board
    assert timed["time"].tolist() == [0]


def test_the_page_s_table_is_this_list():
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Wrappers\n")
    rows = re.findall(r"^\| (`.*`) \| (\w+)", section, flags=re.MULTILINE)
    listed = {result: names.strip("`").split("`, `") for names, result in rows}
    assert {result: set(names) for result, names in listed.items()} == {
        "work": set(WORKS),
        "need": set(IMAGES_ONLY),
        "fail": set(NEVER),
    }
