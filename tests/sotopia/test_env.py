"""The learner's view of a conversation: turns, ends, ratings, rewards, hashes, states."""

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.agents import make_agent
from agentgym.checking import check_agent_env, check_agent_vector_env, interface, states, steps
from agentgym.checking.evidence import factory, run
from agentgym.core.types import Completion
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.envs.sotopia.judges import RuleJudge
from agentgym.envs.sotopia.partners import TemperamentPartner
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.sides import SidesPolicy
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.policy_requests import request
from tests.sotopia import models
from tests.sotopia.episodes import played, started

FORMS = [
    {"actions": "candidates"},
    {"mode": "self-chat"},
    {"order": "simultaneous", "partner": "deceptive"},
    {"order": "random", "partner": "silent"},
    {"order": "simultaneous", "mode": "self-chat"},
    {"reward": "utterance", "view": "lite", "stale_rule": "0.1.4"},
    {"split": "hard", "partner": "stubborn", "view": "omniscient", "max_turns": 7},
]


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_every_form_keeps_the_contract(options, capsys):
    """But for the oracle, which plans against a scripted partner in round-robin order."""

    def make(**more):
        return SotopiaEnv(**{**options, **more})

    if options.get("mode") != "self-chat" and options.get("order", "round-robin") == "round-robin":
        check_agent_env(make)
    else:
        checks = [check for check in interface.CHECKS if check is not interface.check_oracle_wins]
        run((*steps.CHECKS, *states.CHECKS, *checks), factory(make))
        with pytest.raises(UsageError, match="the oracle pla"):
            make().oracle()
    capsys.readouterr()


def test_the_vector_form_of_self_chat_keeps_the_contract():
    check_agent_vector_env(
        lambda num_envs, **options: SotopiaVectorEnv(num_envs, mode="self-chat", **options)
    )


# ---- turns and ends ------------------------------------------------------------------------------


def test_a_step_is_the_learners_action_and_the_partners():
    env = started(partner="fair")
    env.step("speak[Good   morning!\\nWhat would you take?]")
    first, second = env.snapshot().state.talk.turns
    assert first.actions[0] == SocialAction("speak", "Good morning! What would you take?")
    assert (first.acting, second.acting) == ((0,), (1,))
    assert second.actions[1] == TemperamentPartner("fair")._script.reply(
        env.task.content.scenario, 1, env.snapshot().state.talk._replace(turns=(first,))
    )


def test_the_second_side_sees_the_opening():
    env = started(side=1)
    observation, info = env.reset(options={"task": env.tasks[1].id})
    assert "Turn #0: " in observation
    assert (info["side"], info["turn"]) == (1, 0)
    assert len(env.snapshot().state.talk.turns) == 1


def test_in_simultaneous_order_nobody_sees_what_the_other_is_about_to_do():
    for side in (0, 1):
        env = started(side, order="simultaneous")
        other = env.task.content.scenario.characters[1 - side].name
        assert f"Turn #0: {other}" not in env._observe()
        observation = env.step("speak[Hello.]")[0]
        assert f"Turn #0: {other}" in observation
        assert env.max_steps == 20


def test_twenty_turns_are_ten_steps_and_keep_their_score():
    env = started(partner="generous")
    listed = [move.written for move in candidates(env.task.content.scenario, 0, env.snapshot().state.talk)]
    offers = [move for move in listed if move.startswith("action[offer")]
    *_, terminated, truncated, info = played(
        env, *[f"speak[Let us wait, {n}.]" for n in range(9)], offers[-1]
    )
    assert (terminated, truncated, info["turn"]) == (False, True, 10)
    assert env.measures()["overall"] != 0.0
    assert info["score"] == env.measures()["goal"]


def test_leaving_and_doing_nothing_end_the_conversation():
    env = started()
    assert played(env, "leave")[2:4] == (True, False)
    env = started(partner=models.partner(models.Model(lambda _: "none")))
    assert played(env, "none", "none")[2:4] == (True, False)
    assert len(env.snapshot().state.talk.turns) == 3


def test_a_partner_that_opens_by_leaving_leaves_nothing_to_do():
    env = started(side=1, partner=models.partner(models.Model(lambda _: "leave")))
    assert env.admissible_actions() == ("none",)
    _, reward, terminated, _, info = env.step("none")
    assert (reward, terminated, info["score"]) == (0.0, True, 0.0)
    assert env.measures()["utterances"] == 0.0


def test_an_odd_number_of_turns_ends_the_second_sides_episode_itself():
    env = started(side=1, max_turns=3)
    assert env.max_steps == 2
    assert env.step("speak[Hm.]")[2:4] == (True, False)


# ---- actions -------------------------------------------------------------------------------------


def test_sotopias_json_form_is_read():
    env, other = started(), started()
    env.step('{"action_type": "speak", "argument": "Hello!"}')
    other.step("speak[Hello!]")
    assert env.state_hash() == other.state_hash()


@pytest.mark.parametrize(
    "action", ["hello", "speak[]", "shout[hello]", "speak[a]\nspeak[b]", "speak[\ud800]", "{}"]
)
def test_what_cannot_be_read_changes_nothing_and_costs_a_step(action):
    env = started()
    before = env.snapshot().state
    observation, reward, _, _, info = env.step(action)
    assert (env.snapshot().state, reward, info["action_is_valid"], info["turn"]) == (before, 0.0, False, 1)
    assert "could not be read" in observation


@pytest.mark.parametrize("action", ["hello", ""])
def test_unreadable_actions_may_be_played_as_none(action):
    env, other = started(unreadable="none"), started()
    *_, info = env.step(action)
    other.step("none")
    assert info["action_is_valid"] is False
    assert env.snapshot().state == other.snapshot().state


def test_a_rejected_last_action_keeps_the_score():
    env = started(partner="generous", max_steps=2)
    offer = best_offer(env)
    env.step(offer)
    before = env.snapshot().state
    _, reward, terminated, truncated, info = env.step("no such action")
    assert (terminated, truncated, info["score"]) == (False, True, 10.0)
    assert reward == 1.0
    assert info["won"]
    assert env.snapshot().state == before
    assert env.measures()["goal"] == 10.0
    again = SotopiaEnv(split="test", partner="generous", max_steps=2)
    assert again.restore(env.snapshot())[1] == info


def asking(env):
    actions, state = env.admissible_actions(), env.state_hash()
    return request(task_id=env.task.id, admissible_actions=actions, state_hash=state, snapshot=env.snapshot)


def best_offer(env):
    """Return the offer that the partner of a generous temperament accepts at once, the best of them."""
    side = env.task.content.side
    moves = env.oracle()
    action = moves.act([asking(env)])[0].action
    assert action.startswith("action[offer")
    assert side == 0
    return action


def test_candidates_are_the_only_actions():
    env = started(actions="candidates")
    assert env.action_kind == "enumerated"
    assert not env.is_admissible("speak[Hello!]")
    assert env.step(env.admissible_actions()[2])[4]["action_is_valid"]


# ---- rewards and ratings -------------------------------------------------------------------------


def test_rewards_of_utterances_add_up_to_the_goal():
    for reward in ("goal", "utterance"):
        env = started(partner="fair", reward=reward)
        oracle, total, over = env.oracle(), 0.0, False
        paid = []
        while not over:
            _, got, terminated, truncated, info = env.step(oracle.act([asking(env)])[0].action)
            over, total = terminated or truncated, total + got
            paid.append(got)
        assert total == pytest.approx(info["score"] / 10) == pytest.approx(info["progress"])
        assert info["score"] == 10.0
        assert (paid[-1] == 1.0) == (reward == "goal")


def test_measures_are_the_ratings_of_both_sides():
    for side in (0, 1):
        env = started(side, partner="generous")
        played(env, "speak[Please!]", "leave")
        found = env.measures()
        ratings = RuleJudge().answer([(env.task.content.scenario, env.snapshot().state.talk)])[0]["ratings"]
        for prefix, seat in (("", side), ("partner_", 1 - side)):
            own = Ratings(*ratings[seat])
            assert [found[f"{prefix}{name}"] for name in DIMENSIONS] == list(own)
            assert found[f"{prefix}overall"] == own.overall
        assert found["utterances"] == 2.0
        assert env.suite_spec.checked(found) == found


def test_an_episode_that_is_not_over_is_not_rated():
    env = started()
    env.step("speak[Please!]")
    assert set(env.measures().values()) == {0.0, 1.0}
    assert env.measures()["partner_utterances"] == 1.0


@pytest.mark.parametrize(("goal", "won"), [(6, False), (7, True), (10, True)])
def test_won_is_a_goal_above_six(goal, won):
    env = started(judge=models.judge(models.Model(lambda _: models.reply(goal))))
    _, reward, _, _, info = env.step("leave")
    assert (reward, info["score"], info["progress"], info["won"]) == (goal / 10, goal, goal / 10, won)


def test_the_judge_is_asked_once_at_the_end():
    model = models.Model(lambda _: models.reply())
    env = started(judge=models.judge(model))
    played(env, "speak[Hello.]", "speak[Well?]", "leave")
    assert len(model.requests) == 1
    model = models.Model(models.in_turn(*(models.reply(goal) for goal in (2, 5, 4))))
    env = started(judge=models.judge(model), reward="utterance")
    rewards = [env.step(action)[1] for action in ("speak[Hello.]", "speak[Well?]", "leave")]
    assert rewards == pytest.approx([0.2, 0.3, -0.1])


def test_a_model_rates_an_episode_whose_last_action_is_rejected():
    env = started(judge=models.judge(models.Model(lambda _: models.reply(8))), max_steps=1)
    _, reward, _, truncated, info = env.step("no such action")
    assert (reward, truncated, info["score"], info["action_is_valid"]) == (0.8, True, 8.0, False)


def test_rejected_actions_are_not_rated_anew():
    model = models.Model(models.in_turn(models.reply(3), models.reply(9)))
    env = started(judge=models.judge(model), reward="utterance", max_steps=3)
    steps = [env.step(action) for action in ("speak[Hello.]", "no such action", "no such action")]
    assert [step[1] for step in steps] == pytest.approx([0.3, 0.0, 0.0])
    assert len(model.requests) == 1
    assert (steps[-1][3], steps[-1][4]["score"]) == (True, 3.0)


# ---- batches -------------------------------------------------------------------------------------


class Counted:
    """A backend, and how many questions each call of it had."""

    def __init__(self, backend):
        self._backend = backend
        self.kind = backend.kind
        self.calls = []

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def question(self, *arguments):
        return self._backend.question(*arguments)

    def answer(self, questions):
        self.calls.append(len(questions))
        return self._backend.answer(questions)

    def agrees(self, said, computed):
        return said == computed


def test_128_episodes_make_one_batched_ask_a_turn():
    partner, judge = Counted(TemperamentPartner("fair")), Counted(RuleJudge())
    envs = SotopiaVectorEnv(128, split="test", partner=partner, judge=judge, autoreset_mode="Disabled")
    envs.reset(options={"tasks": envs.tasks.ids[:128]})
    assert partner.calls == [64]  # the openings of those whose partner comes first
    steps = 4
    for turn in range(steps):
        envs.step([f"speak[Turn {turn}.]"] * 128)
    assert partner.calls == [64, *[128] * steps]
    assert judge.calls == []
    envs.step(["leave"] * 128)
    assert (len(partner.calls), judge.calls) == (steps + 1, [128])


def test_slots_that_end_at_different_turns_are_rated_in_one_call_each_turn():
    judge = Counted(RuleJudge())
    envs = SotopiaVectorEnv(6, split="test", judge=judge, autoreset_mode="Disabled")
    envs.reset(options={"tasks": envs.tasks.ids[:6]})
    envs.step(["leave"] * 3 + ["speak[Stay.]"] * 3)
    envs.step_at([3, 4, 5], ["leave"] * 3)
    assert judge.calls == [3, 3]


# ---- both sides ----------------------------------------------------------------------------------


def test_in_self_chat_both_sides_are_played_in_turn():
    env = SotopiaEnv(split="test", mode="self-chat")
    observation, info = env.reset(options={"task": env.tasks[0].id})
    scenario = env.task.content.scenario
    for turn in range(4):
        side = turn % 2
        assert info["side"] == side
        assert info["goal"] == " ".join(scenario.goals[side].split())
        assert f"{scenario.characters[1 - side].name}'s goal: Unknown" in observation
        observation, *_, info = env.step(f"speak[This is {turn}.]")
    assert env.max_steps == 20
    *_, info = env.step("leave")
    first, second = env.snapshot().state.ratings
    assert info["score"] == (first.goal + second.goal) / 2
    assert (env.measures()["goal"], env.measures()["partner_goal"]) == (first.goal, second.goal)


class Says:
    """Says one thing, then leaves."""

    def __init__(self, text):
        self.text = text
        self.asked = []

    def act(self, requests):
        self.asked += [request.extra["side"] for request in requests]
        return [Completion(f"speak[{self.text}]" if request.turn < 2 else "leave") for request in requests]


def test_two_policies_play_a_side_each():
    envs = open_vector("agentgym/Sotopia-v0", 4, split="test", options={"mode": "self-chat"})
    first, second = Says("I am first."), Says("I am second.")
    worker = RolloutWorker(envs, SidesPolicy(first, second), env_id="agentgym/Sotopia-v0")
    for trajectory in worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:6]):
        said = [step.action for step in trajectory.steps]
        assert said == ["speak[I am first.]", "speak[I am second.]", "leave"]
    assert (set(first.asked), set(second.asked)) == ({0}, {1})


def test_agents_of_the_package_play_it():
    envs = open_vector("agentgym/Sotopia-v0", 16, split="test", options={})
    goals = {}
    for name in ("random", "rules", "oracle"):
        worker = RolloutWorker(envs, make_agent(name, envs), env_id="agentgym/Sotopia-v0", measured=True)
        ended = list(worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:42]))
        goals[name] = np.mean([trajectory.measures["goal"] for trajectory in ended])
    assert goals["oracle"] >= goals["random"] + 6
    assert goals["random"] < goals["rules"] < goals["oracle"]
