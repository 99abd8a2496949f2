"""Replies of models that are partners or judges: every ordinary wrapping is read, the rest is asked again."""

import json

import pytest

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.game import SocialGame
from agentgym.envs.sotopia.judgeprompt import read_rating
from agentgym.envs.sotopia.modelcalls import MAX_QUOTED
from agentgym.envs.sotopia.partners import read_reply
from tests.sotopia import models
from tests.sotopia.episodes import started
from tests.sotopia.people import play, say, scenario

TALK = play(SocialGame("round-robin", "acting-agents"), say("Forty?"), say("Sixty!"))


# ---- partners ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "<think>They are [polite]. speak[No.]</think>\nspeak[Hello there.]",
        "The prompt began the thought.\n</think>\n\nspeak[Hello there.]",
        "```\nspeak[Hello there.]\n```",
        '```json\n{"action_type": "speak", "argument": "Hello there."}\n```',
        '"speak[Hello there.]"',
        "`speak[Hello there.]`",
        "Speak[Hello there.]",
        "**speak[Hello there.]**",
        "Action: speak[Hello there.]",
        "**Action:** SPEAK [Hello there.]",
        "speak[Hello\nthere.]",
        "speak[Hello there.]\nI hope [this] helps.",
        "Sure! I answer:\n\nspeak[Hello there.]",
        "speak[Hello there.]\nspeak[Hello there.]",
        '{"action_type": "speak", "argument": "Hello there.", "to": "all"}',
        '{"action_type": "Speak", "argument": "Hello there."}',
        'Here is my action: {"action_type": "speak", "argument": "Hello there."}',
        '{"name": "speak", "arguments": {"words": "Hello there."}}',
        '<tool_call>\n{"name": "speak", "arguments": {"words": "Hello\\nthere."}}\n</tool_call>',
        '<think>Hm.</think>speak(words="Hello there.")',
        "speak[Hello there.]<|im_end|>",
    ],
)
def test_a_partner_is_read_however_it_wraps_its_action(answer):
    model = models.Model(lambda _: answer)
    player = models.partner(model)
    env = started(partner=player)
    env.step("speak[Good morning.]")
    assert env.snapshot().state.talk.turns[1].actions[1] == say("Hello there.")
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ('{"action_type": "leave", "argument": null}', "leave"),
        ("<think>Enough.</think>Leave.", "leave"),
        ("non-verbal communication[nods]", "non-verbal[nods]"),
        ("Action: action[pays 40]", "action[pays 40]"),
        ('<tool_call>{"name": "leave", "arguments": {}}</tool_call>', "leave"),
        ("speak[I ] know]", "speak[I ] know]"),
        ("Well:\nspeak[I ] know]", "speak[I ] know]"),
    ],
)
def test_other_actions_of_a_partner_are_read_too(answer, action):
    player = models.partner(models.Model(lambda _: answer))
    assert player.answer([["prompt", 0]]) == [action]


@pytest.mark.parametrize(
    "answer",
    [
        "speak[Bye.]\nleave",
        "<think>I could\nleave",
        "speak[I said [x]\nand more",
        "speak[Hello",
        "First.\nspeak[Hello.]\nSecond.",
        "I would rather not speak[Hello].",
        "speak[]",
        '{"action_type": "speak", "argument": null}',
        '{"action_type": "speak", "argument": ["Hello"]}',
        '{"action_type": "shout", "argument": "Hello"}',
        '{"action_type": "speak", "argument": "a"} {"action_type": "speak", "argument": "b"}',
        '<tool_call>{"name": "shout", "arguments": {"words": "Hello"}}</tool_call>',
        '<tool_call>{"name": "speak", "arguments": {"words": "Hello"}',
        '<tool_call>{"name": "speak", "arguments": "Hello"}</tool_call>',
        "[" * 100_000,
        '{"a":' * 100_000,
        "speak[" * 100_000,
        "**" * 100_000,
    ],
)
def test_a_partner_that_says_no_action_is_asked_again_once_and_what_it_said_is_recorded(answer):
    model = models.Model(lambda _: answer)
    player = models.partner(model)
    (said,) = player.answer([["prompt", 3]])
    assert said == {"unreadable": [answer[:1_000]] * 2}
    assert read_reply(said) == SocialAction("none")
    first, again = model.requests
    assert [message.role for message in again.messages] == ["user", "assistant", "user"]
    assert again.messages[1].text == answer[:MAX_QUOTED]
    assert "speak[your words]" in again.messages[2].text
    assert (first.sample, again.sample) == (3, 3)
    (mended,) = models.partner(models.Model(models.in_turn(answer, "Leave."))).answer([["prompt", 3]])
    assert mended == {"action": "leave", "unreadable": [answer[:1_000]]}
    assert read_reply(mended) == SocialAction("leave")


def test_a_learners_own_action_stays_strict():
    env = started()
    for action in ("Speak[Hello.]", "```\nspeak[Hello.]\n```", '{"action_type": "leave", "argument": null}'):
        assert not env.is_admissible(action)


# ---- judges --------------------------------------------------------------------------------------


RATING = models.reply(5)
PRETTY = json.dumps(json.loads(RATING), indent=2)
REVERSED = json.dumps({side: dict(reversed(rated.items())) for side, rated in json.loads(RATING).items()})


@pytest.mark.parametrize(
    "text",
    [
        RATING,
        PRETTY,
        REVERSED,
        json.dumps(dict(reversed(json.loads(RATING).items()))),
        models.broken(first__extra={"reason": "", "score": 1}, second__goal__score=5, first__goal__score=5),
        models.broken(first__goal__confidence=0.9, first__goal__score=5, second__goal__score=5.0),
        json.dumps(json.loads(RATING) | {"overall": "good"}),
        f"```json\n{RATING}\n```\n",
        f"```\n{PRETTY}\n```",
        f"~~~json\n{RATING}\n~~~",
        f"```JSON\n{RATING}```",
        f"<think>\nBoth {{did}} well.\n</think>\n{RATING}",
        f"The prompt began the thought.</think>\n\n{RATING}",
        f"[THINK]Well.[/THINK]{RATING}",
        f"<think></think>\n```json\n{PRETTY}\n```",
        f"Here are my ratings:\n{RATING}",
        f"Here {{as asked}}, are my ratings:\n\n```json\n{PRETTY}\n```",
        f"{RATING}<|im_end|>",
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{RATING}",
        RATING.replace("because of goal", "because of </think> and ```"),
    ],
)
def test_a_rating_is_read_however_it_is_wrapped(text):
    model = models.Model(lambda _: text)
    rater = models.judge(model)
    (answer,) = rater.answer([rater.question(scenario(), TALK)])
    assert (read_rating(answer)[0].goal, read_rating(answer)[1].goal) == (5, 5)
    assert (len(model.requests), "unreadable" in answer) == (1, False)
