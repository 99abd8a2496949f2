"""Several environments in one run: shares of each batch, an algorithm each, one update."""

import json

import numpy as np
import pytest

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main
from agentgym.core.types import Group
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.config import config_from_json, config_to_json, override, read_config
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from agentgym.training.setup import TrainingSetup
from tests.training.test_loop import EASY, EZPOINTS, config, logged, same, weights

MIX = {"env_id": EZPOINTS, "tasks": 2, "algorithm": "gigpo", "algorithm_options": {"gamma": 0.5}}


def settings(algorithm="grpo", mix=MIX, **changes):
    easy = override(config(algorithm, **changes), EASY)
    return override(easy, {"mix": [mix]})


@pytest.fixture
def trainer(tmp_path):
    setup = TrainingSetup.open(resolve(settings(evaluation__every=0)))
    trainer = Trainer(setup, tmp_path)
    yield trainer
    trainer.close()
    setup.close()


def test_every_batch_has_the_shares_and_each_environment_its_own_algorithm(trainer):
    for iteration in range(2):
        played = trainer._collect()
        groups = played.collected.groups
        ids = [group.trajectories[0].env_id for group in groups]
        assert ids == ["agentgym/Sokoban-v0"] * 3 + [EZPOINTS] * 2
        assert all(len(group.trajectories) == 4 for group in groups)
        rollouts = trainer._rollouts(played.collected)
        scores = trainer.scorer.score(rollouts)
        sokoban, ezpoints = StepBatch.from_groups(groups[:3]), StepBatch.from_groups(groups[3:])
        expected = [ALGORITHMS["grpo"].advantage(sokoban), ALGORITHMS["gigpo"].advantage(ezpoints, gamma=0.5)]
        assert np.array_equal(scores.advantages, np.concatenate(expected))
        assert played.episodes == 20
        assert set(played.collected.diagnostics["success"]) == {"Sokoban-v0", "EZPoints-v0"}
        trainer._count(played, rollouts.steps)
        assert trainer.iteration == iteration + 1


def test_each_environment_has_its_tasks_in_an_order_of_its_own(trainer):
    setup = trainer.setup
    (further,) = setup.mixed
    groups = trainer._collect().collected.groups
    order = TaskOrder(setup.worker.envs.tasks, 0)
    assert [group.task_id for group in groups[:3]] == [
        order.episodes(place, 1)[0].task_id for place in range(3)
    ]
    assert len({group.trajectories[0].seed for group in groups}) == 5
    assert further.config.seed != setup.config.seed
    words = further.config.prompting
    assert (words.temperature, words.choice) == (
        setup.config.prompting.temperature,
        setup.config.prompting.choice,
    )


def test_the_update_is_that_of_all_steps_together(tmp_path):
    """Written out for one iteration, with the learner of a run of its own."""
    from agentgym.algos.tokens import Batch
    from agentgym.training.learner.packing import sampled_log_probs, step_rows

    chosen = settings(iterations=1, evaluation__every=0, checkpoint_every=0, objective__kl_coefficient=0.0)
    start(chosen, tmp_path, logs=[])
    setup = TrainingSetup.open(resolve(chosen))
    groups = []
    for part, size in ((setup, 3), (setup.mixed[0], 2)):
        order = TaskOrder(part.worker.envs.tasks, part.config.seed)
        for position in range(size):
            members = sorted(part.worker.run(order.episodes(position, 4)), key=lambda member: member.rollout)
            groups.append(Group(members[0].task_id, members[0].initial_hash, tuple(members)))
    own = [StepBatch.from_groups(part) for part in (groups[:3], groups[3:])]
    advantages = [ALGORITHMS["grpo"].advantage(own[0]), ALGORITHMS["gigpo"].advantage(own[1], gamma=0.5)]
    steps, sampled = StepBatch.from_groups(groups), sampled_log_probs(groups)
    batch = Batch.of(steps, np.concatenate(advantages), credit="step", old_log_probs=sampled)
    seed = int(np.random.SeedSequence([chosen.seed, 2, 1]).generate_state(1)[0])
    setup.learner.update(step_rows(groups, setup.speller), batch, seed=seed)
    setup.close()
    assert same(
        dict(setup.learner.weights()), {name: weights(tmp_path)[name] for name, _ in setup.learner.weights()}
    )


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    chosen = settings(evaluation__keep_best="splits/EZPoints-v0:valid/score", checkpoint_every=1)
    start(chosen, tmp_path / "whole", logs=["jsonl"])
    asked, act = [], None

    def broken(self, requests):
        asked.append(self)
        if len(asked) == 25:
            raise KeyboardInterrupt
        return act(self, requests)

    from agentgym.inference.policy.policy import LanguageModelPolicy

    act = LanguageModelPolicy.act
    monkeypatch.setattr(LanguageModelPolicy, "act", broken)
    with pytest.raises(KeyboardInterrupt):
        start(chosen, tmp_path / "parts", logs=["jsonl"])
    assert len(set(map(id, asked))) > 1
    monkeypatch.setattr(LanguageModelPolicy, "act", act)
    resume(tmp_path / "parts", logs=["jsonl"])
    assert same(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    parts, whole = logged(tmp_path / "parts"), logged(tmp_path / "whole")
    for line in (*parts, *whole):
        line["diagnostics"].pop("journal", None)
    assert parts == whole
    splits = read_metrics(tmp_path / "whole")[-1].evaluation.splits
    assert set(splits) == {"Sokoban-v0:valid", "EZPoints-v0:valid"}


def test_the_command_line_takes_environments_with_shares(tmp_path, capsys):
    command = ["train", "grpo", "--env", "agentgym/Sokoban-v0", "--model", "tiny:0.1m", "--iterations", "1"]
    small = ["rollout.tasks=1", "rollout.group_size=2", "evaluation.every=0", "env_options.max_steps=2"]
    command += [part for each in small for part in ("--set", each)]
    mixed = ["--mix", f"{EZPOINTS}=2:rloo", "--out", str(tmp_path / "run")]
    assert main([*command, *mixed]) == 0
    (further,) = read_config(tmp_path / "run").mix
    assert (further.env_id, further.tasks, further.algorithm) == (EZPOINTS, 2, "rloo")
    for wrong in (EZPOINTS, f"{EZPOINTS}=some", "=2"):
        assert main([*command, "--mix", wrong, "--out", str(tmp_path / "other")]) == 2
        assert "--mix is ID=GROUPS or ID=GROUPS:ALGORITHM" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "run"), "--mix", f"{EZPOINTS}=1"]) == 2
    assert "leave out --mix" in capsys.readouterr().err


def test_settings_survive_a_file():
    chosen = settings()
    assert config_from_json(json.loads(json.dumps(config_to_json(chosen)))) == chosen


@pytest.mark.parametrize("algorithm", ["ppo", "steppo", "istar", "prime", "spo3", "vine", "exact"])
def test_algorithms_that_need_more_than_whole_episodes_are_refused(algorithm):
    further = {**MIX, "algorithm": algorithm, "algorithm_options": {}}
    for refused in (lambda: settings(algorithm), lambda: settings(mix=further)):
        with pytest.raises(UsageError, match=rf"mix: {algorithm} needs more than the outcomes"):
            refused()


@pytest.mark.parametrize(
    ("changes", "mix", "message"),
    [
        ({}, {"env_id": "agentgym/Sokoban-v0"}, "mix: every environment once"),
        ({}, {"tasks": 0}, "tasks must be a whole number"),
        ({}, {"algorithm": ""}, "algorithm_options of agentgym/EZPoints-v0 are of no algorithm"),
        ({}, {"algorithm_options": {"gama": 1}}, "did you mean 'gamma'"),
        ({}, {"env_options": {"split": "test"}}, "set split instead"),
        ({}, {"algorithm_options": {"match": "embedding"}}, r"leave out algorithm_options\.match"),
        ({"rollout__max_staleness": 1}, {}, r"leave out rollout\.max_staleness"),
        ({}, {"evaluation_split": "tset"}, "did you mean 'test'"),
        ({}, {"env_id": "agentgym/EZPoint-v0"}, "EZPoints-v0"),
    ],
)
def test_what_cannot_be_joined_is_one_line(tmp_path, changes, mix, message):
    with pytest.raises(UsageError, match=message) as error:
        start(settings(mix=MIX | mix, **changes), tmp_path, logs=[])
    assert "\n" not in str(error.value)
