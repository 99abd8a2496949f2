"""Curricula: stages of tasks by their difficulty, in the order of tasks."""

from dataclasses import replace

import pytest

from agentgym.core.tasks import ListTaskSet, Task
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.curriculum import Curriculum, CurriculumConfig
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.config import config_from_json, config_to_json, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.run import resume, start
from tests.training.test_loop import config, interrupt, logged, same, weights

SOKOBAN = "agentgym/Sokoban-v0"
STAGES = CurriculumConfig(by="optimal_moves", levels=(2, 3), iterations=2)
SETTINGS = {
    "env_id": SOKOBAN,
    "env_options": {"max_optimal": 3, "max_steps": 4},
    "curriculum": config_to_json(STAGES),
    "evaluation.every": 0,
    "iterations": 6,
    "checkpoint_every": 1,
    "keep": 9,
}


def hop_tasks(*hops):
    """Return tasks of so many hops each, of a kind that is named after it."""
    ids = [f"{number:032x}" for number in range(len(hops))]
    facts = [{"hops": each, "rare": 1} if each > 1 else {"hops": each} for each in hops]
    return ListTaskSet(
        "train",
        [Task(key, None, key, f"{fact['hops']}hop", fact) for key, fact in zip(ids, facts, strict=True)],
        dataset="made up",
        suite="hops",
    )


def settings(**changes):
    return override(
        config("grpo"), SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    )


def played(monkeypatch, run):
    """Return the optimal moves of each group that a run begins, by its position."""
    found, episodes = {}, TaskOrder.episodes

    def recorded(order, position, size):
        specs = episodes(order, position, size)
        found[position] = order.tasks.find(specs[0].task_id).metadata["optimal_moves"]
        return specs

    with monkeypatch.context() as patch:
        patch.setattr(TaskOrder, "episodes", recorded)
        run()
    return [found[position] for position in sorted(found)]


def test_stages_open_by_iterations_and_no_task_is_left_out_of_a_shuffle():
    tasks = hop_tasks(1, 2, 2, 3, 1, 2, 4)
    curriculum = Curriculum(CurriculumConfig(by="hops", levels=(1, 2, 3), iterations=2), tasks)
    order = TaskOrder(tasks, 0, curriculum)
    assert [curriculum.tasks(stage).tolist() for stage in range(3)] == [
        [0, 4],
        [0, 1, 2, 4, 5],
        [0, 1, 2, 3, 4, 5],
    ]
    assert [curriculum.report(0.0) for _ in range(3)] == [False, True, True]
    curriculum.begin_next(4)
    assert [curriculum.report(0.0) for _ in range(2)] == [False, True]
    curriculum.begin_next(9)
    assert [curriculum.report(1.0) for _ in range(9)] == [False] * 9  # it was the last
    hops = [tasks.find(order.episodes(position, 1)[0].task_id).metadata["hops"] for position in range(15)]
    assert (hops[:4], sorted(hops[4:9]), sorted(hops[9:])) == ([1] * 4, [1, 1, 2, 2, 2], [1, 1, 2, 2, 2, 3])
    ids = [order.episodes(position, 1)[0].task_id for position in range(15)]
    assert len(set(ids[4:9])) == 5
    assert len(set(ids[9:])) == 6


def test_stages_open_by_the_success_of_the_stage_alone():
    both = CurriculumConfig(by="hops", levels=(1, 2, 3), success=0.5, iterations=8)
    curriculum = Curriculum(both, hop_tasks(1, 2, 3))
    reports = [curriculum.report(success) for success in (0.9, 0.9, 0.2, 0.2, 0.2, 0.2, 0.2)]
    assert reports == [False] * 7  # the mean of five is .48 at most
    assert curriculum.report(0.0)  # the eighth iteration
    curriculum.begin_next(9)
    assert [curriculum.report(0.5) for _ in range(5)] == [False] * 4 + [True]


def test_words_and_types_are_levels_in_the_order_that_is_given():
    tasks = hop_tasks(2, 1, 3, 2)
    by_type = CurriculumConfig(by="type", levels=("2hop", "1hop"), iterations=1)
    curriculum = Curriculum(by_type, tasks)
    assert [curriculum.tasks(stage).tolist() for stage in range(2)] == [[0, 3], [0, 1, 3]]
    assert curriculum.describe() == {"stage": 0.0, "tasks": 2.0}


def test_without_a_curriculum_the_order_is_what_it_was():
    envs = open_vector("agentgym/EZPoints-v0", 1, split="train")
    first = [
        spec.task_id[:6] for position in range(3) for spec in TaskOrder(envs.tasks, 3).episodes(position, 1)
    ]
    assert first == ["556039", "1f251f", "a1675a"]


@pytest.mark.parametrize("ahead", [{}, {"rollout__max_staleness": 1, "rollout__overlap": False}])
def test_a_resumed_run_goes_on_in_its_stage(tmp_path, monkeypatch, ahead):
    chosen = settings(**ahead)
    moves = played(monkeypatch, lambda: start(chosen, tmp_path / "whole", logs=["jsonl"]))
    assert set(moves[:6]) == {2}  # and what has begun ahead
    assert 3 in moves[6:]
    stages = [line.diagnostics["curriculum"]["stage"] for line in read_metrics(tmp_path / "whole")]
    assert stages == [0, 0, 1, 1, 1, 1]
    interrupt(monkeypatch, chosen, tmp_path / "parts", 3)
    resume(tmp_path / "parts", logs=["jsonl"])
    assert same(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    parts, whole = logged(tmp_path / "parts"), logged(tmp_path / "whole")
    for line in (*parts, *whole):
        line["diagnostics"].pop("journal", None)
    assert parts == whole


def test_ranks_open_a_stage_at_the_same_position():
    """Each rank has a queue of its own; the next stage begins behind all that any of them has begun."""
    envs = open_vector(SOKOBAN, 4, split="train", options={"max_optimal": 3})
    rollout = RolloutConfig(tasks=2, group_size=1, max_staleness=1, overlap=False)
    told = []

    class Two(Ranks):
        def gather(self, items):
            told.append(items)
            return [*items, 7] if isinstance(items[0], int) else [*items, *items]

    curriculum = Curriculum(replace(STAGES, iterations=1), envs.tasks)
    worker = RolloutWorker(envs, envs.oracle(), env_id=SOKOBAN)
    pool = RolloutPool(worker, TaskOrder(envs.tasks, 0, curriculum), rollout, Two(0, 2))
    pool.collect(0)
    assert told[-1] == [4]  # this rank's next of 0, 2, 4 and so on
    assert (curriculum.stage_at(6), curriculum.stage_at(7)) == (0, 1)


def test_settings_survive_a_file_and_change_by_name():
    chosen = override(settings(), {"curriculum.success": 0.8})
    assert config_from_json(config_to_json(chosen)) == chosen
    assert chosen.curriculum == replace(STAGES, success=0.8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": [2]}, "at least two numbers in ascending order"),
        ({"levels": [2, 1]}, "at least two numbers in ascending order"),
        ({"levels": [1, "two"]}, "at least two numbers in ascending order"),
        ({"levels": ["a", "a"]}, "words, each once"),
        ({"iterations": 0}, r"set curriculum\.iterations, curriculum\.success or both"),
        ({"by": ""}, r"set curriculum\.by"),
        ({"by": "optimal_move"}, "did you mean 'optimal_moves'"),
        ({"levels": [0, 3]}, r"the level 0 of curriculum\.levels adds no task: optimal_moves is 2, 3"),
        ({"levels": ["one", "two"]}, "are words, and optimal_moves is not one of every task"),
        ({"success": 1.5}, "success must be a number from 0 to 1"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message) as error:
        start(
            override(settings(), {f"curriculum.{name}": value for name, value in changes.items()}),
            tmp_path,
            logs=[],
        )
    assert "\n" not in str(error.value)


def test_a_fact_that_some_tasks_lack_is_refused():
    with pytest.raises(UsageError, match="rare is not one of every task"):
        Curriculum(CurriculumConfig(by="rare", levels=(1, 2), iterations=1), hop_tasks(2, 1))


def test_an_algorithm_that_returns_to_earlier_states_is_refused():
    with pytest.raises(UsageError, match=r"leave out curriculum\.by"):
        override(settings(), {"algorithm": "spo3"})
