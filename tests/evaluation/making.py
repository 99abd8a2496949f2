"""Runs and boards that tests make up."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from agentgym.agents.metadata import Model
from agentgym.core.hashing import sha256_json
from agentgym.evaluation.board.boards import Board, make_boards
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    EvalLog,
    EvalSample,
    chained,
    closed,
    episode_lines,
    latest,
)
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.submissions import Submission, verify_below
from agentgym.evaluation.verify.verdicts import VERDICT_SCHEMA, Badge, Role, Verdict
from agentgym.registration import suite_spec


def write_complete(folder: Path, run: EvalLog, episodes: Iterable[EvalSample]) -> EvalLog:
    """Write a complete run with every digest that goes with it; return its record."""
    run = replace(run, request_id=sha256_json(run.request))
    lines = chained(run.request_id, episodes)
    (folder / EPISODES_FILE).write_bytes(episode_lines(lines))
    complete = closed(run, lines, transcripts_sha256=run.transcripts_sha256)
    write_run(folder, complete)
    return complete


def board_below(results: Path) -> Board:
    """Verify the runs below a folder; return their only board."""
    boards, unranked = make_boards(verify_below(results))
    assert not unranked, unranked
    (board,) = boards
    return board


def believed(results: Path) -> list[Board]:
    """Return the boards of the runs below a folder, as if each had been verified."""
    folders = sorted(path.parent for path in results.rglob("run.json"))
    boards, _ = make_boards(_believed(folder) for folder in folders)
    return boards


def believed_board(results: Path) -> Board:
    """Return the only board of `believed`."""
    (board,) = believed(results)
    return board


def _believed(folder: Path) -> Submission:
    run, episodes = read_run(folder), latest(read_episodes(folder))
    roles: dict[str, Role] = {run.suite.floor: "floor", run.suite.oracle: "oracle"}
    badge: Badge = "replayed"
    verdict = Verdict(
        schema=VERDICT_SCHEMA,
        ok=True,
        badge=badge,
        role=roles.get(run.agent.name, "agent"),
        problems=(),
        episodes=len(episodes),
        steps=0,
        suite_sha256=run.suite_sha256,
        unsupported=run.unsupported,
        missing=run.missing,
        run_sha256="",
        episodes_sha256="",
        code_sha256="",
        provenance=run.provenance[0],
    )
    families = {found.env.label: suite_spec(found.env.id).name for found in run.envs}
    return Submission(run, episodes, verdict, families, origin=str(folder.parent))


def folder_of(results: Path, name: str) -> Path:
    """Return the folder of an agent's only run."""
    (folder,) = results.glob(f"small/{name}-*")
    return folder


def add_run(results: Path, source: str, name: str, model: Model, episodes: list[EvalSample]) -> EvalLog:
    """Add a finished run of another agent, which does not play again, with the given episodes."""
    run = read_run(folder_of(results, source))
    run = replace(run, agent=SuiteAgent(name, "scripted", {"path": "actions.jsonl"}, model=model))
    run = replace(run, request_id=sha256_json(run.request))
    folder = results / "small" / run.folder_name
    folder.mkdir()
    return write_complete(folder, run, episodes)


def mixed(results: Path, share: float, seed: int = 0) -> list[EvalSample]:
    """Take each task's episodes from the oracle with the given probability, else from the random agent."""
    rng = np.random.default_rng(seed)
    oracle = {e.key: e for e in read_episodes(folder_of(results, "oracle"))}
    random = {e.key: e for e in read_episodes(folder_of(results, "random"))}
    better = {key[:2]: rng.random() < share for key in sorted(oracle)}
    return [(oracle if better[key[:2]] else random)[key] for key in oracle]
