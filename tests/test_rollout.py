"""The rollout worker over a small environment: refilling, silence after the end, independence of batching."""

import dataclasses
import pickle

import gymnasium
import numpy as np
import pytest

from agentgym.agents import make_agent
from agentgym.agents.random import RandomPolicy
from agentgym.core.types import Completion, Step
from agentgym.errors import UsageError
from agentgym.registration import ENVIRONMENTS
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.corridor import LENGTHS, CorridorVectorEnv, RightPolicy

SPECS = [
    EpisodeSpec(f"corridor{length}", seed, rollout)
    for rollout, seed in enumerate((3, 3, 99))
    for length in LENGTHS
]


class Recorder:
    """Passes requests on and keeps them."""

    def __init__(self, policy):
        self.policy = policy
        self.batches = []

    def act(self, requests):
        self.batches.append(list(requests))
        return self.policy.act(requests)


class Says:
    """Answers every request by a function of it."""

    def __init__(self, answer):
        self.answer = answer

    def act(self, requests):
        return [self.answer(request) for request in requests]


def worker(policy, num_envs=3, **options):
    envs = CorridorVectorEnv(num_envs, autoreset_mode="Disabled", **options)
    return RolloutWorker(envs, policy, env_id="test/Corridor-v0")


def timeless(trajectory):
    return dataclasses.replace(trajectory, env_seconds=0.0, model_seconds=0.0)


def test_requests_carry_the_suites_own_keys():
    asked = []

    def answer(request):
        asked.append((request.turn, dict(request.extra)))
        return Completion("right")

    list(worker(Says(answer)).run([EpisodeSpec("corridor3", 5, 0)]))
    assert asked == [(turn, {"cell": turn}) for turn in range(3)]


def test_an_episode_is_recorded_step_by_step():
    (episode,) = worker(RightPolicy()).run([EpisodeSpec("corridor3", 5, 2)])
    assert (episode.env_id, episode.seed, episode.rollout, episode.task_type) == (
        "test/Corridor-v0",
        5,
        2,
        "odd1",
    )
    assert [step.observation for step in episode.steps] == ["cell 0 of 3", "cell 1 of 3", "cell 2 of 3"]
    assert episode.final_observation == "cell 3 of 3"
    assert [step.admissible_actions for step in episode.steps][:2] == [
        ("right", "fall"),
        ("right", "left", "fall"),
    ]
    assert [step.terminated for step in episode.steps] == [False, False, True]
    assert episode.steps[0].state_hash == episode.initial_hash
    assert [step.next_state_hash for step in episode.steps[:-1]] == [
        step.state_hash for step in episode.steps[1:]
    ]
    assert (episode.won, episode.score, episode.progress, episode.end_reason) == (True, 1.0, 1.0, "success")
    assert episode.extra == {"cell": 3}
    assert episode.env_seconds > 0
    assert episode.model_seconds > 0
    assert pickle.loads(pickle.dumps(episode)) == episode


def test_task_id_and_source_id_name_the_same_episode():
    player = worker(RightPolicy())
    task = player.envs.tasks.find("corridor3")
    by_source, by_id = (
        timeless(next(player.run([EpisodeSpec(key, 5, 0)]))) for key in (task.source_id, task.id)
    )
    assert by_source == by_id
    assert by_source.task_id == task.id


@pytest.mark.parametrize(
    ("action", "reason", "won"),
    [("fall", "failure", False), ("jump", "step_limit", False), ("right", "success", True)],
)
def test_end_reasons_of_the_game(action, reason, won):
    (episode,) = worker(Says(lambda _: Completion(action))).run([EpisodeSpec("corridor2", 0, 0)])
    assert (episode.end_reason, episode.won, episode.score) == (reason, won, float(won))
    assert episode.invalid_count == (12 if action == "jump" else 0)


def test_an_answer_that_failed_ends_only_its_own_episode():
    def answer(request):
        if request.turn == 1 and request.task_id == broken:
            return Completion("", error="parse_error", completion_tokens=4)
        return Completion("right")

    player = worker(Says(answer))
    broken = player.envs.tasks.find("corridor5").id
    episodes = {e.task_id: e for e in player.run([EpisodeSpec(f"corridor{n}", 0, 0) for n in LENGTHS])}
    failed = episodes.pop(broken)
    assert (failed.end_reason, failed.won, failed.score, failed.progress) == ("parse_error", False, 0.0, 0.0)
    assert len(failed.steps) == 1
    assert failed.unplayed == Completion("", error="parse_error", completion_tokens=4)
    assert failed.completions == (failed.steps[0].completion, failed.unplayed)
    assert failed.final_observation == "cell 1 of 5"
    assert failed.extra == {"cell": 1}
    assert {e.end_reason for e in episodes.values()} == {"success"}
    assert all(e.completions == tuple(s.completion for s in e.steps) for e in episodes.values())
    assert len(episodes) == len(LENGTHS) - 1


def test_every_answer_may_fail_before_any_step():
    player = worker(Says(lambda _: Completion("", error="agent_error")))
    episodes = list(player.run(SPECS))
    assert len(episodes) == len(SPECS)
    assert {(e.end_reason, e.steps) for e in episodes} == {("agent_error", ())}


def test_finished_episodes_are_never_asked_about():
    recorder = Recorder(RandomPolicy())
    episodes = list(worker(recorder, num_envs=4).run(SPECS))
    turns = {}
    for batch in recorder.batches:
        assert len({request.episode for request in batch}) == len(batch)
        for request in batch:
            assert request.turn == turns.get(request.episode, 0)
            assert request.admissible_actions
            turns[request.episode] = request.turn + 1
    assert sorted(turns.values()) == sorted(len(episode.steps) for episode in episodes)


def test_slots_are_refilled_at_once():
    recorder = Recorder(RightPolicy())
    list(worker(recorder, num_envs=3).run(SPECS))
    sizes = [len(batch) for batch in recorder.batches]
    assert sum(sizes) == sum(LENGTHS) * 3
    full = sizes.count(3)
    assert sizes == [3] * full + sizes[full:]  # full batches until the queue is empty
    assert sizes[full:] == sorted(sizes[full:], reverse=True)
    assert len(sizes) - full < max(LENGTHS)


def test_episodes_are_taken_from_the_queue_only_as_slots_become_free():
    taken = []

    def queue():
        for spec in SPECS:
            taken.append(spec)
            yield spec

    episodes = worker(RightPolicy(), num_envs=2).run(queue())
    assert taken == []
    next(episodes)  # a corridor of one cell
    assert len(taken) == 2
    next(episodes)
    assert len(taken) == 3


def test_an_abandoned_run_leaves_the_worker_usable():
    player = worker(RightPolicy())
    next(player.run(SPECS))
    assert len(list(player.run(SPECS))) == len(SPECS)


def test_no_episodes():
    assert list(worker(RightPolicy()).run([])) == []
    assert worker(RightPolicy()).collect([], group_size=2, seed=0) == []


def test_episodes_do_not_depend_on_their_neighbours():
    def play(num_envs, specs):
        key = lambda e: (e.task_id, e.rollout)  # noqa: E731
        return sorted(map(timeless, worker(RandomPolicy(), num_envs).run(specs)), key=key)

    expected = play(1, SPECS)
    assert play(2, SPECS) == expected
    assert play(5, SPECS[::-1]) == expected
    assert play(64, SPECS) == expected


def test_attempts_with_one_seed_sample_differently():
    specs = [EpisodeSpec("corridor8", 3, rollout) for rollout in range(8)]
    episodes = list(worker(RandomPolicy()).run(specs))
    assert len({tuple(step.action for step in episode.steps) for episode in episodes}) > 1


def test_history_grows_and_stays_what_it_was():
    recorder = Recorder(RightPolicy())
    (episode,) = worker(recorder).run([EpisodeSpec("corridor5", 0, 0)])
    for turn, (request,) in enumerate(recorder.batches):
        assert request.history == episode.steps[:turn]
        assert all(isinstance(step, Step) for step in request.history)


def test_requests_carry_a_snapshot_of_their_own_episode():
    seen = []

    def answer(request):
        snapshot = request.snapshot()
        seen.append(
            (snapshot.task.id, snapshot.turn, snapshot.state[0])
            == (request.task_id, request.turn, request.turn)
        )
        return Completion("right")

    list(worker(Says(answer)).run(SPECS))
    assert len(seen) == sum(LENGTHS) * 3
    assert all(seen)


def test_groups_start_alike_and_differ_in_sampling():
    tasks = ["corridor8", "corridor2", "corridor8"]
    groups = worker(RandomPolicy(), num_envs=5).collect(tasks, group_size=8, seed=1)
    assert [group.trajectories[0].task_id for group in groups] == [
        groups[0].task_id,
        groups[1].task_id,
        groups[0].task_id,
    ]
    for group in groups:
        assert [member.rollout for member in group.trajectories] == list(range(8))
        assert len({member.seed for member in group.trajectories}) == 1
        assert len({member.initial_hash for member in group.trajectories}) == 1
    assert len({group.trajectories[0].seed for group in groups}) == 3
    assert len({tuple(s.action for s in member.steps) for member in groups[0].trajectories}) > 1


def test_groups_depend_on_the_seed_alone():
    def collect(seed, num_envs):
        groups = worker(RandomPolicy(), num_envs).collect(["corridor8", "corridor3"], group_size=3, seed=seed)
        return [tuple(map(timeless, group.trajectories)) for group in groups]

    assert collect(1, 2) == collect(1, 6)
    assert collect(1, 2) != collect(2, 2)


def test_group_size_must_be_positive():
    with pytest.raises(UsageError, match="group_size must be at least 1, got 0"):
        worker(RightPolicy()).collect(["corridor1"], group_size=0, seed=0)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_an_environment_that_resets_itself_is_refused(mode):
    envs = CorridorVectorEnv(2, autoreset_mode=mode)
    with pytest.raises(UsageError, match="autoreset_mode='Disabled'"):
        RolloutWorker(envs, RightPolicy(), env_id="test/Corridor-v0")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda n: [Completion("right")] * (n - 1), "returned 2 completions for 3 requests"),
        (lambda n: [Completion("right")] * (n + 1), "returned 4 completions for 3 requests"),
        (lambda n: ["right"] * n, "must return Completions, got str"),
        (lambda n: [Completion(3)] * n, "action of type int: use a string"),
        (lambda n: [Completion("go \ud83d")] * n, "half a surrogate pair in 'go \\\\ud83d'"),
        (
            lambda n: [Completion("", error="success")] * n,
            "reported an unknown error 'success'; choose one of agent_error",
        ),
    ],
)
def test_a_policy_must_keep_its_promise(answers, message):
    class Careless:
        def act(self, requests):
            return answers(len(requests))

    with pytest.raises(UsageError, match=f"Careless.act .*{message}"):
        list(worker(Careless()).run(SPECS))


def test_an_exception_of_the_environment_propagates_after_what_was_finished():
    def answer(request):
        return Completion("break" if request.observation.endswith("of 3") else "right")

    episodes = worker(Says(answer), num_envs=1).run(SPECS[:3])
    assert [len(next(episodes).steps), len(next(episodes).steps)] == [1, 2]
    with pytest.raises(RuntimeError, match="the corridor broke"):
        next(episodes)


def test_unknown_task():
    with pytest.raises(UsageError, match="no task 'corridor9'"):
        list(worker(RightPolicy()).run([EpisodeSpec("corridor9", 0, 0)]))


def played(env_id, kind, num_envs, count=12):
    """Return what `kind` does in the first tasks, by task."""
    envs = gymnasium.make_vec(env_id, num_envs=num_envs, autoreset_mode="Disabled")
    agent = RolloutWorker(envs, make_agent(kind, envs), env_id=env_id)
    specs = [EpisodeSpec(task.id, seed, 0) for seed, task in enumerate(envs.tasks[:count])]
    episodes = {episode.task_id: episode for episode in agent.run(specs)}
    envs.close()
    return [episodes[spec.task_id] for spec in specs]


@pytest.mark.parametrize("kind", ["random", "random-strings", "oracle"])
@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_real_environments_give_the_same_episodes_in_any_batch(env_id, kind):
    def essence(episode):
        rewards = [step.reward.hex() for step in episode.steps]
        return [step.action for step in episode.steps], rewards, episode.state_hashes, episode.end_reason

    one, many = played(env_id, kind, 1), played(env_id, kind, 5)
    assert list(map(essence, one)) == list(map(essence, many))
    for episode in one:
        assert episode.won == (episode.end_reason == "success")
        assert episode.won or kind != "oracle"


def test_images_of_earlier_steps_stay_what_they_were():
    (episode, *_) = played("agentgym/VisualSokoban-v0", "oracle", 4)
    env = gymnasium.make("agentgym/VisualSokoban-v0")
    seen, _ = env.reset(options={"task": episode.task_id})
    for step in episode.steps:
        assert np.array_equal(step.observation["image"], seen["image"])
        assert step.observation["text"] == seen["text"]
        seen, *_ = env.step(step.action)
    assert np.array_equal(episode.final_observation["image"], seen["image"])
