"""The page and the table of `benchmarks.served.bench`: what models read, said and cost, and the board."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from agentgym.evaluation.log.runfiles import read_episodes, read_run
from benchmarks.smollm2 import GGUF_NAME, GGUF_SHA256, PACKAGE, WEIGHTS_SHA256

PAGE = Path(__file__).parents[1] / "smollm2.md"
TABLE = PAGE.with_suffix(".json")
_FORM = Path(__file__).with_name("page.md")


@dataclass(frozen=True, slots=True)
class AgentCosts:
    """What an agent took for its episodes."""

    name: str
    episodes: int
    steps: int
    format_errors: int
    """Steps whose response held no action."""
    prompt_tokens: int
    completion_tokens: int
    model_seconds: float
    """That the model computed, or its answers took."""
    dollars: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens said, by the seconds that reading and saying took."""
        return self.completion_tokens / self.model_seconds


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """What the page begins with."""

    weights: int
    differing: int
    """Weights that `transformers` reads otherwise out of the GGUF file."""
    start_seconds: float
    """Until the server was ready."""
    cpu: str
    load: float
    """Of the machine, in the end: the mean number of processes over 15 minutes."""
    commit: str | None
    costs: tuple[AgentCosts, ...]
    package: str = PACKAGE
    gguf_sha256: str = GGUF_SHA256
    weights_sha256: str = WEIGHTS_SHA256


def costs_of(results: Path) -> Iterator[AgentCosts]:
    """Yield what the models of a folder of runs took."""
    for folder in sorted(results.glob("*/*/run.json")):
        name = read_run(folder.parent).agent.name
        episodes = read_episodes(folder.parent)
        if not any(episode.completion_tokens for episode in episodes):
            continue
        yield AgentCosts(
            name=name,
            episodes=len(episodes),
            steps=sum(episode.length for episode in episodes),
            format_errors=sum(episode.format_errors for episode in episodes),
            prompt_tokens=sum(episode.prompt_tokens for episode in episodes),
            completion_tokens=sum(episode.completion_tokens for episode in episodes),
            model_seconds=round(sum(episode.model_seconds for episode in episodes), 1),
            dollars=round(sum(episode.cost for episode in episodes), 6),
        )


def write_report(facts: BenchFacts, board: Path) -> None:
    """Write the committed page, and the same as JSON.

    Args:
        facts: measured by the bench.
        board: the page that ``agentgym leaderboard build`` wrote; its JSON lies beside it.
    """
    ranked = json.loads(board.with_suffix(".json").read_text(encoding="utf-8"))
    table = {**asdict(facts), "board": ranked}
    TABLE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _, _, ranking = board.read_text(encoding="utf-8").partition("\n")
    PAGE.write_text(page(facts) + ranking, encoding="utf-8")


def page(facts: BenchFacts) -> str:
    """Return the page without the board."""
    rows = [
        f"| {cost.name} | {cost.episodes} | {cost.steps} | {cost.format_errors} | {cost.prompt_tokens:,} "
        f"| {cost.completion_tokens:,} | {cost.model_seconds:,.0f} | {cost.tokens_per_second:.1f} "
        f"| {cost.dollars:.4f} |"
        for cost in facts.costs
    ]
    known = {name: value for name, value in asdict(facts).items() if name != "costs"}
    return _FORM.read_text(encoding="utf-8").format(rows="\n".join(rows), gguf_name=GGUF_NAME, **known)
