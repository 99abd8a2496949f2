"""Measures of suites: what may be declared, what counts after an error, and the values of those that ship."""

import math
from typing import Any

import pytest

from agentgym.agents import make_agent
from agentgym.core.path_measures import measured_path, path_measures
from agentgym.core.suite_spec import Measure, SuiteSpec
from agentgym.envs.alfworld.oracle import first_plan
from agentgym.envs.sokoban.oracle import solution
from agentgym.registration import open_env, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

SHIPPED = ("agentgym/Sokoban-v0", "agentgym/VisualSokoban-v0", "agentgym/ALFWorld-v0", "agentgym/WebShop-v0")
SPLITS = {"agentgym/ALFWorld-v0": "valid_seen"}
OPTIONS: dict[str, dict[str, Any]] = {"agentgym/WebShop-v0": {"tagger": "words"}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "F1"}, "lower-case letters"),
        ({"name": "steps"}, "is none of score, success"),
        ({"name": "x", "bounds": (1.0, 1.0)}, r"bounds are \[least, greatest\]"),
        ({"name": "x", "bounds": (-math.inf, 1.0)}, "bounds are"),
        ({"name": "x", "bounds": (0.0, math.inf), "better": "lower"}, "needs a greatest value, which errors"),
    ],
)
def test_a_measure_that_errors_have_no_value_of_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Measure(about="x", **options)


SPEC = SuiteSpec(
    name="x",
    measures=(
        Measure(name="high", about="", bounds=(-1.0, math.inf)),
        Measure(name="low", about="", bounds=(0.0, 9.0), better="lower"),
        Measure(name="spent", about="", bounds=(0.0, math.inf), better="neither"),
    ),
)


def test_an_error_counts_as_the_worse_bound_and_spends_what_it_spent() -> None:
    values = {"high": 5.0, "low": 1.0, "spent": 3.0}
    assert SPEC.counted(values, aborted=True) == {"high": -1.0, "low": 9.0, "spent": 3.0}
    assert SPEC.counted(values, aborted=False) == values


@pytest.mark.parametrize(
    "values",
    [
        {"high": 0.0, "low": 0.0},
        {"high": 0.0, "low": 0.0, "spent": 0.0, "more": 0.0},
        {"high": math.inf, "low": 0.0, "spent": 0.0},
        {"high": 0.0, "low": 9.1, "spent": 0.0},
        {"high": math.nan, "low": 0.0, "spent": 0.0},
    ],
)
def test_an_environment_gives_each_measure_within_its_bounds(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="measure"):
        SPEC.checked(values)


def test_values_come_in_the_order_of_the_measures() -> None:
    assert list(SPEC.checked({"spent": 1, "low": 2, "high": 3}).items()) == [
        ("high", 3.0),
        ("low", 2.0),
        ("spent", 1.0),
    ]


@pytest.mark.parametrize(
    ("won", "steps", "length", "expected"),
    [
        (True, 10, 10, (1.0, 1.0, 1.0)),
        (True, 15, 10, (10 / 15, 1.0, 1.0)),
        (True, 16, 10, (0.625, 0.0, 1.0)),
        (True, 31, 10, (10 / 31, 0.0, 0.0)),
        (True, 8, 10, (1.0, 1.0, 1.0)),  # shorter than a reference that is not proven shortest
        (True, 40, None, (1.0, 0.0, 0.0)),
        (False, 10, 10, (0.0, 0.0, 0.0)),
    ],
)
def test_success_weighted_by_path_length(
    won: bool, steps: int, length: int | None, expected: tuple[float, ...]
) -> None:
    values = measured_path(won=won, steps=steps, reference=lambda: length)
    assert tuple(values.values()) == expected
    assert list(values) == [measure.name for measure in path_measures("x")] == ["spl", "won_15", "won_30"]


def test_a_lost_episode_asks_for_no_search() -> None:
    def reference() -> int:
        raise AssertionError("a search is not needed")

    assert measured_path(won=False, steps=3, reference=reference)["spl"] == 0.0


@pytest.mark.parametrize("env_id", SHIPPED)
def test_every_form_measures_alike(env_id: str) -> None:
    """What a worker measured in slots, a single environment measures of the same actions."""
    split, options = SPLITS.get(env_id, "test"), OPTIONS.get(env_id, {})
    envs = open_vector(env_id, 3, split=split, options=options)
    single = open_env(env_id, split=split, options=options)
    for kind in ("oracle", "random"):
        worker = RolloutWorker(envs, make_agent(kind, envs), env_id=env_id, measured=True)
        specs = [EpisodeSpec(task, seed, 0) for seed, task in enumerate(envs.tasks.ids[:5])]
        for trajectory in worker.run(specs):
            single.reset(seed=trajectory.seed, options={"task": trajectory.task_id})
            for step in trajectory.steps:
                single.step(step.action)
            assert trajectory.measures == single.measures()
            assert trajectory.measures.get("spl", 1.0) in ((1.0,) if kind == "oracle" else (0.0, 1.0)) or (
                kind == "random" and 0.0 < trajectory.measures["spl"] < 1.0
            )
            twin = single.spawn()
            twin.restore(single.snapshot())
            assert twin.measures() == single.measures()
    envs.close()
    single.close()


def test_a_level_without_a_known_optimum_is_measured_by_the_solver() -> None:
    known = open_env("agentgym/Sokoban-v0", split="test", options={"num_boxes": 2})
    for task in known.tasks[:10]:
        moves = solution(task.content.board)
        assert moves is not None
        assert len(moves) == task.metadata["optimal_moves"]
    stream = open_env("agentgym/Sokoban-v0", split="test", options={"stream": True})
    stream.reset(seed=4)
    assert "optimal_moves" not in stream.task.metadata
    moves = solution(stream.task.content.board)
    assert moves is not None
    for action in ("no such action", "another", *moves):  # rejected actions are steps, too
        stream.step(action)
    assert stream.measures()["spl"] == len(moves) / (len(moves) + 2)


def test_a_game_without_a_known_optimum_is_measured_by_the_planner() -> None:
    """The built-in games' shortest plans are as long as the planner's."""
    env = open_env("agentgym/ALFWorld-v0", split="valid_seen")
    for task in env.tasks[:5]:
        plan = first_plan(task.content, "game")
        assert plan is not None
        assert len(plan) == task.metadata["optimal_steps"]


def test_a_purchase_is_measured_by_the_terms_of_its_reward() -> None:
    env = open_env("agentgym/WebShop-v0", split="test", options={"tagger": "words"})
    env.reset(seed=0)
    assert env.measures() == dict.fromkeys(env.measures(), 0.0)
    env.step("search[lamp]")
    env.step("no action")
    env.step(env.admissible_actions()[3])
    assert env.visit.page == "item"  # type: ignore[attr-defined]
    spent = env.measures()
    assert (spent["searches"], spent["pages"], spent["type"]) == (1.0, 2.0, 0.0)
    env.step("click[buy now]")
    found, goal, status = env.measures(), env.task.content, env._status()
    asked, options = len(goal.attributes), len(goal.options)
    met = found["attributes"] * asked + found["options"] * options + found["price"]
    assert found["pages"] == 3.0
    assert found["type"] * met / (asked + options + 1) == pytest.approx(status.score)
