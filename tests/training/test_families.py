"""Models of three families are loaded, asked and served by the same code, whatever their template."""

import json
from dataclasses import replace

import pytest
import torch

from agentgym.core.tools import Tool, ToolParameter, tool_schemas
from agentgym.core.types import Completion, Request, Step
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models.families import FAMILIES, make_family_model
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.tiny_names import FAMILY_NAMES, tiny_size
from agentgym.inference.policy.prompted import make_policy
from agentgym.inference.policy.saved import read_agent
from agentgym.prompts.chat_template import ChatSetup, option_names
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.config import TrainConfig, config_to_json, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from tests.training.test_chat_template import render_chat

TEXTS = ("Go up, down, left or right.", "You push boxes onto targets.")
TOOLS = tool_schemas(
    (Tool("look_up", "Look it up.", (ToolParameter("word"),)), Tool("wait", "", template="wait"))
)
SYSTEM = "Be brief, <b>please</b>."
OPTIONS = {
    "qwen2": {},
    "qwen3": {"enable_thinking": False},
    "llama3": {"date_string": "2 May 2026", "tools_in_user_message": False},
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def loaded(family, tmp_path_factory):
    directory = tmp_path_factory.mktemp(family)
    save_model(directory, make_family_model(family, TEXTS))
    return load_model(directory)


def turns(*, tools):
    """A chat with everything in it that a template may show."""
    call = {"type": "function", "function": {"name": "look_up", "arguments": {"word": "tea"}}}
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nOne."},
        {"role": "user", "content": "Second?"},
        *([{"role": "assistant", "content": "", "tool_calls": [call]}] if tools else []),
        *([{"role": "tool", "content": "A drink."}] if tools else []),
    ]


def test_the_files_say_what_family_it_is(family, loaded):
    expected = FAMILIES[family]
    assert type(loaded.model) is expected.model
    assert {loaded.tokenizer.convert_ids_to_tokens(token) for token in loaded.stop_ids} == set(expected.stops)
    for token in (*expected.stops, *expected.special, *expected.marks):
        assert len(loaded.chat.encode(token)) == 1, token
    text = "Go up: 12 ünïted <b>boxes</b>\n\n  'tis"
    assert loaded.chat.decode(loaded.chat.encode(text)) == text


def test_the_same_words_and_seed_give_the_same_weights(family):
    first, again, other = (
        make_family_model(family, TEXTS, seed=seed).model.get_input_embeddings().weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_unknown_family_is_refused():
    with pytest.raises(UsageError, match="unknown family 'gpt'; choose one of qwen2, qwen3, llama3"):
        make_family_model("gpt", TEXTS)


@pytest.mark.parametrize("tools", [(), tuple(TOOLS)], ids=["plain", "tools"])
@pytest.mark.parametrize("system", ["", SYSTEM], ids=["default", "system"])
def test_a_question_renders_as_elsewhere(family, loaded, system, tools):
    setup = ChatSetup(system, tools, OPTIONS[family])
    chat = [
        *([{"role": "system", "content": system}] if system else []),
        {"role": "user", "content": " Hé?\n"},
    ]
    source, special = loaded.tokenizer.chat_template, loaded.tokenizer.special_tokens_map
    for options in ({}, OPTIONS[family]):
        expected = loaded.tokenizer.apply_chat_template(
            chat, tools=list(tools) or None, tokenize=False, add_generation_prompt=True, **options
        )
        assert render_chat(source, " Hé?\n", special, ChatSetup(system, tools, options)) == expected
    assert setup.taken_by(loaded.chat.template) == setup
    assert all(json.dumps(tool["function"]["name"]) in expected for tool in tools)


def test_a_family_s_options_are_known_and_others_refused(family, loaded):
    assert option_names(loaded.tokenizer.chat_template) == set(OPTIONS[family])
    with pytest.raises(UsageError, match="the chat template reads no option 'thinks'"):
        ChatSetup(options={"thinks": True}).taken_by(loaded.chat.template)


def test_thinking_is_off_where_it_is_switched_off(loaded, family):
    chat = loaded.chat.set_up(ChatSetup(options=OPTIONS[family]))
    asked = loaded.chat.decode(chat.encode_chat("Go"))
    assert asked.endswith("<think>\n\n</think>\n\n") == (family == "qwen3")
    assert "<think>" not in loaded.chat.decode(loaded.chat.encode_chat("Go"))


@pytest.mark.parametrize("tools", [False, True])
def test_whole_chats_render(family, loaded, tools):
    chat = turns(tools=tools)
    text = loaded.tokenizer.apply_chat_template(
        chat, tools=TOOLS if tools else None, tokenize=False, add_generation_prompt=True
    )
    assert text.index("First?") < text.index("One.") < text.index("Second?")
    assert text.count(SYSTEM) == 1
    assert ("hm" in text) == (family != "qwen3")  # which forgets the thoughts of earlier answers
    assert text.count("A drink.") == tools
    calls = text[text.index("Second?") :]
    assert ('"look_up"' in calls and '"tea"' in calls) == tools
    if tools:
        assert calls.index('"tea"') < calls.index("A drink.")


def test_what_a_message_spells_ends_no_message(family, loaded):
    expected = FAMILIES[family]
    hostile = "".join((*expected.stops, *expected.special, "system"))
    quiet, loud = (loaded.chat.encode_chat(f"Go {text}up") for text in ("", hostile))
    structure = set(loaded.tokenizer.convert_tokens_to_ids([*expected.stops, *expected.special]))
    assert [token for token in loud if token in structure] == [token for token in quiet if token in structure]
    assert hostile in loaded.chat.decode(loud)


@pytest.mark.parametrize("choice", ["constrained", "free"])
def test_a_family_s_model_plays(family, loaded, choice):
    answer = "bare" if choice == "constrained" else "tool-calls"
    prompting = Prompting(
        wording="generic",
        answer=answer,
        choice=choice,
        max_tokens=4,
        system=SYSTEM,
        template_options=OPTIONS[family],
    )
    envs = open_vector("agentgym/Sokoban-v0", 2, options={"dim_room": [6, 6], "num_boxes": 1, "max_steps": 3})
    policy = make_policy(prompting, loaded, HfEngine(loaded.model), envs, keep_messages=True)
    worker = RolloutWorker(envs, policy, env_id="agentgym/Sokoban-v0")
    (group,) = worker.collect(envs.tasks.ids[:1], group_size=2, seed=1)
    steps = [step for trajectory in group.trajectories for step in trajectory.steps]
    assert steps
    assert all(step.action in step.admissible_actions for step in steps) or choice == "free"
    envs.close()


def test_saving_keeps_the_template(family, loaded, tmp_path):
    save_model(tmp_path, loaded)
    assert load_model(tmp_path).tokenizer.chat_template == loaded.tokenizer.chat_template


# ---- training -----------------------------------------------------------------------------------

EZPOINTS = "agentgym/EZPoints-v0"
ITERATION = {
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.num_envs": 4,
    "learner.learning_rate": 1e-2,
    "evaluation.every": 0,
    "env_options.max_steps": 3,
    "prompting.max_tokens": 6,
    "prompting.choice": "free",
    "prompting.wording": "terse",
    "prompting.answer": "plain",
}


def trainer_of(model, folder, **changes):
    plain = TrainConfig(algorithm="grpo", env_id=EZPOINTS, model=model)
    config = override(plain, ITERATION | {f"prompting.{name}": value for name, value in changes.items()})
    return Trainer(TrainingSetup.open(resolve(config)), folder)


@pytest.mark.parametrize("context", ["rebuilt", "append", "window"])
def test_a_family_trains_an_iteration(family, context, tmp_path):
    trainer = trainer_of(f"tiny-{family}:0.1m", tmp_path, context=context)
    assert type(trainer.setup.language_model.model) is FAMILIES[family].model
    metrics = trainer.iterate()
    assert metrics.episodes == 4
    assert metrics.logp_diff < 1e-4  # the learner reads what was sampled, whatever the template
    trainer.save()
    saved = load_model(trainer.checkpoint / "model")
    assert type(saved.model) is FAMILIES[family].model
    assert (read_agent(trainer.checkpoint / "model").prompting.context) == context


@pytest.mark.parametrize("context", ["rebuilt", "append"])
@pytest.mark.parametrize("thinks", [True, False])
def test_a_model_that_may_think_trains_an_iteration_with_thoughts_and_without(thinks, context, tmp_path):
    options = {"enable_thinking": thinks}
    trainer = trainer_of("tiny-qwen3:0.1m", tmp_path, context=context, template_options=options)
    config = json.loads(json.dumps(config_to_json(trainer.config)))
    assert config["prompting"]["template_options"] == options
    collected = []
    collect = trainer.collector.collect
    trainer.collector.collect = lambda version: collected.append(collect(version)) or collected[-1]
    metrics = trainer.iterate()
    assert (metrics.episodes, metrics.version) == (4, 1)
    assert metrics.logp_diff < 1e-4
    chat = trainer.setup.language_model.chat
    (batch,) = collected
    for member in (each for group in batch.groups for each in group.trajectories):
        for turn, step in enumerate(member.steps):
            prompt = chat.decode(step.completion.prompt_ids)
            assert prompt.endswith("<think>\n\n</think>\n\n") != thinks
            assert prompt.count("<|im_start|>user") == (turn + 1 if context == "append" else 1)


@pytest.mark.parametrize("thinks", [True, False])
def test_append_keeps_the_thoughts_that_the_template_drops(thinks, tmp_path):
    prompting = Prompting(
        wording="terse",
        answer="think-action",
        context="append",
        template_options={} if thinks else {"enable_thinking": False},
    )
    model = make_family_model("qwen3", [*TEXTS, "It is near."])
    builder, chat = prompting.builder(model.chat), model.chat
    said = "<think>\nIt is near.\n</think>\n<action>up</action>"
    end = model.tokenizer.eos_token_id
    first = builder.build(Request(0, "t", "", 0, "a room", ("up",), "0", 7)).ids
    played = Completion("up", said, prompt_ids=first, response_ids=(*chat.encode(said), end))
    step = Step("a room", "0", ("up",), played, 0.0, "0", True, False, False)
    request = Request(0, "t", "", 1, "a hall", ("up",), "0", 7, history=(step,))
    text = chat.decode(builder.build(request).ids)
    assert text.startswith(chat.decode(first) + said + "<|im_end|>\n<|im_start|>user\na hall")
    assert text.count("<think>\n\n</think>") == (
        0 if thinks else 2
    )  # one before each answer, as it was sampled
    window = replace(prompting, context="window").builder(model.chat).build(request)
    assert "It is near." not in chat.decode(window.ids)


def test_a_tiny_model_is_named_by_its_family():
    message = r"unknown model 'tiny-qwen4' \(did you mean 'tiny-qwen3'\?\); choose one of tiny-qwen2, "
    with pytest.raises(UsageError, match=message):
        tiny_size("tiny-qwen4")
    assert (tiny_size("tiny-qwen3"), tiny_size("tiny-llama3:0.1m"), tiny_size("./tiny-town")) == (
        "0.8m",
        "0.1m",
        None,
    )


def test_names_that_are_checked_without_torch_are_those_of_the_families():
    assert tuple(FAMILIES) == FAMILY_NAMES
