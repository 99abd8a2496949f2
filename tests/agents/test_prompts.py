"""Prompts hold what they must, in an order that lets them share a beginning; their words are pinned."""

import json
import re
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401 (registers the environments)
from agentgym.core.types import Completion, Request, Step
from agentgym.envs.sokoban import level
from agentgym.errors import UsageError
from agentgym.prompts import answers, load_template, wordings
from agentgym.prompts.fields import Exchange, PromptFields
from agentgym.prompts.rendering import Prompt, render
from agentgym.registration import ENVIRONMENTS, suite_spec
from tests.pace import within

GOLDEN = Path(__file__).with_name("templates.json")
TEMPLATES = {
    f"{wording}/{answer}": load_template(wording, answer) for wording in wordings() for answer in answers()
}

WORDS = st.text(max_size=40)
SLOTS = st.builds(
    PromptFields,
    task=WORDS,
    observation=WORDS,
    turn=st.integers(5, 50),
    recent=st.lists(st.builds(Exchange, WORDS, WORDS), max_size=5).map(tuple),
    admissible_actions=st.lists(WORDS, max_size=5).map(tuple),
    location=WORDS,
    held=WORDS,
    moved=st.lists(WORDS, max_size=3).map(tuple),
)
ANY_TEMPLATE = st.sampled_from(sorted(TEMPLATES)).map(TEMPLATES.get)


def slots(**changes):
    values = {
        "task": "find the mug.",
        "observation": "You see a shelf.",
        "turn": 7,
        "recent": (Exchange("first", "look"), Exchange("second", "wait")),
        "admissible_actions": ("go to shelf 1", "look"),
        "location": "",
        "held": "",
        "moved": (),
    }
    return PromptFields(**(values | changes))


# ---- identity -----------------------------------------------------------------------------------


def test_templates_are_what_they_were():
    """Where this fails on purpose: raise the version in every file whose words have changed, then write
    what the test computes into templates.json."""
    golden = json.loads(GOLDEN.read_text())
    assert {
        key: {"version": template.version, "sha256": template.sha256} for key, template in TEMPLATES.items()
    } == golden


def test_an_assembled_prompt_is_what_it_was():
    account = {"location": "shelf 1", "held": "mug 1", "moved": ("mug 2 to shelf 1", "mug 3 to shelf 2")}
    template = TEMPLATES["alfworld-account/bare"]
    role = template.sections["role"]
    assert render(template, slots(**account), dropped=1, cut=6).text == (
        f"{role}\n\n"
        "Your task in this home: find the mug.\n\n"
        "Earlier turns left out to keep this message short: 1\n\n"
        "What happened last, oldest first (1 of 7 turns):\n\n"
        "Turn 7, you saw:\nsecond\nYou did: wait\n\n"
        "What you see now, after 7 turns:\nYou see a \n"
        "[Characters left out from here on to keep this message short: 6]\n\n"
        "You are at: shelf 1\n\nIn your hands: mug 1\n\n"
        "You have moved: mug 2 to shelf 1, mug 3 to shelf 2\n\n"
        "Possible actions:\ngo to shelf 1\nlook"
    )


def test_ids_versions_and_files_agree():
    assert set(TEMPLATES) == {template.id for template in TEMPLATES.values()}
    assert len({template.sha256 for template in TEMPLATES.values()}) == len(TEMPLATES)
    assert all(re.fullmatch(r"[0-9a-f]{64}", template.sha256) for template in TEMPLATES.values())


def test_every_suite_names_wordings_that_there_are():
    prompts = [suite_spec(env_id).prompt for env_id in ENVIRONMENTS]
    assert {name for prompt in prompts for name in (prompt.wording, prompt.tiny_wording)} <= set(wordings())


def test_any_changed_word_changes_the_sha256(tmp_path):
    def sha256(text):
        path = tmp_path / "own.toml"
        path.write_text(text, encoding="utf-8")
        return load_template(str(path), "plain").sha256

    own = 'id = "own"\nversion = 1\nextends = "generic"\n[sections]\nrole = "You play."\n'
    changes = [("You play.", "You play!"), ("version = 1", "version = 2"), ('"own"', '"mine"')]
    texts = [own, *(own.replace(*change) for change in changes), own.replace("generic", "alfworld")]
    texts.append(own.replace("[sections]", 'separator = ";"\n[sections]'))
    texts.append(own.replace("[sections]", 'example_actions = ["b"]\n[sections]'))
    assert len({sha256(text) for text in texts}) == len(texts)
    assert sha256(own) == sha256("# A comment.\n" + own)


# ---- what is in a prompt ------------------------------------------------------------------------


@given(template=ANY_TEMPLATE, filled=SLOTS, data=st.data())
def test_nothing_that_matters_is_lost(template, filled, data):
    dropped = data.draw(st.integers(0, len(filled.recent)))
    cut = data.draw(st.integers(0, len(filled.observation)))
    prompt = render(template, filled, dropped=dropped, cut=cut)
    assert (prompt.shown, prompt.dropped, prompt.cut) == (len(filled.recent) - dropped, dropped, cut)
    assert prompt.text.startswith(template.static)
    assert filled.task in prompt.text
    assert prompt.text.endswith(
        template.sections["actions"].format(actions=template.separator.join(filled.admissible_actions))
        if filled.admissible_actions
        else template.sections["stuck"]
    )
    assert filled.observation[: len(filled.observation) - cut] in prompt.text
    for past in filled.recent[dropped:]:
        assert past.observation in prompt.text
        assert past.action in prompt.text
    assert not dropped or template.sections["omitted"].format(dropped=dropped) in prompt.text
    assert not cut or template.sections["cut"].format(cut=cut) in prompt.text


@given(template=ANY_TEMPLATE, first=SLOTS, second=SLOTS)
def test_prompts_share_their_beginning(template, first, second):
    """Prompts of a template share its static text, those of one task the task as well."""
    for filled in (first, replace(second, task=first.task)):
        told = template.sections["task"].format(task=first.task) if first.task else ""
        beginning = "\n\n".join(part for part in (template.static, told) if part)
        assert render(template, filled).text.startswith(beginning)


def test_what_stands_in_a_slot_is_never_filled_itself():
    text = render(
        TEMPLATES["generic/bare"], slots(observation="{task} {0} {{", admissible_actions=("{x}",))
    ).text
    assert "{task} {0} {{" in text
    assert text.endswith("\n{x}")


def test_turns_are_numbered_from_the_first_of_the_episode():
    text = render(TEMPLATES["generic/bare"], slots()).text
    assert re.findall(r"Turn (\d+), you saw:\n(\w+)", text) == [("6", "first"), ("7", "second")]


def test_empty_slots_leave_no_trace():
    empty = slots(task="", recent=(), turn=0, admissible_actions=())
    assert render(TEMPLATES["terse/bare"], empty).text == "You see a shelf.\n\nstuck"


@pytest.mark.parametrize("left_out", [{"dropped": 3}, {"dropped": -1}, {"cut": 99}, {"cut": -1}])
def test_no_more_is_left_out_than_there_is(left_out):
    with pytest.raises(UsageError, match=r"^cannot leave out .*: leave out less$"):
        render(TEMPLATES["generic/bare"], slots(), **left_out)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_example_in_a_prompt_can_be_read_back(name):
    template = TEMPLATES[name]
    _, told, shown = template.static.removesuffix(template.listing).partition("An example:\n")
    if name.endswith("/bare"):
        assert not told
        return
    answer = template.answer.parse(shown)
    assert answer.problem == ""
    assert len(answer.actions) == 1
    assert bool(answer.thought) == template.answer.thinks


def test_the_legend_of_sokoban_is_true():
    role = TEMPLATES["sokoban/bare"].sections["role"]
    meanings = {
        level.WALL: "a wall",
        level.TARGET: "a target",
        level.BOX: "a box",
        level.BOX_ON_TARGET: "a box on a target",
        level.PLAYER: "you",
        level.PLAYER_ON_TARGET: "you on a target",
    }
    legend = role.split("\n")[1:4]
    told = dict(entry.split(" is ") for line in legend for entry in line.split(", ") if entry[1:5] == " is ")
    assert told == {chr(symbol): meaning for symbol, meaning in meanings.items()}
    assert "a blank is free floor" in legend[0]
    assert chr(level.FLOOR) == " "


# ---- with the environments ----------------------------------------------------------------------


@pytest.mark.parametrize("env_id", sorted(ENVIRONMENTS))
@pytest.mark.parametrize("answer", answers())
def test_an_episode_is_played_through_prompts(env_id, answer):
    env = gymnasium.make(env_id).unwrapped
    wording = env.suite_spec.prompt.wording
    if answer == "search-r1" and "answer" not in {tool.name for tool in env.tools}:
        with pytest.raises(UsageError, match=r"^the answer format 'search-r1' needs the tools .*$"):
            load_template(wording, answer, env.tools)
        return
    template = load_template(wording, answer, env.tools)
    observation, info = env.reset(seed=3)
    history = ()
    for turn in range(4):
        state, actions = info["state_hash"], info["admissible_actions"]
        request = Request(0, info["task_id"], "", turn, observation, actions, state, 3, history, None, info)
        filled = PromptFields.of(request, history=2)
        prompt = render(template, filled)
        assert isinstance(prompt, Prompt)
        assert prompt.shown == min(turn, 2)
        assert filled.observation in prompt.text
        response = template.answer.write("Because.", [actions[turn % len(actions)]])
        action = template.answer.parse(response).action
        seen = observation
        observation, reward, terminated, truncated, info = env.step(action)
        assert info["action_is_valid"]
        ended = (terminated, truncated)
        done = Step(seen, state, actions, Completion(action), float(reward), info["state_hash"], True, *ended)
        history += (done,)
        if any(ended):
            break


# ---- what cannot be loaded ----------------------------------------------------------------------


def test_unknown_names_are_refused():
    with pytest.raises(
        UsageError, match=r"^unknown wording 'sokobam' \(did you mean 'sokoban'\?\); choose .*$"
    ):
        load_template("sokobam", "plain")
    with pytest.raises(
        UsageError, match=r"^unknown answer 'plan' \(did you mean 'plain'\?\); choose one of .*$"
    ):
        load_template("sokoban", "plan")


OWN = 'id = "own"\nversion = 1\nextends = "generic"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = ", "is not TOML: .*"),
        ('id = "own"', "lacks 'version': add it"),
        ('id = "own"\nversion = 1', "lacks 'separator': add it"),
        (OWN + "roles = 1", r"has an unknown key 'roles'.*; it takes id, version, .*"),
        (
            OWN + "[sections]\nrule = ''",
            r": sections has an unknown key 'rule' \(did you mean 'role'\?\); .*",
        ),
        (OWN + "[sections]\nrole = 1", ": sections: role is of type str, got 1"),
        ('id = "own"\nversion = true', ": version is of type int, got True"),
        (
            OWN.replace("generic", "generik"),
            r"extends an unknown wording 'generik' \(did you mean 'generic'\?\); choose one of .*",
        ),
        (OWN + "example_actions = [1]", ": example_actions are strings: put them in quotes"),
        (OWN + "[sections]\ntask = 'To do'", ": section 'task' lacks the slot {task}: add it"),
        (
            OWN + "[sections]\nexchange = '{action}'",
            ": section 'exchange' lacks the slot {observation}: add it",
        ),
        (
            OWN + "[sections]\ntask = '{tusk}'",
            r": section 'task' has no slot 'tusk' \(did you mean 'task'\?\); .*",
        ),
        (OWN + "[sections]\nrole = '{task}'", ": section 'role' has no slot 'task'; its slots: none"),
        (OWN + "[sections]\ntask = '{task.a}'", ": section 'task' has no slot 'task.a'.*; its slots: task"),
        (OWN + "[sections]\ntask = '{task!r}'", ": section 'task': write the slot 'task' as {task}, .*"),
        (OWN + "[sections]\ntask = '{task:9}'", ": section 'task': write the slot 'task' as {task}, .*"),
        (
            OWN + "[sections]\ntask = '{task} }'",
            ": section 'task': .*: write {{ and }} for braces that are no slot",
        ),
        (
            OWN + "[sections]\ntask = '{task} {'",
            ": section 'task': .*: write {{ and }} for braces that are no slot",
        ),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, message):
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_template(str(path), "plain")
    assert re.fullmatch(rf"the template file {re.escape(str(path))}( |(?=:)){message}", str(caught.value))


def test_an_incomplete_file_is_refused(tmp_path):
    path = tmp_path / "own.toml"
    keys = 'id = "own"\nversion = 1\nseparator = ""\nexample_thought = ""\nexample_actions = ["a"]\n'
    path.write_text(keys, encoding="utf-8")
    with pytest.raises(UsageError, match=r"own\.toml lacks 'task': add it$"):
        load_template(str(path), "plain")


def test_an_unreadable_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"^cannot read the template file .*none\.toml: No such file.*$"):
        load_template(str(tmp_path / "none.toml"), "plain")
    path = tmp_path / "own.toml"
    path.write_bytes(b"id = \xff")
    with pytest.raises(UsageError, match=r"^the template file .*own\.toml is not UTF-8 text \(byte 5\)$"):
        load_template(str(path), "plain")


def test_an_example_that_cannot_be_stated_is_refused(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN + 'example_actions = ["</action>"]', encoding="utf-8")
    with pytest.raises(UsageError, match=r"^the format 'think-action' cannot state the actions .*$"):
        load_template(str(path), "think-action")


# ---- speed --------------------------------------------------------------------------------------


def test_a_long_prompt_is_rendered_in_no_time():
    long = slots(
        recent=(Exchange("You see a shelf. " * 120, "go to shelf 1"),) * 2,
        observation="On the shelf you see a mug. " * 80,
        admissible_actions=tuple(f"go to shelf {i}" for i in range(80)),
    )
    template = TEMPLATES["alfworld/think-action"]
    assert len(render(template, long).text) > 8_000  # 2,000 tokens of four characters

    within(60, lambda: [render(template, long) for _ in range(200)])  # measured: 3
