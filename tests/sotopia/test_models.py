"""Models as partners and judges: prompts, strict reading, repairs, samples, what is recorded."""

import json
from concurrent.futures import Future
from threading import Thread

import pytest

from agentgym import UsageError
from agentgym.core.queries import AsyncQueryBackend, UnansweredError
from agentgym.endpoint.chat import ChatMessage, ChatReply
from agentgym.endpoint.errors import (
    ContentFilteredError,
    ContextOverflowError,
    KeyRefusedError,
    UnansweredRequestError,
)
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.envs.sotopia.game import SocialGame
from agentgym.envs.sotopia.judgeprompt import judge_prompt, read_rating, read_reply, reply_schema
from agentgym.envs.sotopia.judges import TRIES, RuleJudge
from agentgym.envs.sotopia.modelcalls import MAX_QUOTED
from agentgym.envs.sotopia.partners import MAX_REPLY_LENGTH
from agentgym.envs.sotopia.partners import read_reply as read_partner
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.spread import ratings_spread
from agentgym.evaluation.log.recorded_answers import (
    RecordedAnswers,
    RecordingAnswers,
    ReplayedAnswers,
    answer_pins,
)
from tests.sotopia import models
from tests.sotopia.people import play, say, scenario

GAME = SocialGame("round-robin", "acting-agents")
TALK = play(GAME, say("Forty?"), say("Sixty!"))


def started(side=0, **options):
    env = SotopiaEnv(**{"split": "test", **options})
    env.reset(options={"task": env.tasks[side].id})
    return env


# ---- partners ------------------------------------------------------------------------------------


def test_a_model_is_asked_what_a_learner_on_its_side_is_shown():
    model = models.Model(lambda _: "speak[Well, hello.]")
    env = started(partner=models.partner(model), mode="partner")
    env.step("speak[Good morning.]")
    both = SotopiaEnv(split="test", mode="self-chat")
    both.reset(options={"task": both.tasks[0].id})
    observation, *_, info = both.step("speak[Good morning.]")
    (prompt,) = model.prompts
    assert observation in prompt
    assert f"Your goal: {info['goal']}" in prompt
    assert all(action in prompt for action in info["admissible_actions"])
    assert env.snapshot().state.talk.turns[1].actions[1] == say("Well, hello.")
    for _ in range(2):
        env.step("speak[And?]")
    assert [f"after {n} turns of yours:" in prompt for n, prompt in enumerate(model.prompts)] == [True] * 3


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("speak[ Hello\\n there ]", say("Hello there")),
        ('{"action_type": "action", "argument": "bows"}', SocialAction("action", "bows")),
        ("leave", SocialAction("leave")),
        ("I would say hello.", SocialAction("none")),
        ("", SocialAction("none")),
        ("speak[a]\nspeak[b]", SocialAction("none")),
        (f"speak[{'a' * MAX_REPLY_LENGTH}]", SocialAction("none")),
        ("speak[\ud800]", SocialAction("none")),
    ],
)
def test_an_unreadable_answer_of_a_partner_is_none(answer, action):
    env = started(partner=models.partner(models.Model(lambda _: answer)))
    env.step("speak[Good morning.]")
    assert env.snapshot().state.talk.turns[1].actions[1] == action


def test_a_partner_may_think_first():
    model = models.Model(lambda _: "<think>Fine.</think><action>speak[Hello.]</action>")
    env = started(partner=models.partner(model, format="think-action"))
    env.step("speak[Good morning.]")
    assert env.snapshot().state.talk.turns[1].actions[1] == say("Hello.")
    assert "<think>" in model.prompts[0]


def test_attempts_are_samples_and_openings_are_not():
    """Attempts at one task begin alike, then go apart."""
    model = models.Model(lambda request: f"speak[Sample {request.sample} at {request.sampling.temperature}.]")
    envs = SotopiaVectorEnv(3, split="test", partner=models.partner(model), autoreset_mode="Disabled")
    task = envs.tasks.ids[1]
    envs.reset_at([0, 1, 2], [task] * 3, [0] * 3, [0, 1, 2])
    assert len(model.requests) == 1
    assert [envs.snapshot(i).state.talk.turns[0].actions[0].argument for i in range(3)] == [
        "Sample 0 at 0.0."
    ] * 3
    envs.step(["speak[Hello.]"] * 3)
    said = [envs.snapshot(i).state.talk.turns[2].actions[0].argument for i in range(3)]
    assert said == [f"Sample {i} at 0.7." for i in range(3)]
    kinds = {name: backend.kind for name, backend in envs.prototype.query_backends.items()}
    assert (kinds["opening"].sampled, kinds["partner"].sampled) == (False, True)


def test_a_slow_partner_holds_up_its_own_episode_only():
    slow: Future = Future()
    model = models.Model(lambda request: "speak[Well.]")

    def submit(request):
        return slow if "slow" in request.messages[0].text else model(request)

    envs = SotopiaVectorEnv(2, split="test", partner=models.partner(submit), autoreset_mode="Disabled")
    envs.reset(options={"tasks": [envs.tasks[0].id] * 2})
    envs.begin_steps([0, 1], ["speak[I am slow.]", "speak[I am quick.]"])
    assert envs.collect_answers().ready == (1,)
    envs.step_at([1], ["speak[I am quick.]"])
    Thread(target=lambda: slow.set_result(ChatReply("speak[At last.]"))).start()
    envs.step_at([0], ["speak[I am slow.]"])
    assert envs.snapshot(0).state.talk.turns[1].actions[1] == say("At last.")


@pytest.mark.parametrize("error", [UnansweredRequestError, ContextOverflowError, ContentFilteredError])
def test_a_request_without_an_answer_ends_one_episode(error):
    broken = models.Model(lambda _: error("there is no answer"))
    for options in ({"partner": models.partner(broken)}, {"judge": models.judge(broken)}):
        env = started(**options)
        before = env.snapshot()
        with pytest.raises(UnansweredError, match="does not answer: there is no answer"):
            env.step("speak[Hello.]" if "partner" in options else "leave")
        assert env.snapshot() == before
    opening = SotopiaEnv(split="test", partner=models.partner(broken))
    for _ in range(2):
        with pytest.raises(UnansweredError, match="the partner does not answer"):
            opening.reset(options={"task": opening.tasks[1].id})
    assert len(broken.requests) == 4


def test_what_concerns_every_request_stops_the_run():
    refused = models.Model(lambda _: KeyRefusedError("the key is wrong"))
    for options in ({"partner": models.partner(refused)}, {"judge": models.judge(refused)}):
        with pytest.raises(KeyRefusedError):
            started(**options).step("speak[Hello.]" if "partner" in options else "leave")


# ---- judges --------------------------------------------------------------------------------------


def test_one_call_rates_both_sides_at_temperature_0():
    model = models.Model(lambda _: models.reply(9, secret=-4))
    env = started(judge=models.judge(model))
    env.step("speak[Please.]")
    env.step("leave")
    (request,) = model.requests
    assert request.sampling.temperature == 0.0
    assert request.response_schema == reply_schema()
    assert request.sample == 0
    assert env.measures()["secret"] == env.measures()["partner_secret"] == -4
    (prompt,) = model.prompts
    for text in (*env.task.content.scenario.goals, *(c.secret for c in env.task.content.scenario.characters)):
        assert " ".join(text.split()) in " ".join(prompt.split())


UNREADABLE = [
    ("I rate both 10.", "no JSON"),
    ("", "no JSON"),
    ("[1, 2]", "no JSON object with the keys first and second"),
    (json.dumps({"first": {}}), "no JSON object with the keys first and second"),
    (json.dumps({"first": {}, "second": {}}), "first must have the keys believability"),
    (models.broken(second__goal=None), "second must have the keys"),
    (f"{models.reply(3)}\n{models.reply(4)}", "no JSON"),
    (f"<think>They say {models.reply(10)}", "no JSON"),
    (models.broken(first__goal=7), "first.goal must have a reason and a score"),
    (models.broken(first__goal__score=11), "first.goal.score must be a whole number from 0 to 10, and is 11"),
    (
        models.broken(second__secret__score=1),
        "second.secret.score must be a whole number from -10 to 0, and is 1",
    ),
    (models.broken(second__relationship__score=-6), "from -5 to 5"),
    (models.broken(first__goal__score=7.5), "is 7.5"),
    (models.broken(first__goal__score="7"), "is '7'"),
    (models.broken(first__goal__score=True), "is True"),
    (models.broken(first__goal__reason=3), "reason must be a string"),
    (models.reply() + " So be it.", "no JSON"),
    (models.reply()[:-1], "no JSON"),
    (models.reply().replace("7", "7" * 5_000), "digits"),
]


@pytest.mark.parametrize(("text", "problem"), UNREADABLE)
def test_what_is_wrong_with_a_rating_is_quoted_and_repaired_once(text, problem):
    model = models.Model(models.in_turn(text, models.reply(4)))
    rater = models.judge(model)
    (answer,) = rater.answer([rater.question(scenario(), TALK)])
    assert read_rating(answer)[0].goal == 4
    first, repair = model.requests
    assert [message.role for message in repair.messages] == ["user", "assistant", "user"]
    assert repair.messages[:2] == (*first.messages, ChatMessage("assistant", text[:MAX_QUOTED]))
    assert problem in repair.messages[2].text
    assert (first.sample, repair.sample) == (0, 0)


def test_a_rating_that_is_never_readable_costs_four_requests():
    model = models.Model(lambda _: "ten")
    env = started(judge=models.judge(model))
    with pytest.raises(UnansweredError, match="no rating in 2 tries"):
        env.step("leave")
    assert [request.sample for request in model.requests] == [n for n in range(TRIES) for _ in range(2)]
    assert [len(request.messages) for request in model.requests] == [1, 3] * TRIES
    model = models.Model(models.in_turn(*["ten"] * 3, models.reply(3)))
    env = started(judge=models.judge(model))
    assert env.step("leave")[4]["score"] == 3.0


def test_reasons_are_recorded_and_do_not_count():
    rater = models.judge(models.Model(lambda _: models.reply(5)))
    (answer,) = rater.answer([rater.question(scenario(), TALK)])
    assert answer["reasons"][0][-1] == "because of goal"
    assert rater.agrees(answer, answer | {"reasons": []})
    assert not rater.agrees(answer, read_reply(models.reply(6)))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"ratings": []},
        {"ratings": [[1] * 7]},
        {"ratings": [[0] * 6, [0] * 7]},
        {"ratings": [[0] * 7, [0, 0, 0, 1, 0, 0, 0]]},
        {"ratings": [[0] * 7, [0.0] * 7]},
        {"ratings": [[0] * 7, [False] * 7]},
    ],
)
def test_a_recorded_rating_is_read_strictly(answer):
    with pytest.raises(UsageError, match="a judge rates both sides with seven whole numbers"):
        read_rating(answer)
    with pytest.raises(UsageError, match="a partner answers with an action"):
        read_partner(answer)


def test_a_prompt_of_ones_own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        'id = "mine"\nversion = 3\ntext = "{first} and {second}: {context} / {conversation} {{}}"\n'
        'repair = "Not so: {problem}"\n',
        encoding="utf-8",
    )
    model = models.Model(models.in_turn("?", models.reply()))
    rater = models.judge(model, prompt=str(path))
    rater.answer([rater.question(scenario(), TALK)])
    assert model.prompts[0].startswith("Mara Quill and Otto Brand: Here is the context")
    assert model.prompts[0].endswith(" {}")
    assert model.requests[1].messages[2].text.startswith("Not so: ")
    own = judge_prompt(str(path))
    assert f"mine/3 {own.sha256[:16]}" in rater.kind.name
    assert own.sha256 != judge_prompt().sha256


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id = 3", "expected a string"),
        ('id = "a"\nversion = 1\ntext = "{context}"\nrepair = "{problem}"', "needs context, conversation"),
        ('id = "a"\nversion = 1\ntext = "{context}{conversation}{x}"\nrepair = "{problem}"', "may have"),
        ('id = "a"\nversion = 1\ntext = "{context}{conversation}{"\nrepair = "{problem}"', "write braces"),
        ('id = "a"\nversion = 1\ntext = "{context}{conversation}"\nrepair = ""', "needs problem"),
        ('id = "a"\nversion = 1\nwords = ""', "unknown key 'words'"),
        ("no toml", "is not TOML"),
    ],
)
def test_a_prompt_that_is_no_good_is_refused(tmp_path, text, problem):
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=problem) as refused:
        SotopiaEnv(judge={"endpoint": "http://127.0.0.1:9/v1", "model": "m", "prompt": str(path)})
    assert "\n" not in str(refused.value)


def test_the_words_of_our_prompt_are_pinned():
    """Where this fails on purpose: raise the version in the file first."""
    prompt = judge_prompt()
    assert (prompt.id, prompt.version, prompt.sha256[:16]) == ("sotopia-judge", 1, "a5177bac540fece1")
    assert all(name in prompt.text for name in DIMENSIONS)


# ---- records -------------------------------------------------------------------------------------


def recorded(tmp_path):
    """Play an episode with a model as partner and judge; return what was recorded, and what it came to."""
    partner = models.partner(models.Model(models.in_turn("speak[Sixty.]", "speak[Fifty.]")))
    rater = models.judge(models.Model(lambda _: models.reply(8)))
    env = started(side=1, partner=partner, judge=rater)
    lines = []
    book = RecordedAnswers()
    env.answer_source = RecordingAnswers(book, "talk", lines.append)
    env.reset(options={"task": env.tasks[1].id})
    for action in ("speak[Forty.]", "leave"):
        *_, info = env.step(action)
    return book, info, lines


def test_what_models_say_is_recorded_and_replayed(tmp_path):
    book, info, lines = recorded(tmp_path)
    assert [json.loads(line)["kind"].split()[0] for line in lines] == ["opening", "partner", "judge"]
    silent = models.Model(lambda _: UnansweredRequestError("closed"))
    env = started(side=0, partner=models.partner(silent), judge=models.judge(silent))
    env.answer_source = ReplayedAnswers(book, "talk")
    env.reset(options={"task": env.tasks[1].id})
    for action in ("speak[Forty.]", "leave"):
        *_, again = env.step(action)
    assert again == info
    assert silent.requests == []
    assert {pin.name for pin in answer_pins(env.query_backends)} == {"opening", "partner", "judge"}
    check, problems = env.answer_source.check()
    assert (check.recorded, check.attested, problems) == (3, 3, [])


def test_another_utterance_has_no_recorded_answer(tmp_path):
    book, *_ = recorded(tmp_path)
    silent = models.Model(lambda _: UnansweredRequestError("closed"))
    env = started(side=0, partner=models.partner(silent), judge=models.judge(silent))
    env.answer_source = ReplayedAnswers(book, "talk")
    env.reset(options={"task": env.tasks[1].id})
    with pytest.raises(UnansweredError, match="has no answer"):
        env.step("speak[Forty-one.]")


def test_scripts_and_rules_are_never_recorded():
    env = started()
    assert answer_pins(env.query_backends) == ()
    assert not any(isinstance(backend, AsyncQueryBackend) for backend in env.query_backends.values())
    assert isinstance(models.partner(None), AsyncQueryBackend)


# ---- spread --------------------------------------------------------------------------------------


def test_the_spread_of_a_judge():
    goals = iter([4, 6, 7, 7, 5, 7])
    model = models.Model(lambda _: models.reply(next(goals)))
    talks = [(scenario(), TALK), (scenario(), play(GAME, say("Hello?")))]
    found = ratings_spread(models.judge(model), talks, times=3)
    # the first conversation is rated 4, 7, 5 and the second 6, 7, 7
    assert found.deviations["goal"] == pytest.approx(((7 / 3 + 1 / 3) / 2) ** 0.5)
    assert found.means["goal"] == pytest.approx(6)
    assert found.deviations["secret"] == 0.0
    assert (found.conversations, found.unrated, found.times) == (2, 0, 3)
    assert [request.sample for request in model.requests] == [0, 0, 2, 2, 4, 4]


def test_the_spread_leaves_out_what_is_not_rated():
    def answer(request):
        return "?" if "Hello" in request.messages[0].text else models.reply()

    talks = [(scenario(), TALK), (scenario(), play(GAME, say("Hello?")))]
    found = ratings_spread(models.judge(models.Model(answer)), talks)
    assert (found.conversations, found.unrated) == (1, 1)
    with pytest.raises(UsageError, match="no conversation could be rated"):
        ratings_spread(models.judge(models.Model(lambda _: "?")), talks)
    with pytest.raises(UsageError, match="at least two"):
        ratings_spread(RuleJudge(), talks, times=1)


def test_the_rules_have_no_spread():
    env = started()
    env.step("speak[Hello.]")
    found = ratings_spread(RuleJudge(), [(env.task.content.scenario, env.snapshot().state.talk)])
    assert set(found.deviations.values()) == {0.0}
    assert set(found.deviations) == {*Ratings._fields, "overall"}
