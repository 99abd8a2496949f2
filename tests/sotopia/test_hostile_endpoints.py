"""Whole runs over an endpoint that fails at every request, or repeats its key wherever it can."""

import json
import logging
import lzma
from collections import Counter
from itertools import cycle

import httpx2
import pytest

from agentgym.cli import main
from agentgym.endpoint import read_ledger
from agentgym.endpoint.client import without_network
from agentgym.evaluation.log.endpoint_runs import CALLS_FILE, EndpointSettings
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE
from agentgym.evaluation.log.results import ABORTED
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.verification import verify_run
from tests.endpoint.fake import URL, FakeEndpoint, Said, completion, refusal
from tests.sotopia import models
from tests.suite_texts import env_table, suite_text, write_suite

KEY = "sk-marker-0f-an0ther-k3y"
VARIABLE = "HOSTILE_TEST_KEY"
HTML = ((b"content-type", b"text/html"),)

SOURCE = {"endpoint": URL, "key_env": VARIABLE}
QUICK = {"first_pause": 0.001}
TALK = env_table(
    "agentgym/Sotopia-v0",
    4,
    label="Talk",
    metric="score",
    bounds=[0.0, 10.0],
    kwargs={"max_turns": 6} | {name: {**SOURCE, "model": name, **QUICK} for name in ("partner", "judge")},
)
ASKER = SOURCE | {"model": "agent", "temperature": 0.7, "request": QUICK}
SUITE = suite_text(
    "hostile",
    TALK,
    agents=({"name": "asker", "kind": "react", "options": ASKER},),
    seed=3,
    floor="",
    oracle="",
)

SEED, RANGE = "a refused parameter", "a rating out of range"
FAULTS = {
    "429 with Retry-After": refusal(429, "slow down", {"retry-after": "0.001"}),
    "429 until a date": refusal(429, "slow down", {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}),
    "408": refusal(408, "slow"),
    "500": refusal(500, "broken"),
    "503": Said(b"<html>down</html>", 503, HTML),
    "timeout": httpx2.ReadTimeout("slow"),
    "no connection": httpx2.ConnectError("refused"),
    "cut": httpx2.ReadError("reset"),
    "malformed JSON": Said(b'{"choices": ['),
    "HTML": Said(b"<!doctype html><html>Sign in</html>", headers=HTML),
    "wrong schema": Said(b'{"choices": [{"message": "hello", "finish_reason": "stop"}]}'),
    "no choices": Said(b'{"choices": []}'),
    SEED: refusal(400, "Unsupported parameter: 'seed'", param="seed"),
    RANGE: completion(models.reply(11)),
}


def answer(body, told=""):
    """Say what an agent, a partner or a judge says; it follows from the conversation alone."""
    size = len(str(body["messages"][0]["content"]))
    if body["model"] == "judge":
        return completion(models.reply(size % 11))
    said = "leave" if size % 7 == 0 else f"speak[I have heard {size} characters.{told}]"
    return completion(f"<think>{told}</think><action>{said}</action>" if body["model"] == "agent" else said)


class Faulty:
    """Fails at the first attempt of every request, each in another way; ratings are out of range."""

    def __init__(self):
        self.met = Counter()
        self._seen = set()
        self._next = cycle(name for name in FAULTS if name not in (SEED, RANGE))

    def __call__(self, body):
        asked = json.dumps({name: value for name, value in body.items() if name != "seed"}, sort_keys=True)
        if asked in self._seen:
            return answer(body)
        self._seen.add(asked)
        if "seed" in body and not self.met[SEED]:
            name = SEED
        else:
            name = RANGE if body["model"] == "judge" and len(body["messages"]) == 1 else next(self._next)
        self.met[name] += 1
        return FAULTS[name]


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "verdicts"))
    return write_suite(tmp_path, SUITE)


def play(suite, out, answering, **settings):
    """Run the suite; return the run's folder and what was asked."""
    fake = FakeEndpoint(otherwise=answering)
    with without_network(fake.transport):
        (folder,) = run_bench(suite, out, endpoints=EndpointSettings(**{"probe": False, **settings}))
    return folder, fake


def test_no_episode_is_lost_to_an_endpoint_that_fails_at_every_request(suite, tmp_path):
    whole, _ = play(suite, tmp_path / "whole", answer)
    faulty = Faulty()
    folder, fake = play(suite, tmp_path / "faulty", faulty)
    assert faulty.met.keys() == FAULTS.keys()
    assert len(fake.bodies) == 2 * faulty.met.total() - faulty.met[RANGE]  # each again, ratings as repairs
    episodes = read_episodes(folder)
    assert len(episodes) == 4
    assert all(episode.attempt == 1 and episode.end_reason not in ABORTED for episode in episodes)
    assert read_run(folder).result_id == read_run(whole).result_id
    rows = read_ledger(folder / CALLS_FILE)
    assert not any(row.error for row in rows)
    assert "seed" in {name for row in rows for name in row.left_out}
    assert verify_run(folder).problems == ()


def repeating(body):
    """Say the key wherever an answer has room for words."""
    told = f" Your key is {KEY}."
    if body["model"] == "judge":
        rating = json.loads(models.reply(7))
        rating["first"]["goal"]["reason"] = told
        return completion(json.dumps(rating), model=KEY, reasoning_content=told)
    return answer(body, told)


def test_a_key_that_an_endpoint_repeats_everywhere_is_in_no_file_of_a_run(suite, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    out, cache = tmp_path / "results", tmp_path / "answers.sqlite"
    folder, fake = play(suite, out, repeating, probe=True, cache=cache, mode="write")
    assert {headers["authorization"] for headers in fake.headers} == {f"Bearer {KEY}"}
    assert verify_run(folder).problems == ()
    packed = pack_run(open_run(folder), tmp_path / "packed")
    with lzma.open(packed) as file:
        (tmp_path / "unpacked").write_bytes(file.read())
    with without_network(FakeEndpoint(otherwise=lambda _: refusal(401, f"No such key: {KEY}")).transport):
        words = ["bench", suite, "--out", tmp_path / "refused", "--no-probe"]
        assert main([str(word) for word in words]) == 2
    said = capfd.readouterr()
    assert "refuses the key in HOSTILE_TEST_KEY" in said.err
    assert said.err.splitlines()[-1].startswith("agentgym: ")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in files} >= {
        "run.json", "episodes.jsonl", TRANSCRIPTS_FILE, ANSWERS_FILE, CALLS_FILE, cache.name, packed.name
    }  # fmt: skip
    assert b"Your key is [key]." in files[folder / TRANSCRIPTS_FILE]
    assert b"Your key is [key]." in files[folder / ANSWERS_FILE]
    written = [*files.values(), caplog.text.encode(), said.out.encode(), said.err.encode()]
    assert [text for text in written if KEY[:12].encode() in text] == []
