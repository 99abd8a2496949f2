"""Downloads of official files, killed by `kill -9` at counted bytes and changes and started again: a report.

The hosts are on the loopback address and have faults of their own; the files are small copies in the layouts
of their publishers (`tests/official`). AGENTGYM_DATA names the samples that the copies are cut from.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import UsageError
from benchmarks.harness.report import machine, parser, publish, table
from tests.official.host import PASSING
from tests.official.kills import LACKING, Killer, Outcome, points, sets

OUT = Path("benchmarks/downloads.json")

ABOUT = """\
Every set of `agentgym data download` and `agentgym index download`, from hosts on the loopback address that
play the official ones, in small copies of the files in the layout that each publisher offers. A download is
killed (`kill -9`) after a drawn share of the bytes that it is sent, or at a drawn change of its files, both
counted, so that no clock decides. Then the same command is started again and has to end with the files of an
undisturbed download, byte for byte, verified. In both runs the hosts have up to three faults an address,
drawn from: {faults}.

*Left* is the state of the data directory after the kill: nothing, nothing but drafts and what is fetched, or
the whole set. *Sent again* is the share of a download's bytes that were sent after the kill, of which faults
are a part. Of {lacking} the files alone are compared: the encoder, and pyserini, with which their indexes are
taken over, are not there.
"""
"""Text above the table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill downloads; return 1 where one was damaged."""
    declared = parser("benchmarks.downloads", __doc__, OUT)
    declared.add_argument("--kills", type=int, default=60, help="(default: 60)")
    declared.add_argument("--seed", type=int, default=0, help="of places and faults (default: 0)")
    given = declared.parse_args(arguments)
    if "AGENTGYM_DATA" not in os.environ:
        raise UsageError(
            "copies are cut from samples of the official data: set AGENTGYM_DATA to their folder"
        )
    with tempfile.TemporaryDirectory() as folder:
        killer = Killer(Path(os.environ["AGENTGYM_DATA"]).absolute(), Path(folder))
        outcomes = [killer.play(point) for point in points(given.seed, given.kills, sets())]
    command = f"python -m benchmarks.downloads --kills {given.kills} --seed {given.seed}"
    about = machine()
    record = {"command": command, "machine": about, "outcomes": [_row(each) for each in outcomes]}
    publish(given.out, record, page(command, about, outcomes))
    return int(any(each.wrong for each in outcomes))


def page(command: str, about: dict[str, str], outcomes: Sequence[Outcome]) -> str:
    """Write the report as Markdown."""
    rows = []
    for name in sets():
        found = [each for each in outcomes if each.point.name == name]
        if found:
            left = [sum(each.left == state for each in found) for state in ("nothing", "a part", "whole")]
            resent = sum(each.resent for each in found) / len(found)
            wrong = sum(bool(each.wrong) for each in found)
            killed = sum(each.killed for each in found)
            rows.append((name, len(found), killed, *left, f"{resent:.0%}", wrong))
    versions = ", ".join(f"{name} {about[name]}" for name in about if name not in ("cpu", "system"))
    head = ("set", "downloads", "killed", "left: nothing", "a part", "whole", "sent again", "wrong")
    lines = [
        "# Downloads that are killed",
        "",
        f"`{command}` on {about['cpu'].replace(', one used', '')}; {versions}.",
        "",
        ABOUT.format(faults=", ".join(PASSING), lacking=" and ".join(LACKING)),
        *table(head, rows, numbers=7),
        "",
        *(
            f"- {each.point.name}, {each.point.kind}: {'; '.join(each.wrong)}"
            for each in outcomes
            if each.wrong
        ),
    ]
    total = sum(each.killed for each in outcomes)
    lines.append(f"{total} kills, {sum(bool(each.wrong) for each in outcomes)} sets damaged or half there.")
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> dict[str, object]:
    return {
        **outcome.point._asdict(),
        **{key: each for key, each in outcome._asdict().items() if key != "point"},
    }


if __name__ == "__main__":
    raise SystemExit(main())
