import copy
import json

import gymnasium
import pytest

import agentgym  # noqa: F401 (registers the environments)
from agentgym.core.types import Request
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import Generation
from agentgym.inference.models.tiny import CHAT_TEMPLATE, environment_texts, tiny_model, word_tokenizer
from agentgym.inference.policy.prompted import make_policy, make_speller
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.settings import Prompting
from agentgym.registration import ENVIRONMENTS, suite_spec
from agentgym.rollout.worker import RolloutWorker

SOKOBAN = "agentgym/Sokoban-v0"


@pytest.fixture(scope="module")
def envs():
    return gymnasium.make_vec(SOKOBAN, num_envs=2, autoreset_mode="Disabled", max_steps=4)


@pytest.fixture(scope="module")
def player(envs):
    return tiny_model("0.1m", word_tokenizer(environment_texts(envs, episodes=2, seed=0)))


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_every_environment_can_be_asked_about_in_two_ways(env_id):
    tiny, usual = Prompting.tiny(suite_spec(env_id).prompt), Prompting.default(suite_spec(env_id).prompt)
    assert (tiny.choice, usual.choice) == ("constrained", "free")
    assert len(tiny.template.static) < 20 < len(usual.template.static)
    assert usual.template.answer.thinks


def test_json_gives_the_record_back():
    prompting = Prompting(wording="alfworld", answer="think-action", history=3, temperature=0)
    table = json.loads(json.dumps(prompting.to_json()))
    assert Prompting.from_json(table) == prompting
    assert table["template"]["sha256"] == prompting.template.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"template": {"id": "a/b", "version": "0", "sha256": "0" * 64}},
            "words of the template a/b have",
        ),
        ({"template": {"id": "a/b"}}, "template: key 'version' is missing"),
        ({"histroy": 1}, r"unknown key 'histroy' \(did you mean 'history'\?\)"),
        ({"history": "2"}, "history: expected an integer, got '2'"),
        ({"choice": "any"}, "'any' must be one of 'constrained', 'free'"),
    ],
)
def test_another_record_is_refused(change, message):
    with pytest.raises(UsageError, match=f"here: .*{message}"):
        Prompting.from_json({**Prompting.tiny(suite_spec(SOKOBAN).prompt).to_json(), **change}, where="here")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"history": -1}, "history must be a whole number of at least 0"),
        ({"budget": 0}, "budget must be a whole number of at least 1"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1"),
        ({"choice": "any"}, "unknown choice 'any'; choose one of constrained, free"),
        ({"template_options": {"tools": True}}, "'tools' is not an option of a chat template: leave it out"),
        ({"template_options": {"bos_token": "a"}}, "'bos_token' is not an option"),
        ({"template_options": {"a b": 1}}, "'a b' is not an option"),
        ({"template_options": {"a": [1]}}, r"a is true or false, a number or a string, got \[1\]"),
        ({"template_options": {"a": float("nan")}}, "a is true or false, a number or a string, got nan"),
        ({"choice": "constrained"}, "'think-action' asks for more: use the answer 'bare'"),
        ({"wording": "sokobann"}, r"unknown wording 'sokobann' \(did you mean 'sokoban'\?\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        Prompting(**{"wording": "sokoban", "answer": "think-action"} | settings)


def test_system_message_and_options_are_part_of_the_identity():
    prompting = Prompting(wording="sokoban", answer="tool-calls")
    assert prompting.sha256 == prompting.template.sha256
    told = [
        prompting.replaced(more)
        for more in (
            {"system": "Be brief."},
            {"system": "Be brief"},
            {"template_options": {"enable_thinking": False}},
            {"template_options": {"enable_thinking": True}},
        )
    ]
    assert len({prompting.sha256, *(each.sha256 for each in told)}) == 5
    for each in told:
        assert Prompting.from_json(json.loads(json.dumps(each.to_json()))) == each


CALLS = "{% for each in message.tool_calls %}<tool_call>{{ each.function | tojson }}</tool_call>{% endfor %}"
SILENT = "{% if tools %}{{ tools | tojson }}{% endif %}{{ '<think>' if thinks }}" + CHAT_TEMPLATE
WITH_TOOLS = SILENT.replace("<|im_end|>", CALLS + "<|im_end|>")
WITHOUT_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ thinks }}" + CHAT_TEMPLATE
)


def asked(player, envs, template, **settings):
    """Return the builder over a chat template, and the prompt of an episode's first turn."""
    tokenizer = copy.deepcopy(player.tokenizer)
    tokenizer.chat_template = template
    prompting = Prompting(wording="sokoban", answer="tool-calls", **settings)
    builder = prompting.builder(ChatTokenizer(tokenizer), envs.prototype.tools)
    request = Request(0, "t", "", 0, "######", ("up", "down"), "0", 7)
    fitted = builder.build(request)
    return builder, fitted, tokenizer.decode(list(fitted.ids))


def test_tools_and_system_message_go_where_the_chat_template_has_a_place(envs, player):
    options = {"thinks": True}
    builder, fitted, text = asked(player, envs, WITH_TOOLS, system="Be brief.", template_options=options)
    assert [message.role for message in fitted.messages] == ["tools", "system", "user"]
    (schema,) = map(json.loads, fitted.messages[0].text.splitlines())
    assert schema["function"]["name"] == "move"
    assert fitted.messages[1].text == "Be brief."
    assert "The tools that you can call" not in fitted.messages[2].text
    assert text.startswith(
        f"{json.dumps([schema])}<think><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
    )
    assert text.count('"enum"') == 1
    said = '<tool_call>{"name": "move", "arguments": {"direction": "up"}}</tool_call>'
    assert builder.template.answer.parse(said).actions == ("up",)
    assert builder.template.answer.write("", ["up"]) == said
    assert "<tool_call>" not in fitted.messages[2].text  # the chat template tells how to call
    with pytest.raises(UsageError, match=r"takes tools, but its call of move is not read back.*--answer"):
        asked(player, envs, SILENT)


def test_tools_and_system_message_are_in_the_prompt_where_there_is_no_place(envs, player):
    _, fitted, text = asked(player, envs, WITHOUT_SYSTEM, system="Be brief.", template_options={"thinks": 1})
    (message,) = fitted.messages
    assert message.text.startswith("Be brief.\n\nYou are playing Sokoban")
    assert message.text.count('"enum"') == 1
    assert message.text in text
    assert len(fitted.ids) == len(player.chat.encode(text))
    with pytest.raises(UsageError, match="the chat template reads no option 'thinks'"):
        asked(player, envs, CHAT_TEMPLATE, template_options={"thinks": 1})


def test_a_policy_calls_the_environment_s_own_tools(envs, player):
    class Says:
        """An engine whose every response is a call."""

        context_length, version = 10_000, 0

        def generate(self, requests):
            ids = (*player.chat.encode(said), player.stop_ids[-1])
            return [Generation(ids, (0.0,) * len(ids), 0, "stop") for _ in requests]

    said = 'Up! <tool_call>\n{"name": "move", "arguments": {"direction": "up"}}\n</tool_call>'
    policy = make_policy(Prompting(wording="sokoban", answer="tool-calls"), player, Says(), envs)
    groups = RolloutWorker(envs, policy, env_id=SOKOBAN).collect(envs.tasks.ids[:1], group_size=1, seed=0)
    assert {step.action for step in groups[0].trajectories[0].steps} == {"up"}
    with pytest.raises(UsageError, match="needs the tools search and answer"):
        make_policy(Prompting(wording="sokoban", answer="search-r1"), player, Says(), envs)


def test_a_wording_of_one_s_own_is_found_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "own.toml").write_text('id = "own"\nversion = 1\nextends = "terse"\n')
    saved = {**Prompting(wording=str(tmp_path / "own.toml"), answer="bare").to_json(), "wording": "own.toml"}
    found = Prompting.from_json(saved, folder=tmp_path)
    assert found.template.id == "own/bare"
    monkeypatch.chdir(tmp_path)
    assert Prompting.from_json(saved).template == found.template


def test_replaced_checks_what_it_is_given():
    tiny = Prompting.tiny(suite_spec(SOKOBAN).prompt)
    assert tiny.replaced({"temperature": 0, "history": None}).temperature == 0.0
    with pytest.raises(UsageError, match=r"unknown key 'temprature' \(did you mean 'temperature'\?\)"):
        tiny.replaced({"temprature": 1})
    with pytest.raises(UsageError, match="history must be a whole number of at least 0"):
        tiny.replaced({"history": -1})


@pytest.mark.parametrize(
    "prompting",
    [
        Prompting.tiny(suite_spec(SOKOBAN).prompt),
        Prompting(wording="terse", answer="think-action", max_tokens=6, budget=999),
    ],
)
def test_a_policy_asks_and_answers_as_the_record_says(prompting, envs, player):
    policy = make_policy(prompting, player, HfEngine(player.model), envs)
    groups = RolloutWorker(envs, policy, env_id=SOKOBAN).collect(envs.tasks.ids[:1], group_size=2, seed=0)
    builder = prompting.builder(player.chat)
    steps = [step for member in groups[0].trajectories for step in member.steps]
    assert len(steps) == 8
    for step in steps:
        said = step.completion
        assert len(said.prompt_ids) <= prompting.budget
        assert step.observation in player.chat.decode(said.prompt_ids)
        if prompting.choice == "constrained":
            assert step.action in step.admissible_actions
        else:
            assert len(said.response_ids) <= 6
            assert builder.template.answer.parse(said.text).action == step.action == ""


def test_a_learner_may_share_the_policy_s_speller(envs, player):
    prompting = Prompting.tiny(suite_spec(SOKOBAN).prompt)
    speller = make_speller(prompting, player)
    assert speller.trie(("up", "down")).allowed(0)
    assert make_policy(prompting, player, HfEngine(player.model), envs, speller=speller).act([]) == []
    assert make_speller(Prompting.default(suite_spec(SOKOBAN).prompt), player) is None


def test_a_context_that_is_too_small_is_refused(envs, player):
    prompting = Prompting.tiny(suite_spec(SOKOBAN).prompt).replaced({"budget": 4096})
    with pytest.raises(UsageError, match=r"do not fit the context of 4,096: lower the budget$"):
        make_policy(prompting, player, HfEngine(player.model), envs)
    with pytest.raises(UsageError, match="lower the budget or max_tokens"):
        make_policy(prompting.replaced({"choice": "free"}), player, HfEngine(player.model), envs)


def test_actions_with_slots_cannot_be_chosen_among(envs, player):
    class Slots:
        prototype = type("SearchEnv", (), {"action_kind": "template"})()

    with pytest.raises(UnsupportedEnvError, match="actions of SearchEnv have free slots"):
        make_policy(
            Prompting.tiny(suite_spec("agentgym/EZPoints-v0").prompt), player, HfEngine(player.model), Slots()
        )
