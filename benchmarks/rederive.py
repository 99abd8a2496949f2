"""Counts of invalid actions, derived anew: ``python -m benchmarks.rederive RUN.run.xz ...``.

Where an environment comes to call an action invalid that it called valid, states, rewards and scores stay,
but runs that hold such actions no longer say what a replay gives. This plays their actions again and writes
the packed files anew, in place. A run is refused unless, with the counts that it recorded, the replay is
its ``episodes.jsonl`` byte for byte: so nothing but `EvalSample.invalid_count` changes, and the digests
that cover it. The page beside it lists what changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import RecordedAnswers
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    EvalLog,
    EvalSample,
    chained,
    closed,
    episode_lines,
    latest,
)
from agentgym.evaluation.log.runfiles import parse_run, write_run
from agentgym.evaluation.log.stored_run import read_stored_run
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.packed import PackedGames, pack_run, read_packed, replay_packed

PAGE = Path(__file__).with_suffix(".md")


@dataclass(frozen=True, slots=True)
class Rederived:
    """A run before and after."""

    before: EvalLog
    after: EvalLog
    old: Sequence[EvalSample]
    new: Sequence[EvalSample]

    @property
    def changed(self) -> set[str]:
        """Labels of the environments whose counts changed."""
        return {a.env for a, b in zip(self.old, self.new, strict=True) if a.invalid_count != b.invalid_count}

    @property
    def row(self) -> str:
        """Its line of the page."""
        counts = [sum(episode.invalid_count for episode in episodes) for episodes in (self.old, self.new)]
        scores = [sum(episode.score for episode in latest(episodes)) for episodes in (self.old, self.new)]
        cells = [
            f"{self.before.suite.name}/{self.before.folder_name}",
            ", ".join(sorted(self.changed)),
            f"{sum(episode.length for episode in self.new):,}",
            *(f"{count:,}" for count in counts),
            *(f"{score:g}" for score in scores),
            *(f"`{run.result_id}`" for run in (self.before, self.after)),
        ]
        return f"| {' | '.join(cells)} |"


def rederive(path: Path) -> Rederived:
    """Play a packed run's actions again; write it anew where its counts of invalid actions differ.

    Args:
        path: the packed file.

    Raises:
        UsageError: the run differs in anything else.
    """
    header, packed = read_packed(path.read_bytes(), str(path))
    run = parse_run(dict(header.run), str(path))
    old, new, previous = [], [], run.request_id
    with ExitStack() as stack:
        suite = load_suite(suite_file_of_run(path, run.suite.name))
        games = PackedGames(suite.env, RecordedAnswers(header.answers), stack)
        for line in packed:
            record, kept = replay_packed(line, games, previous)
            old.append(replace(record, invalid_count=kept.invalid_count))
            new.append(record)
            previous = old[-1].line_sha256
    if hashlib.sha256(episode_lines(old)).hexdigest() != run.episodes_sha256:
        raise UsageError(f"{path}: more than its counts of invalid actions comes out otherwise")
    again = chained(run.request_id, new)
    complete = closed(run, again, run.transcripts_sha256, run.answers_sha256)
    if again != old:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / EPISODES_FILE).write_bytes(episode_lines(again))
            for name, content in header.files.items():
                (place / name).write_bytes(content)
            write_run(place, complete)
            pack_run(read_stored_run(place), path.parents[1])
    return Rederived(run, complete, old, again)


HEAD = """\
# Runs whose counts of invalid actions were derived anew

Made by `python -m benchmarks.rederive benchmarks/runs/*/*.run.xz`, which plays the recorded actions of each
packed run again. A run is listed where a count differs. With the counts it had, each came out byte for byte
as its digest says, so actions, states, rewards, scores and ends are what they were; the counts, and the ids
that cover them, are not.

*Scores* are sums over episodes. The boards and `smollm2.md` have the new counts.

**Why**: in multi-hop questions and paper search an action without any call ends the episode, and was counted
as valid. It is counted as invalid now.

| run | environments | steps | invalid before | after | scores before | after | result id before | after |
|:--|:--|--:|--:|--:|--:|--:|:--|:--|
"""


def main() -> int:
    """Derive runs anew and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN.run.xz")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the list goes")
    given = parser.parse_args()
    rows = []
    for path in given.runs:
        try:
            found = rederive(path)
        except UsageError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write(f"{path}: {json.dumps(sorted(found.changed)) if found.changed else 'as it was'}\n")
        rows += [found.row] * bool(found.changed)
    given.page.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
