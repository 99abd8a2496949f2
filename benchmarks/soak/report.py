"""What a soak found, as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.harness.report import table_text
from benchmarks.soak.traffic import Traffic
from benchmarks.soak.watch import DRIFT, MIN_GROWTH, PARTS, SHARE, WARM_UP, Growth

_INTRODUCTION = """\
# Soak

`{command}` on {cpu}; {versions}.

At the same time: *train* trains a model of our own in one run without end, every episode at its own pace,
one update behind and with weights changed under it; *retrain* does the same in further processes, kills them
by `kill -9`, resumes, and counts the groups; *play* plays in every suite (single and vector, random and
hostile actions, snapshots, copies and pickles); *bench* runs benchmarks in further processes, kills them,
resumes, verifies and ranks them; *publish* verifies runs and builds the leaderboard, from kept verdicts and,
now and then, without; *site* is `agentgym serve webshop`, whose *visitors* come, search, click and leave,
with others among them that send what must be refused or hold connections open; *server* is
`agentgym serve env`, whose *clients* begin sessions and never end them.

After the first {warm_up:.0%} of the time, in which caches fill, a process's memory may grow by at most
{share:.0%} or {least:.0f} MiB, whichever is more, from the first {parts}th of the remaining time to the
last (medians); its threads, and its descriptors when nothing is going on, by none; and its processor time a
step may differ by {drift:.0%}.

"""


def page(
    command: str,
    about: Mapping[str, str],
    growths: Sequence[Growth],
    done: Mapping[str, Mapping[str, int]],
    traffic: Traffic,
    problems: Sequence[str],
) -> str:
    """Return the report."""
    versions = ", ".join(f"{name} {text}" for name, text in about.items() if name not in ("cpu", "system"))
    parts = [
        _INTRODUCTION.format(
            command=command,
            cpu=about["cpu"],
            versions=versions,
            warm_up=WARM_UP,
            share=SHARE,
            least=MIN_GROWTH,
            drift=DRIFT,
            parts=PARTS,
        ),
        "## Memory, descriptors, threads and processor time\n\n",
        _growths(growths),
        "\nA slope is a line's through all samples after the warm-up. A step of *site* is a request, of\n"
        "*server* a session, of *publish* a board.\n\n## Work\n\n",
        _work(done, traffic),
        "\n## Refused by the site\n\n",
        table_text(
            ["Request", "Answer", "Times"],
            [[*kind.rsplit(": ", 1), f"{times:,}"] for kind, times in sorted(traffic.refusals.items())],
        ),
        "\n## Found\n\n",
        "".join(f"- {problem}\n" for problem in problems) or "Nothing was found.\n",
    ]
    return "".join(parts)


def _growths(growths: Sequence[Growth]) -> str:
    head = ["Process", "MiB, first part", "Last part", "Growth", "An hour", "Descriptors by part", "At most"]
    lines = [
        [
            growth.name,
            f"{growth.first:.1f}",
            f"{growth.last:.1f}",
            f"{growth.last - growth.first:+.1f}",
            f"{growth.slope:+.1f}",
            " ".join(map(str, growth.descriptors)),
            str(growth.most),
            " ".join(map(str, growth.threads)),
            " ".join(f"{1000 * seconds:.3g}" for seconds in growth.pace),
        ]
        for growth in growths
    ]
    return table_text([*head, "Threads by part", "Processor ms a step by part"], lines)


def _work(done: Mapping[str, Mapping[str, int]], traffic: Traffic) -> str:
    lines = [
        [name, ", ".join(f"{number:,} {what}" for what, number in counts.items())]
        for name, counts in done.items()
    ]
    times = sorted(traffic.seconds)
    if times:
        worst = f"{1000 * times[int(0.99 * (len(times) - 1))]:.0f} ms in 99 of 100, {times[-1]:.2f} s at most"
        lines += [
            [
                "visitors",
                f"{traffic.visits:,} visits, {len(times):,} requests, {traffic.slow:,} slow connections",
            ],
            ["their answers", ", ".join(f"{n:,} times {s}" for s, n in sorted(traffic.statuses.items()))],
            ["answered in", f"{1000 * median(times):.0f} ms (median), {worst}"],
        ]
    return table_text(["What", "How many"], lines)
