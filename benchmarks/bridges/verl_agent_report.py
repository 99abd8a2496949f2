"""The report on verl-agent's workers and ours, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.report import table

COLUMNS = ("rows", "processes", "peak memory", "50 steps of all", "processor time", "steps/s", "ready after")
GIB = 1 << 30


def cost_table(cost: Mapping[str, Any]) -> list[str]:
    """Return the table of what a rollout costs, and a line of ratios."""
    medians = cost["medians"]
    rows = [
        ("its Ray workers, measured", medians["theirs, 4"]),
        ("its Ray workers, measured", medians["theirs, 8"]),
        ("its Ray workers, **extrapolated**", cost["theirs, 128 by extrapolation"]),
        ("agentgym, measured", medians["ours, 128"]),
    ]
    lines = table(("ALFWorld, verl-agent's own manager over", *COLUMNS), (_cells(*row) for row in rows))
    ratios = {key: _range(values) for key, values in cost["ratios"].items()}
    lines.append(
        f"| fewer, less, faster by | 128 | {ratios['processes']} | {ratios['bytes']} | {ratios['seconds']} | "
        f"{ratios['processor seconds']} | {ratios['seconds']} | |"
    )
    return lines


def _cells(name: str, figures: Mapping[str, float]) -> tuple[str, ...]:
    return (
        name,
        f"{figures['rows']:,.0f}",
        f"{figures['processes']:,.0f}",
        f"{figures['bytes'] / GIB:,.2f} GiB",
        f"{figures['seconds']:,.2f} s",
        f"{figures['processor seconds']:,.2f} s",
        f"{figures['steps a second']:,.0f}",
        f"{figures['seconds to be ready']:,.0f} s" if "seconds to be ready" in figures else "",
    )


def _range(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:,.0f} x ({ordered[0]:,.0f} to {ordered[-1]:,.0f})"


def markdown(report: Mapping[str, Any]) -> str:
    """Write the report."""
    suites = report["suites"]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [
        "# verl-agent's workers and ours, side by side",
        "",
        f"`make bridge-verl-agent CHECKOUT=path`: verl-agent at {report['commit'][:10]}.",
        f"{report['machine']}. {versions}.",
        "",
        *PLAYED,
        "",
        *_differences(suites),
        "",
        *table(("response", "steps", "of them valid to the projection"), _responses(suites)),
        "",
        *(cost_table(report["cost"]) if "cost" in report else ()),
        "",
        *(_loop(report["loop"]) if "loop" in report else ()),
        *NOTES,
    ]
    return "\n".join(lines) + "\n"


def _differences(suites: Mapping[str, Any]) -> list[str]:
    names = list(next(iter(suites.values()))["differences"])
    counted = ("episodes", "won", "steps", "ends")
    rows = (
        (suite, *(f"{found[name]:,}" for name in counted), *(found["differences"][name] for name in names))
        for suite, found in suites.items()
    )
    return table(("suite", *counted, *(f"differences: {name}" for name in names)), rows)


def _loop(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = list(next(iter(found.values())))
    rows = ((anchor, *(f"{values[name]:g}" for name in names)) for anchor, values in found.items())
    return [*LOOP, "", *table(("anchor", *names), rows), ""]


def _responses(suites: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    totals: dict[str, list[int]] = {}
    for found in suites.values():
        for kind, (steps, valid) in found["responses"].items():
            total = totals.setdefault(kind, [0, 0])
            total[0] += steps
            total[1] += valid
    return [(kind, f"{steps:,}", f"{valid:,}") for kind, (steps, valid) in sorted(totals.items())]


PLAYED = (
    "verl-agent's own managers, prompts and projections, over its Ray workers and over agentgym's vector",
    "environment: the same tasks, the same scripted responses, and everything that a manager returns.",
    "Half of the episodes follow a plan, half choose at random; half of each with 30 % or 50 % of odd",
    "responses. Training rows (two groups of four) and validation rows (four) are alive at once. What a",
    "manager says of an episode that is over is left out: the trainer masks it; its workers play on, ours",
    "stand still.",
)

LOOP = (
    "Its own `TrajectoryCollector` and `core_gigpo` over our managers, on the built-in ALFWorld, with a",
    "scripted model over a tokenizer of bytes:",
)
NOTES = (
    "What had a stand-in below its workers: torchvision (pictures by THOR) and, for WebShop, the",
    "environment that drives a browser, pyserini's Python around Lucene (its jar is used) and spaCy's",
    "`en_core_web_sm`, which is on no package index: every word of a title but stop words is a noun on",
    "both sides. Its workers each draw prices of their own; all were given ours. Goals and rooms are",
    "those its workers drew. Boards are compared as text: in mode `rgb_array` ours are drawn with tiles",
    "of our own. `main_ppo.py` needs GPUs: it was not run.",
    "",
    "Costs (script: `benchmarks/bridges/verl_agent_cost.py` at a4008b10): random admissible commands;",
    "the manager's seconds for a reset and 50 steps, and what the",
    "processors spent on them. Runs alternate, on a machine with other work: medians of rounds, ratios",
    "within rounds. Processes and memory (proportional set sizes, summed over the process tree, at their",
    "peak) are with the trainer's process, torch imported, and with Ray's daemons. Ours hold the 128 rows",
    "of validation as well; theirs do not. Extrapolation: each row is a process; memory and seconds go",
    "on in a straight line through 4 and 8 workers, on these cores; ratios by the line of each round.",
    "The three rounds of 4 workers took 14 to 34 seconds, so the line is rough.",
)
