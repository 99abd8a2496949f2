"""What fuzzing found, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from benchmarks.fuzz.actions import MOMENT, Tally
from benchmarks.fuzz.kills import Kills
from benchmarks.fuzz.mutations import OUTCOMES, Form, Outcome, Place
from benchmarks.harness.report import table_text

FORMS: tuple[Form, ...] = get_args(Form)

FAILED: tuple[Outcome, ...] = ("survived", "crashed")

_INTRODUCTION = """\
# Fuzzing

`{command}` on {cpu}; {versions}. {minutes:.0f} minutes.

"""

_MUTATIONS = """\
## Changed files

Runs of a small suite by agents that play again (`random`, `oracle`, `rules`), by one that does not
(`model`: transcripts, tokens, costs, errors, second attempts), by one that plays a part of the suite
(`narrow`), and by one whose game asks outside the package (`asker`: recorded answers, a judge's spread, a
ledger of calls). {runs:,} changes, made from the list of a run's files and from the records' schemas: every
field, list, line and file in every way that its type suggests, packed runs and archives too; as it is, and
with every digest recomputed; pipes, sockets, devices, folders, links and holes in the place of every file;
and odd names of folders and files. A name that changes nothing is *nothing published*. *Caught*: the run is
refused, or cannot be read. *Stated*: the schema says that the field is the submitter's word; it changes
what is shown as such, and no rank, score, interval, role or badge. *Nothing published*: page, JSON, CSV
and LaTeX are as they were, byte for byte. None may survive or crash.

"""

_ACTIONS = """\
## Hostile actions

Of each: no exception but the documented ones, valid where `is_admissible` says so, an invalid one
changes neither state hash nor admissible actions, other slots are left alone, and at most {moment:.0f}
ms of processor time. What took longer at first was measured again from the same state, and the least
counts (*again*).

"""

_KILLS = """\
## Kills

`agentgym bench` killed by `kill -9` at random moments and resumed, half of the rounds with `--verify`
and `--leaderboard`: no line is lost or changed, attempts and the chain of lines are right, and the
result is that of a benchmark that was never killed.

"""


@dataclass(frozen=True, slots=True)
class Mutations:
    """What became of changed files."""

    every: int
    """All that there are."""
    counts: Counter[tuple[Place, Outcome]]
    failures: tuple[str, ...]
    without_trace: int
    """Earlier attempts that were taken out whole."""
    seconds: float

    @property
    def tried(self) -> int:
        """How many were tried, without those that changed nothing."""
        return sum(count for (_, outcome), count in self.counts.items() if outcome != "no change")


def failures(mutations: Mutations | None, tallies: Sequence[Tally], kills: Kills | None) -> list[str]:
    """Return everything that is wrong, in lines."""
    lines = list(mutations.failures) if mutations else []
    lines += [line for tally in tallies for line in tally.violations]
    return lines + (kills.wrong if kills else [])


def page(
    command: str,
    about: Mapping[str, str],
    minutes: float,
    mutations: Mutations | None,
    tallies: Sequence[Tally],
    kills: Kills | None,
) -> str:
    """Return the report."""
    versions = ", ".join(f"{name} {text}" for name, text in about.items() if name not in ("cpu", "system"))
    parts = [_INTRODUCTION.format(command=command, cpu=about["cpu"], versions=versions, minutes=minutes)]
    if mutations is not None:
        parts += [_mutations(mutations)]
    if tallies:
        parts += [_actions(tallies)]
    if kills is not None:
        parts += [_kills(kills)]
    wrong = failures(mutations, tallies, kills)
    found = "".join(f"- `{line}`\n" for line in wrong) if wrong else "Nothing was found.\n"
    return "".join([*parts, f"## Found\n\n{found}"])


def _mutations(found: Mutations) -> str:
    text = _MUTATIONS.format(runs=found.tried)
    by_file: Counter[tuple[str, str, Outcome]] = Counter()
    by_field: Counter[tuple[str, str, Outcome]] = Counter()
    for (place, outcome), count in found.counts.items():
        by_file[place.file, place.form, outcome] += count
        by_field[place.file, place.field, outcome] += count
    shown = [outcome for outcome in OUTCOMES if outcome != "no change"]
    text += table_text(
        ["File", "Form", *map(str.capitalize, shown)],
        [
            [file, form, *(f"{by_file[file, form, outcome]:,}" for outcome in shown)]
            for file in dict.fromkeys(file for file, *_ in by_file)
            for form in FORMS
            if any(by_file[file, form, outcome] for outcome in shown)
        ],
    )
    passed = f"{found.without_trace} of {found.without_trace} pass"
    trace = (
        "\nAn earlier attempt that its submitter takes out whole, with its number and every digest, leaves "
        f"no trace in any file: {passed}, and change the column *Retries* alone. Where its line, its "
        "number or a digest of it is left, it is caught: those are among the changes above.\n\n"
    )
    fields = [
        [f"`{file}`", f"`{field}`", *(f"{by_field[file, field, outcome]:,}" for outcome in shown)]
        for file, field in sorted({(file, field) for file, field, _ in by_field})
    ]
    return (
        text
        + trace
        + "### By field\n\n"
        + table_text(["File", "Field", *map(str.capitalize, shown)], fields)
        + "\n"
    )


def _actions(tallies: Sequence[Tally]) -> str:
    head = [
        "Environment",
        "Actions",
        "To a slot",
        "Admissible",
        "No string",
        "Slowest",
        "Its shape",
        "Again",
        "Wrong",
    ]
    lines = [
        [
            tally.env_id.removeprefix("agentgym/"),
            f"{tally.actions:,}",
            f"{tally.vector:,}",
            f"{tally.valid:,}",
            f"{tally.refused:,}",
            f"{1000 * tally.slowest:.1f} ms",
            tally.slowest_shape,
            f"{tally.remeasured}",
            f"{tally.wrong}",
        ]
        for tally in tallies
    ]
    total, wrong = sum(tally.actions for tally in tallies), sum(tally.wrong for tally in tallies)
    again = sum(tally.remeasured for tally in tallies)
    lines.append(["all", f"{total:,}", "", "", "", "", "", f"{again}", f"{wrong}"])
    shapes: Counter[str] = sum((tally.shapes for tally in tallies), Counter())
    kinds = ", ".join(f"{count:,} {shape}" for shape, count in shapes.most_common())
    fair = sum(tally.fair for tally in tallies)
    text = _ACTIONS.format(moment=1000 * MOMENT) + table_text(head, lines)
    return f"{text}\n{kinds}; between them {fair:,} admissible ones.\n\n"


def _kills(kills: Kills) -> str:
    lines = [
        ["kills", f"{kills.kills}"],
        ["while episodes were played", f"{kills.while_playing}"],
        ["after the last episode", f"{kills.afterwards}"],
        ["that left half a line", f"{kills.torn}"],
        ["benchmarks brought to their ends", f"{kills.rounds}"],
        ["lines at their ends", f"{kills.lines:,}"],
        ["of them, further attempts after errors", f"{kills.attempts:,}"],
        ["lines lost, results that differ, broken chains", f"{len(kills.wrong)}"],
    ]
    return f"{_KILLS}{table_text(['What', 'How many'], lines)}\n"
