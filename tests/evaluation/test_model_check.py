"""Model checks: the weights that a run names say what its transcripts hold, and no others do."""

import copy
import hashlib
import json
import math
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from agentgym.errors import UsageError
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    chained,
    episode_lines,
    reopened,
    result_id,
)
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord, read_transcripts
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.model_check import ModelCheck, ModelSample, check_model
from agentgym.evaluation.verify.verification import verify_run
from agentgym.inference.models.tiny import CHAT_TEMPLATE
from agentgym.inference.policy.saved import weights_sha256
from agentgym.prompts.contexts import Context
from agentgym.prompts.settings import Prompting
from tests.evaluation import model_runs
from tests.evaluation.model_runs import ALL, CONSTRAINED, FREE, SUITE, TOKENIZER, Played, bench, save
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=["constrained", "free"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    torch.set_num_threads(1)
    prompting = {"constrained": CONSTRAINED, "free": FREE}[request.param]
    return bench(tmp_path_factory.mktemp(request.param), prompting)


of_one_kind = pytest.mark.parametrize("finished", ["constrained"], indirect=True)


@pytest.fixture
def played(finished: Played, tmp_path: Path) -> Played:
    shutil.copytree(finished.root, tmp_path / "copy")
    return Played(tmp_path / "copy")


def test_a_model_s_own_responses_come_out_again(finished: Played) -> None:
    found = finished.check()
    _, records = finished.records()
    assert found.problems == ()
    assert found.ok
    assert found.sampled == found.responses == sum(len(record.steps) for record in records)
    assert found.tokens == sum(len(step.tokens.response_ids) for record in records for step in record.steps)
    assert found.weights_sha256 == weights_sha256(finished.model)
    assert found.largest_difference < 1e-4
    assert found.largest_draw < 1e-5


def test_a_sample_is_drawn_by_its_seed(finished: Played) -> None:
    few = [finished.check(sample=5, seed=seed) for seed in (1, 1, 2)]
    assert [found.sampled for found in few] == [5, 5, 5]
    assert few[0] == few[1]
    assert few[0].mean_difference != few[2].mean_difference or few[0].tokens != few[2].tokens


def test_a_verified_run_earns_the_badge(played: Played) -> None:
    verdict = verify_run(
        played.folder, suite=played.suite, model=ModelSample(played.model, sample=20, seed=1)
    )
    assert verdict.problems == ()
    assert verdict.badge == "model-checked"
    assert verdict.model.sampled == 20
    assert verify_run(played.folder, suite=played.suite).badge == "replayed"


def test_bfloat16_is_checked_in_bfloat16(tmp_path: Path) -> None:
    played = bench(tmp_path, FREE, dtype="bfloat16")
    found = played.check()
    assert found.problems == ()
    assert found.tolerance.logprob > 0.1 > found.largest_difference > 1e-6


def test_a_model_that_is_handed_tools_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = copy.deepcopy(TOKENIZER)
    calls = (
        "{% for each in message.tool_calls %}<tool_call>{{ each.function | tojson }}</tool_call>{% endfor %}"
    )
    chat_template = CHAT_TEMPLATE.replace("<|im_end|>", calls + "<|im_end|>")
    tokenizer.chat_template = "{{ tools | tojson if tools }}" + chat_template
    monkeypatch.setattr(model_runs, "TOKENIZER", tokenizer)
    calls = Prompting(wording="terse", answer="tool-calls", history=1, max_tokens=4, system="Be brief.")
    played = bench(tmp_path, calls)
    assert played.check().problems == ()
    messages = read_transcripts(played.folder)[0].messages(0)
    assert [message.role for message in messages] == ["tools", "system", "user"]
    assert json.loads(messages[0].text)["function"]["name"] == "act"
    said = read_run(played.folder).agent
    other = replace(calls, system="Be long.")
    assert (said.parser, said.prompt_sha256) == ("tool-calls", calls.sha256)
    assert calls.template.sha256 != calls.sha256 != other.sha256


@pytest.mark.parametrize("context", ["append", "window", "summarised"])
def test_a_model_is_checked_in_every_context(tmp_path: Path, context: Context) -> None:
    prompting = replace(FREE, context=context)
    played = bench(tmp_path, prompting)
    assert played.check().problems == ()
    agent = read_run(played.folder).agent
    assert (agent.sampling["context"], agent.prompt_sha256) == (context, prompting.sha256)
    if context == "append":  # what the first turn was sent is in every later prompt
        records = read_transcripts(played.folder)
        place = longest(records)
        first = records[place].steps[0].tokens
        edited = replace(first, response_ids=(first.response_ids[0] ^ 1, *first.response_ids[1:]))
        records[place] = changed(records[place], 0, tokens=edited)
        played.forge(records)
        refused(played, "other token ids than those made anew")


def test_where_its_context_is_full_a_model_is_not_asked(tmp_path: Path) -> None:
    played = bench(tmp_path, replace(FREE, context="append", budget=250), room=300)
    assert played.check().problems == ()
    records = read_transcripts(played.folder)
    place = next(n for n, record in enumerate(records) if record.steps[-1].error == "context_limit")
    last = records[place].steps[-1]
    assert (last.response, last.completion_tokens, last.tokens) == ("", 0, None)
    records[place] = changed(records[place], -1, response="right")
    played.forge(records)
    refused(played, "the model is not asked here, but has answered")


# ---- what fails ---------------------------------------------------------------------------------


def refused(played: Played, message: str, model: Path | None = None) -> None:
    """A check of everything fails with a message, though the files hold together and replay."""
    assert verify_run(played.folder, suite=played.suite).problems == ()
    sample = ModelSample(model or played.model, sample=ALL, seed=0)
    verdict = verify_run(played.folder, suite=played.suite, model=sample)
    assert not verdict.ok
    assert verdict.badge == "claimed"
    assert any(message in problem.detail for problem in verdict.problems), verdict.problems
    assert {problem.kind for problem in verdict.problems} == {"model"}


def prompting_of(played: Played) -> Prompting:
    return CONSTRAINED if read_run(played.folder).agent.sampling["choice"] == "constrained" else FREE


def test_another_checkpoint_fails_by_its_weights(played: Played, tmp_path: Path) -> None:
    other = save(tmp_path / "other", prompting_of(played), seed=1)
    refused(played, "weights_sha256 is", other)


def test_another_checkpoint_fails_by_its_log_probabilities(played: Played, tmp_path: Path) -> None:
    other = save(tmp_path / "other", prompting_of(played), seed=1)
    agent = read_run(played.folder).agent
    forged = replace(agent, model=replace(agent.model, weights_sha256=weights_sha256(other)))
    played.forge(agent=forged)
    refused(played, "was recorded", other)


def test_another_temperature_fails(played: Played) -> None:
    agent = read_run(played.folder).agent
    options = {**agent.options, "temperature": 0.9}
    played.forge(agent=replace(agent, options=options, sampling={**agent.sampling, "temperature": 0.9}))
    refused(played, "was recorded")


def test_a_temperature_that_the_files_do_not_say_fails(played: Played) -> None:
    agent = read_run(played.folder).agent
    played.forge(agent=replace(agent, sampling={**agent.sampling, "temperature": 0.9}))
    refused(played, "sampling.temperature is 1.0 by the files")


def changed(record: TranscriptRecord, number: int, **fields: object) -> TranscriptRecord:
    steps = list(record.steps)
    steps[number] = replace(steps[number], **fields)
    return replace(record, steps=tuple(steps))


def longest(records: list[TranscriptRecord]) -> int:
    return max(range(len(records)), key=lambda place: len(records[place].steps))


def test_a_hand_edited_text_fails(played: Played) -> None:
    _, records = played.records()
    place = longest(records)
    records[place] = changed(records[place], -1, response="right, since the goal is there")
    played.forge(records)
    refused(played, "and are read as")


def test_hand_edited_log_probabilities_fail(played: Played) -> None:
    _, records = played.records()
    place = longest(records)
    tokens = records[place].steps[-1].tokens
    edited = replace(tokens, logprobs=(tokens.logprobs[0] + 0.01, *tokens.logprobs[1:]))
    records[place] = changed(records[place], -1, tokens=edited)
    played.forge(records)
    refused(played, "was recorded")


def test_a_hand_edited_prompt_fails(played: Played) -> None:
    _, records = played.records()
    texts = (*records[3].texts[:-1], "The way is to the right.")
    records[3] = replace(records[3], texts=texts)
    played.forge(records)
    refused(played, "the messages are not those made anew")


def test_hand_edited_prompt_tokens_fail(played: Played) -> None:
    _, records = played.records()
    tokens = records[3].steps[0].tokens
    edited = replace(tokens.prompt, ids=(tokens.prompt.ids[0] ^ 1, *tokens.prompt.ids[1:]))
    records[3] = changed(records[3], 0, tokens=replace(tokens, prompt=edited))
    played.forge(records)
    refused(played, "the prompt has other token ids")


@pytest.mark.parametrize("first", [0, -1])
def test_responses_without_tokens_fail(played: Played, first: int) -> None:
    _, records = played.records()
    place = longest(records)
    steps = records[place].steps
    without = [replace(step, tokens=None) for step in steps[first:]]
    records[place] = replace(records[place], steps=(*steps[:first], *without))
    played.forge(records)
    refused(played, "there are no token ids of the response")


def with_actions(played: Played, records: list[TranscriptRecord]) -> ModelCheck:
    """Check a run whose actions are those of other transcripts: what is left to find is the model's part."""
    run, episodes = read_run(played.folder), read_episodes(played.folder)
    lines = [
        replace(
            episode,
            transcript=record.sha256,
            actions=tuple(step.action for step in record.steps),
            completion_tokens=sum(step.completion_tokens for step in record.steps),
        )
        for episode, record in zip(episodes, records, strict=True)
    ]
    (played.folder / TRANSCRIPTS_FILE).write_text("".join(f"{record.line}\n" for record in records))
    (played.folder / EPISODES_FILE).write_bytes(episode_lines(chained(run.request_id, lines)))
    return played.check()


def test_swapped_responses_fail(played: Played) -> None:
    _, records = played.records()
    place = longest(records)
    steps = list(records[place].steps)
    one, other = steps[-1], steps[-2]
    assert one.tokens.logprobs != other.tokens.logprobs
    steps[-1] = replace(other, messages=one.messages, tokens=replace(other.tokens, prompt=one.tokens.prompt))
    steps[-2] = replace(one, messages=other.messages, tokens=replace(one.tokens, prompt=other.tokens.prompt))
    swapped = [
        replace(step, prompt_tokens=was.prompt_tokens)
        for step, was in zip(steps[-2:], (other, one), strict=True)
    ]
    records[place] = replace(records[place], steps=(*steps[:-2], *swapped))
    found = with_actions(played, records)
    assert any("was recorded" in problem for problem in found.problems), found.problems


def test_a_response_that_was_not_drawn_fails_at_its_true_log_probability(tmp_path: Path) -> None:
    """Whoever has the weights can state another action at the model's own log-probability of it."""
    played = bench(tmp_path, CONSTRAINED)
    _, records = played.records()
    place = next(n for n, record in enumerate(records) if record.steps[-1].tokens.logprobs[0] < 0)
    step = records[place].steps[-1]
    other = {"left": "right", "right": "left"}[step.action]
    said = next(s for record in records for s in record.steps if s.action == other)
    logprob = math.log1p(-math.exp(step.tokens.logprobs[0]))
    ids = said.tokens.response_ids
    tokens = replace(step.tokens, response_ids=ids, logprobs=(logprob, *[0.0] * (len(ids) - 1)))
    spent = {"completion_tokens": len(ids)}
    records[place] = changed(records[place], -1, action=other, response=other, tokens=tokens, **spent)
    found = with_actions(played, records)
    assert len(found.problems) == 1
    assert "token 0 is not the one that the episode's seed draws" in found.problems[0]
    assert found.largest_difference < 1e-4


def test_runs_that_cannot_be_checked_are_refused(played: Played, finished: Played) -> None:
    with pytest.raises(UsageError, match="--sample must be a whole number of at least 1, got 0"):
        ModelSample(played.model, sample=0)
    with pytest.raises(UsageError, match="nowhere does not exist: give the path of a saved model"):
        played.check(played.root / "nowhere")
    (played.folder / TRANSCRIPTS_FILE).unlink()
    with pytest.raises(UsageError, match=r"has no transcripts.jsonl: bench with --transcripts, or leave out"):
        played.check()
    run_bench(played.suite, played.root / "other", agents=["random"])
    (folder,) = (played.root / "other" / "few").iterdir()
    with pytest.raises(UsageError, match="agents of kind 'random' have no weights to check"):
        check_model(open_run(folder), ModelSample(played.model, 5, 0))


def test_the_result_does_not_depend_on_transcripts(played: Played) -> None:
    run, episodes = read_run(played.folder), read_episodes(played.folder)
    bare = [replace(episode, transcript="") for episode in episodes]
    assert result_id(run.request_id, bare) == run.result_id
    assert asdict(run)["transcripts_sha256"] == file_sha256(played.folder / TRANSCRIPTS_FILE)


# ---- transcripts of benchmarks ------------------------------------------------------------------


def test_agents_without_messages_have_transcripts_on_request_only(tmp_path: Path) -> None:
    suite = tmp_path / "few.toml"
    suite.write_text(SUITE)
    (folder,) = run_bench(suite, tmp_path / "default", agents=["random"])
    assert not (folder / TRANSCRIPTS_FILE).exists()
    assert read_run(folder).transcripts_sha256 is None
    (folder,) = run_bench(suite, tmp_path / "asked", agents=["random"], transcripts=True)
    assert len(read_transcripts(folder)) == 12
    assert verify_run(folder, suite=suite).ok


@of_one_kind
def test_a_model_s_transcripts_can_be_left_out(played: Played) -> None:
    agent = read_run(played.folder).agent
    bare = SuiteAgent("tiny", "model", options=dict(agent.options))
    (folder,) = run_bench(
        played.suite, played.root / "bare", agents=["tiny"], further=[bare], transcripts=False
    )
    assert not (folder / TRANSCRIPTS_FILE).exists()
    assert read_run(folder).result_id == read_run(played.folder).result_id
    assert {episode.transcript for episode in read_episodes(folder)} == {""}


@of_one_kind
def test_a_resumed_run_keeps_one_transcript_per_episode(played: Played) -> None:
    run, (episodes, records) = read_run(played.folder), played.records()
    half = (records[8].line + "\n").encode()[:40]
    text = "".join(f"{record.line}\n" for record in records[:8]).encode()
    write_run(played.folder, reopened(run))
    (played.folder / EPISODES_FILE).write_bytes(episode_lines(episodes[:7]))
    (played.folder / TRANSCRIPTS_FILE).write_bytes(text + half)  # the eighth had no line yet
    agent = SuiteAgent("tiny", "model", options=dict(run.agent.options))
    run_bench(played.suite, played.root / "results", agents=["tiny"], further=[agent])
    again, kept = played.records()
    assert [episode.transcript for episode in again] == [record.sha256 for record in kept]
    assert kept[:7] == records[:7]
    assert read_run(played.folder).result_id == run.result_id
    assert played.check(sample=30).ok


@of_one_kind
def test_a_resumed_run_refuses_to_go_on_without_a_transcript(played: Played) -> None:
    run, (episodes, records) = read_run(played.folder), played.records()
    write_run(played.folder, reopened(run))
    (played.folder / EPISODES_FILE).write_bytes(episode_lines(episodes[:7]))
    (played.folder / TRANSCRIPTS_FILE).write_text("".join(f"{record.line}\n" for record in records[:6]))
    agent = SuiteAgent("tiny", "model", options=dict(run.agent.options))
    with pytest.raises(UsageError, match="lacks 1 transcripts that episodes name"):
        run_bench(played.suite, played.root / "results", agents=["tiny"], further=[agent])


@of_one_kind
@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda lines: lines[:-1], "transcript", "lacks its transcript"),
        (lambda lines: [*lines, lines[0]], "transcript", "no episode names it"),
        (lambda lines: [lines[0][:-1] + " }", *lines[1:]], "malformed", "not written as records are"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "file", "its sha256 is not the one in run.json"),
    ],
)
def test_transcripts_are_verified(played: Played, change, kind: str, message: str) -> None:
    path = played.folder / TRANSCRIPTS_FILE
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    verdict = verify_run(played.folder, suite=played.suite)
    assert not verdict.ok
    assert any(problem.kind == kind and message in problem.detail for problem in verdict.problems)


def test_a_forged_transcript_of_other_actions_is_refused(played: Played) -> None:
    _, records = played.records()
    records[3] = changed(records[3], 0, action="jump")
    played.forge(records)
    problems = verify_run(played.folder, suite=played.suite).problems
    assert [problem.kind for problem in problems] == ["transcript"]
    assert "other actions than the" in problems[0].detail


def test_a_run_without_its_transcripts_still_verifies(played: Played) -> None:
    (played.folder / TRANSCRIPTS_FILE).unlink()
    assert verify_run(played.folder, suite=played.suite).badge == "replayed"


SUBPROCESS = """\
import sys
from pathlib import Path
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from tests.evaluation import corridor

corridor.register()
agent = SuiteAgent("tiny", "model", options={"path": sys.argv[3]})
run_bench(Path(sys.argv[1]), Path(sys.argv[2]), agents=["tiny"], further=[agent], num_envs=1)
"""


@of_one_kind
def test_a_killed_run_has_every_transcript_and_resumes(played: Played) -> None:
    path = played.folder / EPISODES_FILE
    words = [played.suite, played.root / "killed", read_run(played.folder).agent.options["path"]]
    process = subprocess.Popen(
        [sys.executable, "-c", SUBPROCESS, *map(str, words)], cwd=Path(__file__).parents[2]
    )
    killed = played.root / "killed" / "few" / played.folder.name
    lines_so_far = killed / EPISODES_FILE

    def underway() -> bool:
        assert process.poll() is None, "the run ended before it was killed"
        return lines_so_far.exists() and lines_so_far.read_bytes().count(b"\n") >= 3

    wait_until(underway)
    process.kill()
    process.wait()
    lines = (killed / EPISODES_FILE).read_bytes().split(b"\n")[:-1]
    named = [json.loads(line)["transcript"] for line in lines]
    kept = (killed / TRANSCRIPTS_FILE).read_bytes().split(b"\n")[:-1]
    assert [hashlib.sha256(line).hexdigest() for line in kept][: len(named)] == named
    agent = SuiteAgent("tiny", "model", options=dict(read_run(played.folder).agent.options))
    (folder,) = run_bench(words[0], words[1], agents=["tiny"], further=[agent])
    assert folder == killed
    assert read_run(folder).result_id == read_run(played.folder).result_id
    assert len(read_transcripts(folder)) == path.read_bytes().count(b"\n")
    assert verify_run(folder, suite=played.suite).ok
