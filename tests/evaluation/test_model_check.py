"""Model checks: the weights that a run names say what its transcripts hold, and no others do."""

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
import torch

from agentgym.agents.metadata import Model
from agentgym.errors import UsageError
from agentgym.evaluation.bench import run_bench
from agentgym.evaluation.model_check import ModelSample, check_model
from agentgym.evaluation.results import (
    EPISODES_FILE,
    EpisodeRecord,
    chained,
    closed,
    episode_lines,
    result_id,
)
from agentgym.evaluation.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.suite import SuiteAgent
from agentgym.evaluation.transcripts import TRANSCRIPTS_FILE, TranscriptRecord, read_transcripts
from agentgym.evaluation.verify import verify_run
from agentgym.hashing import sha256_json
from agentgym.training.models.tiny import tiny_model, word_tokenizer
from agentgym.training.policy.prompting import Prompting
from agentgym.training.policy.saved import SavedAgent, Training, save_agent, weights_sha256
from tests.evaluation.corridor import ENV_ID

SUITE = """\
name = "few"
version = "1"
seed = 7
attempts = 2

[[env]]
id = "tests/Corridor-v0"
label = "Corridor"
split = "test"
tasks = 6

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"
"""
TOKENIZER = word_tokenizer(["left right", "You are at cell"])
CONSTRAINED = Prompting(wording="terse", answer="bare", history=1, choice="constrained")
FREE = Prompting(wording="terse", answer="plain", history=1, max_tokens=4)
ALL = 10_000


def save(path: Path, prompting: Prompting, seed: int = 0) -> Path:
    training = Training(
        env_id=ENV_ID,
        algorithm="grpo",
        base_model="tiny:0.1m",
        seed=0,
        run="corridor-grpo",
        iterations=3,
        episodes=24,
        tokens=100,
    )
    save_agent(path, tiny_model("0.1m", TOKENIZER, context=2600, seed=seed), SavedAgent(prompting, training))
    return path


@dataclass
class Played:
    """A run of a model, with its suite's file."""

    root: Path

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def suite(self) -> Path:
        return self.root / "few.toml"

    @property
    def folder(self) -> Path:
        (folder,) = (self.root / "results" / "few").iterdir()
        return folder

    def check(self, model: Path | None = None, sample: int = ALL, seed: int = 0):
        return check_model(self.folder, model or self.model, sample, seed)

    def records(self) -> tuple[list[EpisodeRecord], list[TranscriptRecord]]:
        return read_episodes(self.folder), read_transcripts(self.folder)

    def forge(self, records: list[TranscriptRecord] | None = None, agent: SuiteAgent | None = None) -> None:
        """Write other transcripts, or another agent, with every digest made anew."""
        run, episodes = read_run(self.folder), read_episodes(self.folder)
        records = records or read_transcripts(self.folder)
        run = replace(run, agent=agent or run.agent)
        run = replace(run, request_id=sha256_json(run.request))
        lines = [replace(e, transcript=r.sha256) for e, r in zip(episodes, records, strict=True)]
        lines = chained(run.request_id, lines)
        path = self.folder / TRANSCRIPTS_FILE
        path.write_text("".join(f"{record.line}\n" for record in records))
        (self.folder / EPISODES_FILE).write_bytes(episode_lines(lines))
        write_run(self.folder, closed(run, lines, file_sha256(path)))


def bench(root: Path, prompting: Prompting, **options: object) -> Played:
    played = Played(root)
    save(played.model, prompting)
    played.suite.write_text(SUITE)
    agent = SuiteAgent("tiny", "model", options={"path": str(played.model)} | options)
    run_bench(played.suite, root / "results", agents=["tiny"], further=[agent], num_envs=5)
    return played


@pytest.fixture(scope="module", params=["constrained", "free"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    torch.set_num_threads(1)
    prompting = {"constrained": CONSTRAINED, "free": FREE}[request.param]
    return bench(tmp_path_factory.mktemp(request.param), prompting)


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


def test_a_hand_edited_text_fails(played: Played) -> None:
    _, records = played.records()
    records[3] = changed(records[3], 1, response="right, since the goal is there")
    played.forge(records)
    refused(played, "and are read as")


def test_hand_edited_log_probabilities_fail(played: Played) -> None:
    _, records = played.records()
    tokens = records[3].steps[1].tokens
    edited = replace(tokens, logprobs=(tokens.logprobs[0] + 0.01, *tokens.logprobs[1:]))
    records[3] = changed(records[3], 1, tokens=edited)
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


def test_swapped_responses_fail(played: Played) -> None:
    _, records = played.records()
    for place, record in enumerate(records):
        pairs = [
            (i, j)
            for i, one in enumerate(record.steps)
            for j, other in enumerate(record.steps[:i])
            if one.action == other.action
            and len(one.tokens.response_ids) == len(other.tokens.response_ids)
            and one.tokens.logprobs != other.tokens.logprobs
        ]
        if pairs:
            (i, j), steps = pairs[0], list(record.steps)
            kept = [replace(steps[k].tokens, prompt=steps[n].tokens.prompt) for k, n in ((i, j), (j, i))]
            first = changed(record, j, tokens=kept[0], response=steps[i].response)
            records[place] = changed(first, i, tokens=kept[1], response=steps[j].response)
            break
    else:
        raise AssertionError("no episode has two responses alike")
    played.forge(records)
    refused(played, "was recorded")


def test_a_response_that_was_not_drawn_fails_with_its_true_log_probability(tmp_path: Path) -> None:
    """What a forger with the weights can write: another action, at the model's own log-probability."""
    played = bench(tmp_path, CONSTRAINED)
    episodes, records = played.records()
    model = read_run(played.folder).agent.model
    # the last action of an episode that the step limit ended, so that all else stays as it is
    place = next(n for n, episode in enumerate(episodes) if episode.end_reason == "step_limit")
    step = records[place].steps[-1]
    other = {"left": "right", "right": "left"}[step.action]
    tokens = {said.action: said.tokens for record in records for said in record.steps}[other]
    import math

    logprob = math.log1p(-math.exp(step.tokens.logprobs[0]))
    forged = replace(
        step.tokens,
        response_ids=tokens.response_ids,
        logprobs=(logprob, *[0.0] * 9)[: len(tokens.response_ids)],
    )
    records[place] = changed(records[place], -1, action=other, response=other, tokens=forged)
    assert isinstance(model, Model)
    found = recheck(played, episodes, records, place)
    assert [problem.split(": ")[1] for problem in found.problems] == [
        f"token 0 is not the one that the episode's seed draws, by {found.largest_draw:.4f}"
    ]


def recheck(played, episodes, records, place):
    """Check a run whose episode has another last action."""
    lines = list(episodes)
    lines[place] = replace(lines[place], actions=tuple(step.action for step in records[place].steps))
    run = read_run(played.folder)
    lines = chained(
        run.request_id, [replace(e, transcript=r.sha256) for e, r in zip(lines, records, strict=True)]
    )
    (played.folder / TRANSCRIPTS_FILE).write_text("".join(f"{record.line}\n" for record in records))
    (played.folder / EPISODES_FILE).write_bytes(episode_lines(lines))
    return played.check()


def test_responses_without_tokens_fail(played: Played) -> None:
    _, records = played.records()
    records[3] = changed(records[3], 0, tokens=None)
    later = records[3].steps[1]
    if later.tokens.prompt.start or later.tokens.prompt.end:  # it was coded by the one that is gone
        ids = list(played.records()[1][3].prompt_ids())[1]
        whole = replace(later.tokens.prompt, start=0, ids=ids, end=0)
        records[3] = changed(records[3], 1, tokens=replace(later.tokens, prompt=whole))
    played.forge(records)
    refused(played, "there are no token ids of the response")


def test_runs_that_cannot_be_checked_are_refused(played: Played, finished: Played) -> None:
    with pytest.raises(UsageError, match="--sample must be at least 1, got 0"):
        played.check(sample=0)
    (played.folder / TRANSCRIPTS_FILE).unlink()
    with pytest.raises(UsageError, match="bench with --transcripts to have them"):
        played.check()
    run_bench(played.suite, played.root / "other", agents=["random"])
    (folder,) = (played.root / "other" / "few").iterdir()
    with pytest.raises(UsageError, match="agents of kind 'random' have no weights to check"):
        check_model(folder, played.model, 5, 0)


def test_the_result_does_not_depend_on_transcripts(played: Played) -> None:
    run, episodes = read_run(played.folder), read_episodes(played.folder)
    bare = [replace(episode, transcript="") for episode in episodes]
    assert result_id(run.request_id, bare) == run.result_id
    assert asdict(run)["transcripts_sha256"] == file_sha256(played.folder / TRANSCRIPTS_FILE)
