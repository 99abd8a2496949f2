"""No action that a model, a person or a file can send takes longer than a moment, however long it is."""

import random
import re
from functools import partial

import pytest

from agentgym.agents.human import choose
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.envs.webshop.engine.visit import parse
from agentgym.prompts.parsers import FORMATS, settle
from agentgym.registration import open_env, open_vector
from agentgym.retrieval import analysis
from tests.pace import within

MOMENT = 50
"""Spins of processor time."""

PIECES = (
    "[", "]", "[a]", "search[", "click[", "<action>", "</action>", "<think>", "<tool_call>", '{"a":',
    '"', "\\", "(", " ", "\n", "7", "1.1,", "a.", "kk", "kked", "'s ", "é", "İ", "字", "🂡", "\ud800",
    "go to ", "put a in ",
)  # fmt: skip
LENGTHS = (MAX_ACTION_LENGTH, 1_000_000)
SUITES = ("Sokoban", "EZPoints", "ALFWorld", "WebShop")


def hostile(length):
    for piece in PIECES:
        block = (piece * (length // len(piece) + 1))[:length]
        yield block
        for around in ("search[_]", "search[_\n]", "<action>_</action>", "<tool_call>_</tool_call>"):
            yield around.replace("_", block[: length - 30])


quick = partial(within, MOMENT)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_answers_at_once(suite, length):
    env_id = f"agentgym/{suite}-v0"
    env, envs = (
        open_env(env_id, options={"max_steps": 10**6}),
        open_vector(env_id, 2, options={"max_steps": 10**6}),
    )
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in hostile(length):
        admissible = quick(env.is_admissible, action)
        assert env.step(action)[4]["action_is_valid"] == admissible
        quick(env.step, action)
        quick(envs.step, [action, action])


@pytest.mark.parametrize("name", FORMATS)
def test_every_answer_is_read_at_once(name):
    for text in hostile(1_000_000):
        answer = quick(FORMATS[name].parse, text)
        quick(settle, answer.action, ("up", "click[buy now]"))


def test_a_person_is_answered_at_once():
    for line in hostile(20_000):
        try:
            quick(choose, line, ("search[<query>]", "click[a]"))
        except ValueError:
            continue


def test_actions_of_the_shop_are_told_apart_as_the_original_does():
    pattern = re.compile(r"(.+)\[(.+)\]")
    draw = random.Random(0)
    found = 0
    for _ in range(20_000):
        action = "".join(draw.choices("[]()ac \n\r\u2028İ", k=draw.randrange(draw.choice((8, 40, 200)))))
        match = pattern.match(action)
        found += match is not None
        assert parse(action) == (None if match is None else (match[1], match[2].lower())), action
    assert found > 1000


def test_double_consonants_are_found_as_before():
    pattern = re.compile(r"(?P<stem>.*(?:[aeiou]|.y).*([^aeiouylszbdfgmnprt]))\2(?:ed|ing)")
    draw = random.Random(0)
    found = 0
    for _ in range(20_000):
        word = "".join(draw.choices("kkkcyaed'é", k=draw.randrange(7))) + draw.choice(
            ("ed", "ing", "eding", "")
        )
        match = pattern.fullmatch(word)
        found += match is not None
        assert analysis._single(word) == (match["stem"] if match else word), word
    assert found > 100


@pytest.mark.parametrize("suite", SUITES)
def test_an_overlong_action_counts_as_any_rejected_one(suite):
    env, twin = (open_env(f"agentgym/{suite}-v0") for _ in range(2))
    env.reset(seed=3)
    twin.reset(seed=3)
    action = env.admissible_actions()[0].ljust(MAX_ACTION_LENGTH + 1)
    assert not env.is_admissible(action)
    assert env.step(action) == twin.step("no such action")
    assert env.snapshot() == twin.snapshot()


def test_an_overlong_action_costs_what_a_rejected_one_costs():
    env = open_env("agentgym/EZPoints-v0", options={"rewards": "gym-cards"})
    env.reset(seed=0)
    assert env.step("1" * 10**6)[1] == -1.0
