from dataclasses import replace

import gymnasium
import pytest

import agentgym  # noqa: F401 (registers the environments)
from agentgym.core.types import Message, Policy
from agentgym.errors import UsageError
from agentgym.inference.engines import Sampling
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.prompts.budget import FittedPrompt, PromptTooLongError
from agentgym.prompts.parsers import Answer
from agentgym.prompts.rendering import Prompt
from agentgym.rollout.worker import RolloutWorker
from tests.policy_requests import request

ACTIONS = ("go to shelf 1", "look", "go")


def asking(observation="You stand in a kitchen.", *, actions=ACTIONS, **changes):
    return request(observation=observation, admissible_actions=actions, **changes)


@pytest.fixture
def build(language_model, speller):
    def build(**options):
        """Make a policy; constrained, if nothing else is said."""
        return LanguageModelPolicy(
            HfEngine(language_model.model, version=3),
            language_model.chat,
            lambda asked: language_model.chat.encode_chat(asked.observation),
            **{"sampling": Sampling(max_tokens=8)}
            | ({} if "read" in options else {"speller": speller})
            | options,
        )

    return build


def test_a_constrained_policy_says_what_is_admissible(build, language_model, speller):
    policy = build()
    assert isinstance(policy, Policy)
    asked = [asking(seed=seed) for seed in range(30)]
    completions = policy.act(asked)
    assert {completion.action for completion in completions} <= set(ACTIONS)
    assert len({completion.action for completion in completions}) > 1
    for completion in completions:
        assert completion.prompt_ids == tuple(language_model.chat.encode_chat("You stand in a kitchen."))
        assert completion.response_ids[: len(speller.spell(completion.action))] == speller.spell(
            completion.action
        )
        assert completion.text == language_model.chat.decode(completion.response_ids)
        assert len(completion.logprobs) == len(completion.response_ids) == completion.completion_tokens
        assert completion.prompt_tokens == len(completion.prompt_ids)
        assert completion.version == 3
        assert completion.seconds > 0
        assert completion.error is None


def test_an_answer_is_a_function_of_seed_and_turn(build):
    policy = build()
    asked = [asking(seed=seed, turn=turn) for seed in range(6) for turn in range(6)]
    together = policy.act(asked)
    for question, completion in zip(asked, together, strict=True):
        (alone,) = policy.act([question])
        assert (alone.action, alone.response_ids) == (completion.action, completion.response_ids)
    turns = {tuple(c.action for c in together[6 * seed : 6 * seed + 6]) for seed in range(6)}
    assert len(turns) > 3


def test_free_text_is_read_without_its_stop_token(build, language_model):
    seen = []

    def read(text, asked):
        seen.append(text)
        return Answer("", (f"{asked.turn}:{text[:3]}",), "")

    stops = tuple(range(0, len(language_model.tokenizer), 3))
    policy = build(read=read, sampling=Sampling(max_tokens=5, stop_ids=stops))
    completions = policy.act([asking(seed=seed, turn=2) for seed in range(20)])
    assert len(seen) == 20
    for text, completion in zip(seen, completions, strict=True):
        ids = completion.response_ids
        stopped = ids[-1] in stops
        assert completion.text == text == language_model.chat.decode(ids[:-1] if stopped else ids)
        assert completion.action == f"2:{text[:3]}"
        assert stopped or len(ids) == 5
    assert len({len(completion.response_ids) for completion in completions}) > 1


def test_messages_are_kept_where_the_prompt_is_given_whole(build, language_model, speller):
    chat = language_model.chat

    def prompt(asked):
        text = asked.observation
        return FittedPrompt(Prompt(text, shown=0, dropped=0, cut=0), tuple(chat.encode_chat(text)))

    engine = HfEngine(language_model.model, version=3)
    whole = LanguageModelPolicy(engine, chat, prompt, sampling=Sampling(), speller=speller)
    (kept,), (plain,) = whole.act([asking()]), build().act([asking()])
    assert kept.messages == (Message("user", "You stand in a kitchen."),)
    assert replace(kept, messages=(), seconds=plain.seconds) == plain
    assert plain.messages == ()


def test_what_the_parser_could_not_read_is_a_format_error(build):
    def read(text, asked):
        if asked.turn == 0:
            return Answer("", (), "no <action>...</action> after the thought")
        return Answer("", ("look",), "no <think>...</think>")

    unread, read_anyway = build(read=read).act([asking(), asking(turn=1)])
    assert (unread.action, unread.format_error) == ("", "no <action>...</action> after the thought")
    assert (read_anyway.action, read_anyway.format_error) == ("look", "")


def test_where_nothing_is_admissible_nothing_is_said(build):
    policy = build()
    first, stuck, last = policy.act([asking(), asking(actions=()), asking(seed=8)])
    assert (stuck.action, stuck.response_ids, stuck.error) == ("", (), None)
    assert first.action in ACTIONS
    assert last.response_ids == policy.act([asking(seed=8)])[0].response_ids
    assert policy.act([asking(actions=())])[0].action == ""


def test_an_episode_that_outgrows_the_context_ends(build, language_model):
    policy = build()
    long = " ".join(["look"] * 120)
    first, outgrown = policy.act([asking(), asking(long, turn=1)])
    assert first.error is None
    assert (outgrown.error, outgrown.action, outgrown.response_ids) == ("context_limit", "", ())
    assert outgrown.prompt_tokens == 0  # the model has read none of them
    with pytest.raises(UsageError, match="shorten the prompt"):
        policy.act([asking(long)])


def test_an_episode_that_outgrows_the_prompt_s_budget_ends(language_model, speller):
    def prompt(asked):
        if asked.observation == "long":
            raise PromptTooLongError("raise the budget")
        return language_model.chat.encode(asked.observation)

    policy = LanguageModelPolicy(
        HfEngine(language_model.model), language_model.chat, prompt, sampling=Sampling(), speller=speller
    )
    outgrown, other = policy.act([asking("long", turn=1), asking()])
    assert (outgrown.error, outgrown.action) == ("context_limit", "")
    assert other.action in ACTIONS
    with pytest.raises(PromptTooLongError):
        policy.act([asking("long")])


def test_one_way_to_find_the_action_is_needed(build, speller):
    for options in (
        {"read": None},
        {"speller": speller, "read": lambda text, asked: Answer("", (text,), "")},
    ):
        with pytest.raises(UsageError, match="give either a speller"):
            build(**options)


def test_templates_cannot_be_chosen_among(build):
    templates = ("search[<query>]", "click[back]")
    with pytest.raises(UsageError, match=r"this one gives templates; generate freely instead: 'search\[<qu"):
        build().act([asking(actions=templates)])
    with pytest.raises(UsageError, match=r"this one gives templates; generate freely instead$"):
        build(action_kind="template")
    (free,) = build(read=lambda text, asked: Answer("", ("click[back]",), ""), action_kind="template").act(
        [asking(actions=templates)]
    )
    assert free.action == "click[back]"


def test_angle_brackets_are_no_slots_where_actions_are_enumerated(build):
    actions = ("size < 10", "<b>", "a > b")
    (answer,) = build(action_kind="enumerated").act([asking(actions=actions)])
    assert answer.action in actions
    (answer,) = build().act([asking(actions=("size < 10", "a > b"))])
    assert answer.action in actions


def test_an_action_that_the_vocabulary_cannot_spell_is_named(build, language_model):
    class Narrow:
        """A tokenizer that knows no capital letters."""

        encode = staticmethod(lambda text: language_model.chat.encode(text.lower()))
        decode = staticmethod(language_model.chat.decode)

    policy = build(speller=ActionSpeller(Narrow(), end=language_model.stop_ids[-1]))
    assert policy.act([asking(actions=("look", "go"))])[0].action in ("look", "go")
    with pytest.raises(UsageError, match=r"cannot spell the action 'Go' \(it says 'go'\)"):
        policy.act([asking(actions=("look", "Go"))])


def play(context, budget=None):
    """Play two episodes of Sokoban of at most six steps, in which each prompt is 20 tokens longer."""
    envs = gymnasium.make_vec("agentgym/Sokoban-v0", num_envs=2, autoreset_mode="Disabled", max_steps=6)
    tiny = tiny_model("0.1m", word_tokenizer(environment_texts(envs, episodes=2, seed=0)), context=context)

    def prompt(asked):
        ids = [7] * (40 + 20 * asked.turn)
        if budget is not None and len(ids) > budget:
            raise PromptTooLongError(f"{len(ids)} tokens")
        return ids

    policy = LanguageModelPolicy(
        HfEngine(tiny.model),
        tiny.chat,
        prompt,
        sampling=Sampling(),
        speller=ActionSpeller(tiny.chat, end=tiny.stop_ids[0]),
        action_kind=envs.prototype.action_kind,
    )
    (group,) = RolloutWorker(envs, policy, env_id="agentgym/Sokoban-v0").collect(
        envs.tasks.ids[:1], group_size=2, seed=0
    )
    return group.trajectories


@pytest.mark.parametrize(("context", "budget"), [(100, None), (400, 90)])
def test_rollouts_end_where_prompts_outgrow_the_context_or_their_budget(context, budget):
    for trajectory in play(context, budget):
        assert (trajectory.end_reason, trajectory.score) == ("context_limit", 0.0)
        assert [step.completion.prompt_tokens for step in trajectory.steps] == [40, 60, 80]
        assert trajectory.unplayed.error == "context_limit"
        assert trajectory.unplayed.prompt_tokens == trajectory.unplayed.completion_tokens == 0
    assert {trajectory.end_reason for trajectory in play(400)} == {"step_limit"}


def test_a_rollout_whose_first_prompt_is_too_long_is_an_error():
    with pytest.raises(UsageError, match=r"a prompt of 40 tokens leaves room for 0 .* shorten the prompt"):
        play(40)
    with pytest.raises(PromptTooLongError):
        play(400, 39)


@pytest.mark.parametrize("env_id", ["agentgym/Sokoban-v0", "agentgym/EZPoints-v0"])
def test_a_tiny_model_plays_the_same_episodes_in_any_number_of_slots(env_id):
    played = []
    for slots in (2, 5):
        envs = gymnasium.make_vec(env_id, num_envs=slots, autoreset_mode="Disabled", max_steps=6)
        tiny = tiny_model("0.1m", word_tokenizer(environment_texts(envs, episodes=2, seed=0)))
        policy = LanguageModelPolicy(
            HfEngine(tiny.model),
            tiny.chat,
            lambda asked, chat=tiny.chat: chat.encode_chat(asked.observation),
            sampling=Sampling(),
            speller=ActionSpeller(tiny.chat, end=tiny.stop_ids[0]),
        )
        groups = RolloutWorker(envs, policy, env_id=env_id).collect(envs.tasks.ids[:2], group_size=3, seed=0)
        steps = [step for group in groups for member in group.trajectories for step in member.steps]
        assert all(step.action in step.admissible_actions for step in steps)
        played.append([(step.state_hash, step.completion.response_ids) for step in steps])
    assert played[0] == played[1]
    assert len(played[0]) > 6
