"""Runs of tiny models, whose transcripts can be forged."""

from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.core.hashing import sha256_json
from agentgym.evaluation.log.results import EPISODES_FILE, EvalSample, chained, closed, episode_lines
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord, read_transcripts
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.model_check import ModelSample, check_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.saved import SavedAgent, Training
from agentgym.prompts.settings import Prompting
from tests.evaluation.corridor import ENV_ID
from tests.saved_agents import save_agent
from tests.suite_texts import env_table, suite_text

SUITE = suite_text("few", env_table("tests/Corridor-v0", 6), seed=7, attempts=2)
TOKENIZER = word_tokenizer(["left right", "You are at cell"])
CONSTRAINED = Prompting(wording="terse", answer="bare", history=1, choice="constrained")
FREE = Prompting(wording="terse", answer="plain", history=1, max_tokens=4)
ALL = 10_000


def save(path: Path, prompting: Prompting, seed: int = 0, room: int = 2600) -> Path:
    played = {"run": "corridor-grpo", "iterations": 3, "episodes": 24, "tokens": 100}
    training = Training(env_id=ENV_ID, algorithm="grpo", base_model="tiny:0.1m", seed=0, **played)
    save_agent(path, tiny_model("0.1m", TOKENIZER, context=room, seed=seed), SavedAgent(prompting, training))
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
        return check_model(open_run(self.folder), ModelSample(model or self.model, sample, seed))

    def records(self) -> tuple[list[EvalSample], list[TranscriptRecord]]:
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


def bench(root: Path, prompting: Prompting, room: int = 2600, **options: object) -> Played:
    played = Played(root)
    save(played.model, prompting, room=room)
    played.suite.write_text(SUITE)
    agent = SuiteAgent("tiny", "model", options={"path": str(played.model)} | options)
    run_bench(played.suite, root / "results", agents=["tiny"], further=[agent], num_envs=5)
    return played
