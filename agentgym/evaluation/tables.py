"""Boards as Markdown, LaTeX, CSV and JSON. Nothing is computed here but roundings."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentgym.evaluation.boards import Board, Row
from agentgym.evaluation.published import Paper, Published, PublishedResult
from agentgym.evaluation.results import RunEnv
from agentgym.evaluation.scoring import EnvResult
from agentgym.evaluation.statistics import Estimate
from agentgym.records import json_schema

SCHEMA = 2
"""Version of the leaderboard's ``.json`` and ``.csv``; ``docs/schemas`` holds the JSON Schema of each."""

CSV_HEAD = (
    "suite", "version", "agent", "role", "rank", "badge", "date", "environment", "type", "measure", "value",
    "low", "high", "method",
)  # fmt: skip
"""Columns of the ``.csv``."""

MOST_PAIRS = 15
"""Boards with more pairs of rows list them in the ``.json`` only."""

_INTRODUCTION = """\
# Leaderboard

Every number follows from the result files of the runs, and brackets hold its 95 % interval: Wilson's over
tasks for one attempt per task or no variance, else Student's t over task means; a bootstrap over seeds and
tasks for several training seeds. *Normalised* is 0 for the floor and 1 for the oracle of the same suite (in
italics), both taken as exact; *mean*, *IQM* (interquartile mean) and *gap* (shortfall below the oracle) are
normalised and over environments. *Rank* is 1 + the number of rows that are significantly better on the mean
(paired by task, sign-flip permutation test, Holm over all pairs, 5 % level); rows of a tied set share it
(`=`). Episodes that end in an error count with score 0.

*replayed*: every action was played again, and states, rewards and scores came out the same bit for bit; so
the score belongs to the actions, which does not show which model made them. *re-run*: the agent itself
played again and did the same. *self-reported*: neither.
"""


_PUBLISHED = (
    "Numbers as papers print them, ± what they print there; other prompts, budgets, tasks and seeds than "
    "above, and not re-executable here."
)


def markdown(boards: Iterable[Board], published: Published, curves: Mapping[str, str] | None = None) -> str:
    """Return the page.

    Args:
        boards: what is ranked.
        published: results of papers.
        curves: paths of pictures, from the page, of how training runs went, by the run's name.
    """
    boards = list(boards)
    parts = [_INTRODUCTION, *(_board_markdown(board, published, curves or {}) for board in boards)]
    apart = published.apart({board.suite.name for board in boards})
    if apart:
        parts.append(f"## Published, not ranked\n\n{_published_table(apart)}")
    return "\n".join(parts)


def _board_markdown(board: Board, published: Published, curves: Mapping[str, str]) -> str:
    parts = [f"## {board.suite.name}, version {board.suite.version}\n", _table(*main_cells(board), left=2)]
    notes = _notes(board)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    parts += ["### By environment\n", _environment_table(board), _result_table(board)]
    typed = _type_table(board)
    if typed:
        parts += ["### By task type\n", typed]
    if 0 < len(board.comparisons) <= MOST_PAIRS:
        parts += ["### Comparisons\n", _comparison_table(board)]
    below = published.below(board.suite.name)
    if below:
        parts += ["### Published, not ranked\n", _published_table(below)]
    parts += ["### Runs\n", _run_table(board)]
    for row in board.rows:
        if row.agent.model.training_run in curves:
            path = curves[row.agent.model.training_run]
            parts.append(f"![How the policy of {_escape(row.name)} was trained]({path})\n")
    return "\n".join(parts)


def main_cells(board: Board) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of a board's main table as text, best row first."""
    head = ["Rank", "Agent", *(f"{env.env.label} ({_unit(env)})" for env in board.envs)]
    head += ["Mean", "IQM", "Gap", "Badge"]
    lines = []
    for row in board.rows:
        cells = [_rank(row, board.rows), _agent(row)]
        cells += [_cell(row, env) for env in board.envs]
        aggregate = row.aggregate
        numbers = (aggregate.mean, aggregate.iqm, aggregate.optimality_gap) if aggregate else (None,) * 3
        lines.append([*cells, *map(_plain, numbers), row.badge])
    return head, lines


def _notes(board: Board) -> list[str]:
    notes = [f"Left out: **{gap.label}**: {gap.reason}" for gap in board.left_out]
    if not board.scales:
        notes.append(
            f"Nothing is normalised or ranked: that takes one complete run each of the agents "
            f"`{board.suite.floor}` and `{board.suite.oracle}`."
        )
    for label, scale in board.scales.items():
        if not scale.usable:
            notes.append(f"**{label}** is not normalised (n/a): the oracle is no better than the floor.")
    for row in board.rows:
        for gap in row.left_out:
            notes.append(f"`{row.name}` is not ranked: it does not play **{gap.label}**: {gap.reason}.")
        if row.seeds == 1:
            notes.append(f"`{row.name}`: one training seed, so no training variance in its intervals.")
        if row.seeds > 1:
            notes.append(f"`{row.name}`: {row.seeds} training seeds; ranked on their mean, paired by task.")
    notes += [f"Not ranked: `{run.name}` (run `{run.run[:12]}`): {run.reason}." for run in board.unranked]
    return notes


def _environment_table(board: Board) -> str:
    head = ["Environment", "Id", "Options", "Split", "Tasks", "Floor", "Oracle", "Detectable difference"]
    lines = []
    for env in board.envs:
        label, scale = env.env.label, board.scales.get(env.env.label)
        detectable = board.detectable[label]
        lines.append(
            [
                f"{label} ({_unit(env)})",
                f"`{env.env.id}`",
                ", ".join(f"{key}={value}" for key, value in env.env.kwargs.items()) or "-",
                env.env.split,
                f"{env.env.count} x {board.suite.attempts}",
                "-" if scale is None else _number(scale.floor, env),
                "-" if scale is None else _number(scale.oracle, env),
                "-" if detectable is None else _number(detectable, env),
            ]
        )
    caption = (
        "*Tasks* x attempts, the first tasks of the split. *Detectable difference*: the least one that two "
        "independent agents near 50 % show with 80 % power.\n"
    )
    return _table(head, lines, left=4) + "\n" + caption


def _result_table(board: Board) -> str:
    tokens = any(result.tokens_per_success for row in board.rows for result in row.envs.values())
    cost = any(result.cost_per_success for row in board.rows for result in row.envs.values())
    head = ["Environment", "Agent", "Success %", "Score", "Invalid actions %", "Steps"]
    head += ["Tokens / success"] * tokens + ["US$ / success"] * cost + ["Ends"]
    lines = []
    for env in board.envs:
        for row in _players(board, env):
            result = row.envs[env.env.label]
            cells = [env.env.label, _agent(row), _percent(result.success)]
            cells += ["-" if env.env.metric == "success" else _score(result.score, env)]
            cells += [_percent(result.invalid), _one_decimal(result.steps)]
            cells += [_one_decimal(result.tokens_per_success)] * tokens
            cells += [_dollars(result.cost_per_success)] * cost
            lines.append([*cells, _ends(result)])
    if all(env.env.metric == "success" for env in board.envs):
        head.remove("Score")
        lines = [[*line[:3], *line[4:]] for line in lines]
    return _table(head, lines, left=2)


def _players(board: Board, env: RunEnv) -> list[Row]:
    return [row for row in board.rows if env.env.label in row.envs]


def _type_table(board: Board) -> str:
    """Return a table with a column for each task type; environments with other types get their own."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for env in board.envs:
        for row in _players(board, env):
            result = row.envs[env.env.label]
            if result.by_type:
                cells = [_score(estimate, env) for estimate in (*result.by_type.values(), result.score)]
                line = [f"{env.env.label} ({_unit(env)})", _agent(row), *cells]
                groups.setdefault(tuple(result.by_type), []).append(line)
    tables = (_table(["Environment", "Agent", *kinds, "All"], lines, 2) for kinds, lines in groups.items())
    return "\n".join(tables)


def _comparison_table(board: Board) -> str:
    head = ["First", "Second", "Difference of normalised means", "SE", "p", "p (Holm)"]
    lines = [
        [
            pair.first,
            pair.second,
            f"{pair.difference:+.3f}",
            f"{pair.standard_error:.3f}",
            f"{pair.p:.4f}",
            f"{pair.p_holm:.4f}",
        ]
        for pair in board.comparisons
    ]
    return _table(head, lines, left=2)


def _run_table(board: Board) -> str:
    head = ["Agent", "Kind", "Algorithm", "Base model", "Seeds", "Date", "Version", "Runs"]
    lines = [
        [
            _agent(row),
            row.agent.kind,
            row.agent.model.algorithm or "-",
            row.agent.model.base_model or "-",
            str(row.seeds or "-"),
            row.date,
            ", ".join(row.versions),
            " ".join(f"`{run[:12]}`" for run in row.runs),
        ]
        for row in board.rows
    ]
    return _table(head, lines, left=4)


def _published_table(results: Sequence[tuple[Paper, PublishedResult]]) -> str:
    """Return a table of what papers print, and how each came about."""
    head = ["Environment", "Paper", "Model", "Method", "Success %"]
    lines = []
    for paper, result in results:
        spread = "" if result.spread is None else f" ± {result.spread}"
        source = f"{paper.name}, Table {paper.table}"
        model = result.model or paper.model
        lines.append([result.environment, source, model, result.method, f"{result.success}{spread}"])
    protocols = dict.fromkeys(f"- {paper.name}: {paper.protocol}.\n" for paper, _ in results)
    table = _table(head, sorted(lines, key=lambda line: line[0]), left=4)
    return f"{_PUBLISHED}\n\n{table}\n{''.join(protocols)}"


# --- cells ------------------------------------------------------------------------------------------


def _table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    """Lay out a Markdown table whose first ``left`` columns are aligned left, the others right."""
    rows = [list(head), *([_escape(cell) for cell in line] for line in lines)]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(head))]
    rule = [f":{'-' * (w - 1)}" if i < left else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]

    def pad(row: Sequence[str]) -> str:
        cells = (
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(cells)} |\n"

    return "".join(pad(row) for row in [rows[0], rule, *rows[1:]])


def _escape(cell: str) -> str:
    """Keep a cell in its place, whatever an agent is called or an option holds."""
    return cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def _unit(env: RunEnv) -> str:
    if env.env.metric == "success":
        return "success %"
    return (
        "score %" if env.env.bounds == (0.0, 1.0) else f"score {env.env.bounds[0]:g} to {env.env.bounds[1]:g}"
    )


def _scaled(env: RunEnv) -> float:
    """Scores between 0 and 1 are shown in percent."""
    return 100.0 if env.env.metric == "success" or env.env.bounds == (0.0, 1.0) else 1.0


def _number(value: float, env: RunEnv) -> str:
    return f"{_scaled(env) * value:.1f}"


def _score(estimate: Estimate, env: RunEnv) -> str:
    return _interval(estimate, _scaled(env), 1)


def _cell(row: Row, env: RunEnv) -> str:
    """Return a row's score in an environment; a dash where it does not play it."""
    result = row.envs.get(env.env.label)
    return "-" if result is None else _score(result.score, env)


def _percent(estimate: Estimate) -> str:
    return _interval(estimate, 100.0, 1)


def _one_decimal(estimate: Estimate | None) -> str:
    return "-" if estimate is None else _interval(estimate, 1.0, 1)


def _dollars(estimate: Estimate | None) -> str:
    return "-" if estimate is None else _interval(estimate, 1.0, 4)


def _plain(estimate: Estimate | None) -> str:
    return "n/a" if estimate is None else _interval(estimate, 1.0, 2)


def _interval(estimate: Estimate, scale: float, digits: int) -> str:
    value, low, high = (
        "∞" if math.isinf(x) else f"{scale * x:.{digits}f}"
        for x in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} [{low}, {high}]"


def _rank(row: Row, rows: Iterable[Row]) -> str:
    if row.rank is None:
        return "-"
    return f"{row.rank}=" if sum(other.rank == row.rank for other in rows) > 1 else str(row.rank)


def _agent(row: Row) -> str:
    return row.name if row.role == "agent" else f"*{row.name}*"


def _ends(result: EnvResult) -> str:
    return ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in result.ends.items())


# --- other formats ----------------------------------------------------------------------------------


def latex(boards: Iterable[Board]) -> str:
    """Return booktabs tables; they need the packages booktabs and xcolor with option ``table``."""
    return "\n".join(["% \\usepackage{booktabs}\n% \\usepackage[table]{xcolor}", *map(_board_latex, boards)])


def _board_latex(board: Board) -> str:
    head = ["", "Agent", *(_tex(env.env.label) for env in board.envs), "Mean", "IQM"]
    lines = [
        f"% {_tex(board.suite.name)}, version {_tex(board.suite.version)}",
        f"\\begin{{tabular}}{{rl{'r' * (len(head) - 2)}}}",
        "\\toprule",
        " & ".join(head) + " \\\\",
        "\\midrule",
    ]
    for row in board.rows:
        cells = [_rank(row, board.rows), _tex(row.name)]
        cells += [_tex_interval(_cell(row, env)) for env in board.envs]
        numbers = (row.aggregate.mean, row.aggregate.iqm) if row.aggregate else (None, None)
        cells += [_tex_interval(_plain(number)) for number in numbers]
        shade = "" if row.role == "agent" else "\\rowcolor{gray!15} "
        lines.append(shade + " & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special.update({character: f"\\{character}" for character in "&%$#_{}"})
    return "".join(special.get(character, character) for character in text)


def _tex_interval(cell: str) -> str:
    value, bracket, interval = cell.partition(" [")
    if not bracket:
        return _tex(value)
    return f"{value} {{\\scriptsize [{interval}}}".replace("∞", "$\\infty$")


def as_csv(boards: Iterable[Board]) -> str:
    """Return one line per number: board, row, environment, measure, value, interval and method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for board in boards:
        for row in board.rows:
            about = [board.suite.name, board.suite.version, row.name, row.role]
            about += ["" if row.rank is None else str(row.rank), row.badge, row.date]
            for environment, kind, measure, estimate in _measures(row):
                values = [repr(x) for x in (estimate.value, estimate.low, estimate.high)]
                writer.writerow([*about, environment, kind, measure, *values, estimate.method])
    return text.getvalue()


def _measures(row: Row) -> Iterable[tuple[str, str, str, Estimate]]:
    """Yield environment, task type, measure and estimate of every number of a row."""
    for label, result in row.envs.items():
        for measure in ("score", "success", "invalid", "steps", "tokens_per_success", "cost_per_success"):
            estimate = getattr(result, measure)
            if estimate is not None:
                yield label, "", measure, estimate
        for kind, estimate in result.by_type.items():
            yield label, kind, "score", estimate
    if row.aggregate is not None:
        for measure in ("mean", "iqm", "optimality_gap"):
            yield "", "", f"normalised_{measure}", getattr(row.aggregate, measure)


def as_json(boards: Iterable[Board], published: Published) -> str:
    """Return everything as JSON; infinite ends of intervals are null."""
    table = {"schema": SCHEMA, "boards": [asdict(board) for board in boards], "published": asdict(published)}
    return json.dumps(_finite(table), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def schema() -> dict[str, Any]:
    """Return the JSON Schema of ``leaderboard.json``."""
    board, papers = json_schema(Board), json_schema(Published)
    properties = {
        "schema": {"const": SCHEMA},
        "boards": {"type": "array", "items": board},
        "published": papers,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"leaderboard.json of agentgym, schema {SCHEMA}",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
