"""Template files: a whole prompt in one file, laid out as its author wants."""

import json
from pathlib import Path

import pytest

from agentgym.core.tools import Tool, ToolParameter
from agentgym.core.types import Completion, Request, Step
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.agent import model_facts
from agentgym.inference.policy.saved import SavedAgent, Training, read_agent
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fields import Exchange, PromptFields
from agentgym.prompts.formats.tags import tag_format
from agentgym.prompts.rendering import render, render_opening, render_present
from agentgym.prompts.settings import Prompting
from agentgym.prompts.template_file import TEXTS, load_template_file
from agentgym.training.config import TrainConfig, override
from tests.saved_agents import save_agent

BUILT_IN = "instructions-last"
OWN = """
id = "mine"
version = 3
first = "Do {task_description}. {current_observation} [{admissible_actions}]"
later = "{step_count}/{current_step} {history_length}: {action_history} {current_observation}"
exchange = "({number} {observation}: {action})"
between = " "
action = "<{action}>"
separator = "|"
[response]
format = "plain"
"""


def fields(turn=0, recent=(), **more):
    given = {"task": "it", "observation": "a room", "admissible_actions": ("up", "go on")} | more
    return PromptFields(turn=turn, recent=tuple(Exchange(*each) for each in recent), **given, **REST)


REST = {"location": "", "held": "", "moved": ()}


def write(folder, text):
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_says_every_word_and_their_order(tmp_path):
    template = load_template_file(write(tmp_path, OWN))
    assert (template.id, template.version) == ("mine/plain", "3")
    assert render(template, fields()).text == "Do it. a room [<up>|<go on>]"
    told = fields(5, [("a hall", "up"), ("a door", "go on")])
    assert render(template, told).text == "5/6 2: (4 a hall: up) (5 a door: go on) a room"
    assert render(template, told, dropped=1).text == "5/6 1: (5 a door: go on) a room"
    assert render(template, told, dropped=2).text == "5/6 0:  a room"
    # where no past turn is asked for, every prompt is as the first
    assert render(template, fields(5)).text == "Do it. a room [<up>|<go on>]"


def test_the_built_in_example_is_pinned_and_has_its_instructions_last():
    template = load_template_file(BUILT_IN)
    assert template.sha256 == "1eee42f8f84aba50e94210a334dbb2061fb526f58b421722cda383bd3b2e05fe"
    text = render(template, fields(1, [("a hall", "up")])).text
    assert text.endswith("between <action> and </action>.")
    assert "1. a hall / up" in text
    assert render_opening(template, fields()).startswith("Task: it\nYou see: a room\n")
    assert render_present(template, fields(1)) == "You see: a room\nYou can do one of these: ['up', 'go on']"
    assert render(template, fields(), cut=4).text.count("a  (4 characters more)") == 1
    assert set(template.texts) == set(TEXTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{current_observation} [", "["), "first lacks the slot {current_observation}: add it"),
        (("{action_history} ", ""), "later lacks the slot {action_history}: add it"),
        (("{task_description}", "{task}"), r"first has no slot 'task'; its slots: admissible_actions, "),
        (("Do {task", "Do {action_history} {task"), "first has no slot 'action_history'"),
        (
            ("{step_count}", "{step_count:03}"),
            "write the slot 'step_count' as {step_count}, without a format",
        ),
        (("Do ", "Do { "), "write {{ and }} for braces"),
        (('exchange = "({number} {observation}: {action})"', ""), "lacks 'exchange', one past turn of"),
        (("{number} {observation}: {action}", "{observation}"), "exchange lacks the slot {action}: add it"),
        (('format = "plain"', ""), "give either format, or action_tag"),
        (('format = "plain"', 'format = "plain"\naction_tag = "a"'), "give either format, or action_tag"),
        (('format = "plain"', 'format = "plain"\nthought_tag = "a"'), "leave out thought_tag"),
        (('format = "plain"', 'action_tag = "a b"'), "'a b' is no name of a tag"),
        (('format = "plain"', 'format = "plan"'), r"unknown answer format 'plan' \(did you mean 'plain'\?\)"),
        (("[response]", "[responce]"), r"unknown key 'responce' \(did you mean 'response'\?\)"),
        (("version = 3", 'version = "3"'), "version is of type int"),
    ],
)
def test_a_file_that_is_no_good_is_refused_by_name(tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        load_template_file(write(tmp_path, OWN.replace(*change)))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read the template file .*none\.toml"):
        load_template_file(str(tmp_path / "none.toml"))
    with pytest.raises(
        UsageError, match=r"unknown template file 'instructions'.*choose one of instructions-last"
    ):
        load_template_file("instructions")


def test_tags_of_one_s_own():
    moves = tag_format("move", "why")
    assert moves.parse(moves.write("It is near.", ["up"])).actions == ("up",)
    assert moves.parse("<why>\nIt is near.\n</why><move> up </move> <move>down</move>").action == "up"
    assert moves.parse("It is near.</why><move>up</move>").thought == "It is near."
    late = moves.parse("<move>up</move><why>It is near.</why>")
    assert (late.action, late.problem) == ("up", "no <why>...</why> before the action")
    assert moves.parse("<why></why>up").problem == "no <move>...</move>"
    assert moves.parse("<why></why><move>u").problem == "an <move> that is not closed"
    assert moves.parse("<why></why><move> </move>").problem == "an empty action"
    assert tag_format("move").parse("<move>up</move>").problem == ""


def test_a_file_may_tell_the_tools(tmp_path):
    text = OWN.replace('"plain"', '"search-r1"').replace("Do {task", "{tools} Do {task")
    tools = tuple(Tool(name, "", (ToolParameter("text"),)) for name in ("search", "answer"))
    template = load_template_file(write(tmp_path, text), tools)
    shown = render(template, fields()).text.partition(" Do it.")[0].splitlines()
    assert [json.loads(line)["function"]["name"] for line in shown] == ["search", "answer"]
    assert template.answer.parse("<think>a</think><search>who</search>").action == "search[who]"
    with pytest.raises(UsageError, match="needs the tools search and answer"):
        load_template_file(write(tmp_path, text), tools[:1])


# ---- as a setting -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wording": "terse"}, "give either a wording and an answer or a template_file"),
        ({"template_file": ""}, "give either a wording and an answer or a template_file"),
        ({"context": "append"}, "lacks 'turn', a later message of the context 'append': add it"),
        ({"context": "summarised"}, r"lacks the slot {summary} in 'later', for its context: add it"),
        ({"choice": "constrained", "template_file": BUILT_IN}, "'instructions-last' asks for more"),
    ],
)
def test_settings_that_do_not_fit_a_file_are_refused(tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        Prompting(**{"template_file": write(tmp_path, OWN)} | settings)


def test_a_file_without_past_turns_needs_a_history_of_none(tmp_path):
    first = OWN.partition("later = ")[0] + "[response]\nformat = 'plain'\n"
    with pytest.raises(
        UsageError, match="lacks 'later', a prompt that tells past turns: add it, or set hist"
    ):
        Prompting(template_file=write(tmp_path, first))
    assert Prompting(template_file=write(tmp_path, first), history=0).template.id == "mine/plain"


def test_a_file_makes_room_and_is_made_room_for():
    config = TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m")
    asked = override(config, {"prompting.template_file": BUILT_IN, "prompting.choice": "free"}).prompting
    assert (asked.wording, asked.answer, asked.template.id) == ("", "", "instructions-last/tags")
    back = asked.replaced({"wording": "terse", "answer": "bare"})
    assert (back.template_file, back.template.id) == ("", "terse/bare")
    with pytest.raises(UsageError, match="unknown answer ''"):
        asked.replaced({"wording": "terse"})


def test_a_saved_agent_takes_its_file_along(tmp_path):
    own = Path(write(tmp_path, OWN))
    model = tiny_model("0.1m", word_tokenizer(["up go on"]), context=2600)
    training = Training(
        env_id="agentgym/EZPoints-v0",
        algorithm="grpo",
        base_model="tiny",
        seed=0,
        run="r",
        iterations=1,
        episodes=1,
        tokens=1,
    )
    agent = SavedAgent(Prompting(template_file=str(own), system="Be brief.", max_tokens=4), training)
    save_agent(tmp_path / "model", model, agent)
    own.unlink()
    moved = (tmp_path / "model").rename(tmp_path / "elsewhere")
    found = read_agent(moved)
    assert found.prompting.template == agent.prompting.template
    assert found.prompting.sha256 == agent.prompting.sha256 != agent.prompting.template.sha256
    facts = model_facts(str(moved))
    assert (facts.parser, facts.sampling["wording"]) == ("plain", "mine")
    assert "template_file" not in facts.sampling
    save_agent(moved, load_model(moved), found)
    (moved / "other.toml").write_text(OWN.replace("Do ", "Go "))
    saved = found.prompting.to_json() | {"template_file": "other.toml"}
    with pytest.raises(UsageError, match="the words of the template mine/plain have changed"):
        Prompting.from_json(saved, folder=moved)


def test_the_budget_holds_for_files_too():
    class Words:
        def encode_chat(self, message):
            return [len(word) for word in message.split()]

    history = tuple(
        Step(f"room {number}", "0", (), Completion("up"), 0.0, "0", True, False, False) for number in range(3)
    )
    request = Request(0, "t", "", 3, "a b c d", ("up",), "0", 7, history, extra={"goal": "leave"})
    template = load_template_file(BUILT_IN)
    whole = PromptBuilder(template, Words(), 100, history=3).build(request)
    less = PromptBuilder(template, Words(), len(whole.ids) - 1, history=3).build(request)
    assert (whole.prompt.shown, less.prompt.shown, less.prompt.dropped) == (3, 2, 1)
    assert "The last 2, with" in less.prompt.text
    none = PromptBuilder(template, Words(), len(whole.ids) - 16, history=3).build(request)
    assert none.prompt.shown == 0
    assert none.prompt.cut > 0
    assert "The last 0, with" in none.prompt.text
