"""Diagnostics of runs: numbers from made-up rollouts, what a run lacks, and pictures of all."""

import json
from dataclasses import replace

import pytest

from agentgym.core.types import Completion, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.play.bench import run_bench
from agentgym.history.diagnostics.credit import graph_progress
from agentgym.history.diagnostics.states import BUCKETS, group_sizes
from agentgym.history.diagnostics.table import DIAGNOSTICS, diagnose
from agentgym.history.rollouts import write_rollouts
from agentgym.registration import open_env
from agentgym.rollout.stored_episode import KeptEpisode, StepCredit
from tests.iterations import make_run, write_run
from tests.suite_texts import env_table, suite_text


def episode(states, final, *, won, group=0, iteration=1, values=None, actions=None, **changes):
    after = [*states[1:], final]
    steps = tuple(
        Step(
            observation="",
            state_hash=state,
            admissible_actions=("go",),
            completion=Completion("go" if actions is None else actions[place], text="go", response_ids=(1,)),
            reward=0.0,
            next_state_hash=after[place],
            valid=True,
            terminated=place == len(states) - 1,
            truncated=False,
        )
        for place, state in enumerate(states)
    )
    plain = Trajectory(
        env_id="agentgym/EZPoints-v0",
        task_id="t",
        task_type="",
        seed=0,
        rollout=0,
        initial_hash=states[0],
        steps=steps,
        final_observation="",
        won=won,
        score=float(won),
        progress=float(won),
        end_reason="success" if won else "failure",
    )
    credit = tuple(StepCredit(0.0, value=None if values is None else values[n]) for n in range(len(states)))
    return KeptEpisode(str(group), 1, (), True, replace(plain, **changes), iteration, 0, credit)


def test_sizes_of_step_groups_are_counted_within_a_group():
    episodes = [
        episode("aab", "c", won=False),
        episode("ab", "d", won=True),
        episode("a", "d", won=False, group=1),
    ]
    assert sorted(group_sizes(episodes)) == [1, 2, 3]
    assert all(low <= high for _, low, high in BUCKETS)


def test_steps_progress_in_the_graph_of_their_group():
    # the winner goes a b b c: standing still at b is no progress; d leads nowhere
    episodes = [
        episode("abbc", "e", won=True),
        episode("abd", "d", won=False),
        episode("ab", "d", won=False, group=1),
    ]
    assert graph_progress(episodes) == {0: [True, False, True, True], 1: [True, False, False]}


@pytest.fixture
def run(tmp_path):
    """Return the folder of a run on EZPoints, with metrics of everything and one kept iteration."""
    env = open_env("agentgym/EZPoints-v0", split="train")
    kept = []
    for seed in range(2):
        _, info = env.reset(seed=seed)
        states, actions, task = [], [], info["task_id"]
        for action in ("1", *(["="] if seed else [])):
            states.append(info["state_hash"])
            actions.append(action if action in info["admissible_actions"] else info["admissible_actions"][0])
            _, _, terminated, _, info = env.step(actions[-1])
            if terminated:
                break
        kept.append(
            episode(
                states,
                info["state_hash"],
                won=seed == 0,
                values=[0.5] * len(states),
                actions=actions,
                seed=seed,
                task_id=task,
                group=0,
            )
        )
    diagnostics = {
        "k": {"0": 1.0, "8": 3.0},
        "k_by_success": {"new": 8.0, "0": 4.0},
        "states_by_success": {"new": 3.0, "0": 1.0},
        "states": {
            "by_hash": 4.0,
            "by_text": 4.0,
            "samples": 9.0,
            "played": 8.0,
            "score": 0.5,
            "high_score": 0.5,
        },
        "score_by_task_type": {"sum": 0.75, "product": 0.25},
        "trees": {"batches": 0.5},
        "state": {"visits": 2.0, "successes": 1.0, "score": 0.25, "k": 2.0},
    }
    metrics = make_run(2, value_loss=1.0, explained_variance=0.5, diagnostics=diagnostics)
    folder = write_run(tmp_path / "run", metrics, env_id="agentgym/EZPoints-v0")
    write_rollouts(folder, 1, kept)
    return folder


def test_every_diagnostic_is_written_with_its_numbers(run, cli, tmp_path):
    for name in DIAGNOSTICS:
        diagram = json.loads(diagnose(run, name).to_json())
        assert diagram["name"] == name
        for panel in diagram["panels"]:
            assert panel["series"]
            assert all(len(series["y"]) == len(panel["x"]) for series in panel["series"])
    for name in ("step-groups", "stage-seconds"):  # bars, and areas
        code, out, err = cli("plot", run, "--what", name, "--out", tmp_path / f"{name}.svg")
        assert (code, err) == (0, "")
        assert out.splitlines() == [f"written to {tmp_path / name}.svg", f"written to {tmp_path / name}.json"]
        assert json.loads((tmp_path / f"{name}.json").read_text())["panels"]


def test_golden_length_is_that_of_the_oracle(run):
    won, beyond, beyond_won, episodes = diagnose(run, "golden-length").panels
    assert won.x == ("4",)  # two cards, a sign and the end
    assert episodes.series[0].y == (2.0,)
    assert beyond.series[0].y == (-2.5,)  # one step each, and two
    assert beyond_won.series[0].y == (-3.0,)
    assert (beyond_won.series[0].low, beyond_won.series[0].high) == ((None,), (None,))  # one says no interval


SUITE = suite_text("lengths", env_table("agentgym/EZPoints-v0", 6, split="train"), seed=0, attempts=1)


def test_golden_lengths_of_evaluations_stand_beside_those_of_training(cli, run, tmp_path):
    (tmp_path / "lengths.toml").write_text(SUITE)
    run_bench(tmp_path / "lengths.toml", tmp_path / "results", num_envs=4)
    random, oracle = sorted((tmp_path / "results" / "lengths").iterdir(), reverse=True)
    out = tmp_path / "both.png"
    assert cli("plot", oracle, random, run, "--what", "golden-length", "--out", out)[0] == 0
    won, beyond, beyond_won, episodes = json.loads(out.with_suffix(".json").read_text())["panels"]
    assert [each["label"] for each in won["series"]] == [
        "oracle on EZPoints",
        "random on EZPoints",
        "GRPO on EZPoints-v0, seed 0, iteration 1",
    ]
    best, worst, _ = (each["y"] for each in won["series"])
    assert [sum(filter(None, each["y"])) for each in episodes["series"]] == [6, 6, 2]
    assert {y for y in best if y is not None} == {1.0}
    assert {y for y in beyond["series"][0]["y"] if y is not None} == {0.0}
    assert min(y for y in worst if y is not None) < 1.0
    for panel in (beyond, beyond_won):
        ends = zip(*(panel["series"][1][name] for name in ("low", "y", "high")), strict=True)
        assert all(low <= y <= high for low, y, high in ends if low is not None)


def test_distinct_states_of_runs_are_drawn_over_the_actions_of_each(run, tmp_path):
    states = {"by_hash": 10.0}
    shorter = make_run(1, diagnostics={"states": states})
    other = write_run(tmp_path / "other", shorter, env_id="agentgym/EZPoints-v0", algorithm="gigpo")
    count, per_action = diagnose(run, "unique-states", beside=[other]).panels
    assert count.x == (50.0, 100.0)
    assert [series.y for series in count.series] == [(4.0, 4.0), (10.0, None)]
    assert [series.y for series in per_action.series] == [(0.08, 0.04), (0.2, None)]
    again = diagnose(run, "unique-states", beside=[run]).panels[0]
    assert len({series.label for series in again.series}) == 2
    assert len(diagnose(run, "unique-states").panels) == 4  # with those of kept groups


def test_state_scores_are_means_of_each_batch_of_trees(tmp_path):
    def told(batches, score, by_type):
        return {"states": {"score": score}, "trees": {"batches": batches}, "score_by_task_type": by_type}

    tables = [told(0.0, 1.0, {"easy": 1.0}), told(0.5, 0.5, {"easy": 0.0, "hard": 1.0}), told(1.5, 0.25, {})]
    metrics = [replace(each, diagnostics=table) for each, table in zip(make_run(3), tables, strict=True)]
    metrics[2] = replace(metrics[2], diagnostics=tables[2] | {"score_by_task_type": {"hard": 0.25}})
    folder = write_run(tmp_path / "run", metrics)
    mean, by_type = diagnose(folder, "state-score").panels
    assert (mean.x, mean.series[0].y) == ((1.0, 2.0), (0.75, 0.25))
    assert {each.label: each.y for each in by_type.series} == {"easy": (0.5, None), "hard": (1.0, 0.25)}
    assert len(diagnose(folder, "state-score", beside=[folder]).panels) == 3


def test_one_state_has_its_rate_of_success(run):
    first, second = diagnose(run, "one-state").panels
    assert first.x == (2.0, 2.0)
    assert first.series[1].y == (0.5, 0.5)
    assert second.series[0].y == (2.0, 2.0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("step-groups", "keep_rollouts=10"),
        ("values", "keep_rollouts=10"),
        ("critic", "train by ppo or steppo"),
        ("high-score", "train by spo3"),
        ("one-state", "train by spo3"),
        ("state-score", "train by spo3"),
        ("unique-states", "train anew"),
        ("step-group", "did you mean 'step-groups'"),
    ],
)
def test_what_a_run_lacks_is_named(tmp_path, name, says):
    folder = write_run(tmp_path / "run", make_run(2))
    with pytest.raises(UsageError, match=says):
        diagnose(folder, name)


def test_the_list(cli):
    code, out, _ = cli("plot", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:-1]] == list(DIAGNOSTICS)


def test_a_diagnostic_is_of_one_run(cli, run):
    code, _, err = cli("plot", run, run, "--what", "tokens")
    assert code != 0
    assert "one run at a time" in err
    assert cli("plot")[0] != 0


def test_sizes_of_step_groups_at_chosen_iterations(cli, refused, run, tmp_path):
    for iteration in (2, 3, 4):
        episodes = [episode("a" * 12 + "b", "c", won=True, iteration=iteration)]
        write_rollouts(run, iteration, episodes)
    assert [series.label for series in diagnose(run, "step-groups").panels[0].series] == [
        "iteration 1",
        "iteration 4",
    ]
    out = tmp_path / "groups.png"
    assert cli("plot", run, "--what", "step-groups", "--iteration", 4, "--iteration", 2, "--out", out)[0] == 0
    panel = json.loads(out.with_suffix(".json").read_text())["panels"][1]
    assert [series["label"] for series in panel["series"]] == ["iteration 2", "iteration 4"]
    assert panel["series"][0]["y"][panel["x"].index("10-49")] == pytest.approx(12 / 13)
    assert "has kept no rollouts of iteration 7: choose from 1, 2, 3, 4" in refused(
        "plot", run, "--what", "step-groups", "--iteration", 7
    )
