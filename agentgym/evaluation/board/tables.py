"""Boards as Markdown. Nothing is computed here but roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from agentgym.agents.imported import IMPORTED
from agentgym.core.suite_spec import Measure
from agentgym.evaluation.board.boards import Board, Row
from agentgym.evaluation.board.endpoint_tables import answered_by, endpoint_table, has_judge, judge_deviation
from agentgym.evaluation.board.published import Paper, Published, PublishedSuccess
from agentgym.evaluation.board.statistics import POWER, Estimate, can_be_told, detectable_difference
from agentgym.evaluation.log.markdown import Marked, code_cell, escape, table, text_cell
from agentgym.evaluation.log.results import RunEnv
from agentgym.evaluation.verify.submissions import Unranked

MAX_PAIRS = 15
"""Most pairs of rows in a board's page; with more, the ``.json`` alone lists them."""

_INTRODUCTION = """\
# Leaderboard

Every number follows from the result files of the runs, and brackets hold its 95 % interval: Wilson's over
tasks for one attempt per task or no variance, else Student's t over task means, both for *this checkpoint*;
of several training seeds, over runs crossed with tasks. *Normalised* is 0 for the floor and 1 for the oracle
of the same suite (in italics), both taken as exact; *mean*, *IQM* (interquartile mean, from three training
seeds on) and *gap* (shortfall below the oracle) are normalised and over environments, where suites of
environments (Sokoban, WebShop and so on) weigh the same and so do the columns of each. *Rank* is 1 + the
number of rows that are significantly better on the mean (permutation test of the signs of tasks where each
row is one run, which ranks *this checkpoint*, else of runs; Holm over all pairs that can be told, 5 % level);
rows of a tied set share it (`=`). Episodes that end in an error count with score 0, and with the worse bound
of each measure but what was spent; no rank depends on measures.

Whoever builds this page verifies every run on it. *replayed*: every action was played again, and states,
rewards and scores came out the same bit for bit; so the score belongs to the actions, which does not show
which model made them. *model-checked*: its model also gives a random sample of its responses their recorded
probabilities. *re-run*: the agent itself played again and did the same. What could not be verified is
*claimed*, and not ranked. **Stated by the submitter**, proven by nothing and part of no rank: names and
descriptions of agents that were not re-run, dates and versions, tokens and costs, format errors, and which
error ended an episode; but which runs are training seeds of one row follows from those descriptions.
"""

Note: TypeAlias = list[tuple[Literal["", "text", "code", "strong"], str]]
"""Remark in pieces: the package's words, a submitter's words, code, and emphasised names."""

PUBLISHED_ABOUT = (
    "Numbers as papers print them, ± what they print there; other prompts, budgets, tasks and seeds than "
    "above, and not re-executable here."
)


def markdown(
    boards: Iterable[Board],
    published: Published,
    curves: Mapping[str, str] | None = None,
    unranked: Iterable[Unranked] = (),
) -> str:
    """Return the page; ``curves`` are paths of training curves, relative to it, by the run's name."""
    boards = list(boards)
    parts = [_INTRODUCTION]
    for board, title in zip(boards, titles(boards), strict=True):
        parts.append(_board_markdown(board, title, published, curves or {}))
    refused = [f"- {unranked_line(run)}\n" for run in unranked]
    if refused:
        parts.append(f"## Not ranked\n\n{''.join(refused)}")
    apart = published.apart({board.suite.name for board in boards})
    if apart:
        parts.append(f"## Published, not ranked\n\n{_published_table(apart)}")
    return "\n".join(parts)


def titles(boards: Sequence[Board], written: Callable[[str], str] = text_cell) -> list[str]:
    """Return the boards' titles; suites that share name and version are told apart by their sha256."""
    names = [
        f"{board.suite.name}, version {written(board.suite.version)}"
        + (", attested answers" if board.attested else "")
        for board in boards
    ]
    digests = {
        name: {board.suite_sha256 for board, n in zip(boards, names, strict=True) if n == name}
        for name in names
    }
    return [
        name if len(digests[name]) == 1 else f"{name} (suite {board.suite_sha256[:12]})"
        for board, name in zip(boards, names, strict=True)
    ]


def _board_markdown(board: Board, title: str, published: Published, curves: Mapping[str, str]) -> str:
    parts = [f"## {title}\n", f"Suite sha256 `{board.suite_sha256}`.\n", table(*main_cells(board), left=2)]
    remarks = ["".join(_WRITTEN[style](text) for style, text in note) for note in notes(board)]
    remarks += [unranked_line(run) for run in board.unranked]
    if remarks:
        parts.append("\n".join(f"- {line}" for line in remarks) + "\n")
    parts += ["### By environment\n", _environment_table(board)]
    parts.append(table(*result_cells(board, _agent), left=2))
    parts += answered_by(board)
    typed = [table(head, lines, left=2) for head, lines in type_cells(board, _agent)]
    if typed:
        parts += ["### By task type\n", "\n".join(typed)]
    measured = [table(head, lines, left=2) for head, lines in measure_cells(board, _agent)]
    if measured:
        parts += [
            "### Measures\n",
            *measured,
            "".join(f"- *{name}*: {about}.\n" for name, about in measure_notes(board)),
        ]
    endpoints = endpoint_table(board, _agent)
    if endpoints:
        parts += ["### Endpoints\n", endpoints]
    if 0 < len(board.comparisons) <= MAX_PAIRS:
        parts += ["### Comparisons\n", _comparison_table(board)]
    below = published.below(board.suite.name)
    if below:
        parts += ["### Published, not ranked\n", _published_table(below)]
    parts += ["### Runs\n", _run_table(board)]
    for row in board.rows:
        if row.agent.model.training_run in curves:
            path = curves[row.agent.model.training_run]
            parts.append(f"![How the policy of {escape(row.name)} was trained]({path})\n")
    return "\n".join(parts)


def main_cells(board: Board, *, unread: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of a board's main table as text, best row first.

    ``unread`` adds to scores the share of responses that could not be read, which another table has.
    """
    iqm = has_iqm(board)
    head = ["Rank", "Agent", *(f"{env.env.label} ({unit(env)})" for env in board.envs)]
    head += ["Mean", *["IQM"] * iqm, "Gap", "Badge"]
    lines = []
    for row in board.rows:
        cells = [rank_cell(row, board.rows), _agent(row)]
        cells += [_unread(row, env) if unread else score_cell(row, env) for env in board.envs]
        mean, middle, gap = (
            aggregate_cell(getattr(row.aggregate, name, None)) for name in ("mean", "iqm", "optimality_gap")
        )
        lines.append([*cells, mean, *[middle] * iqm, gap, row.earned])
    return head, lines


def has_iqm(board: Board) -> bool:
    """Return whether any row of a board has an interquartile mean."""
    return any(row.aggregate is not None and row.aggregate.iqm is not None for row in board.rows)


def unranked_line(run: Unranked) -> str:
    """Return why a run is on no line of a table, as Markdown on one line."""
    request = f" (run `{text_cell(run.run[:12])}`)" if run.run else ""
    return f"Not ranked: `{code_cell(run.name)}`{request}: {text_cell(run.reason)}."


def notes(board: Board) -> list[Note]:
    """Return a board's notes beside its numbers."""
    found: list[Note] = [
        [
            ("strong", label),
            ("", " is left out, since neither submitters nor verifier have its data: nothing is ranked."),
        ]
        for label in board.left_out
    ]
    for label in board.attested:
        rests = " rests on attested answers, what an endpoint said: these rows have a board of their own."
        found.append([("strong", label), ("", rests)])
    if not board.scales and not board.left_out:
        found.append(
            [
                ("", "No rank: that takes a complete run each of floor and oracle, the agents "),
                ("code", board.suite.floor),
                ("", " and "),
                ("code", board.suite.oracle),
                ("", ", re-run."),
            ]
        )
    if not board.suite.floor:
        bounds = "Normalised scores are 0 and 1 at the bounds of each score, not at a floor and an oracle."
        found.append([("", bounds)])
    for label, scale in board.scales.items():
        if not scale.usable:
            why = " is not normalised (n/a): the oracle is no better than the floor."
            found.append([("strong", label), ("", why)])
    for row in board.rows:
        found += _row_notes(row)
    found += _run_notes(board)
    for pair in board.alike:
        share = f"{100 * pair.equal / pair.of:.1f} % of its episodes ({pair.equal:,} of {pair.of:,})"
        first, second = _run_of(pair.first, pair.first_result), _run_of(pair.second, pair.second_result)
        equal: Note = [("", f": {share} are equal, action by action and state by state, to those of ")]
        found.append([*second, *equal, *first, ("", ".")])
    return found


def _run_notes(board: Board) -> list[Note]:
    """Return which pairs numbers of runs cannot tell, and the differences that those of others find."""
    runs = {row.name: len(row.runs) for row in board.rows}
    counts = [(runs[pair.first], runs[pair.second]) for pair in board.comparisons]
    found: dict[str, Note] = {}
    for pair, (first, second), can in zip(board.comparisons, counts, can_be_told(counts), strict=True):
        if max(first, second) > 1:
            names: Note = [("", " ("), ("code", pair.first), ("", ", "), ("code", pair.second), ("", ")")]
            several = " among so many pairs" * bool(can_be_told([(first, second)])[0])
            head = (
                f"Cannot be told with {first if first == second else f'{first} and {second}'} runs{several}:"
            )
            if can:
                head = f"Least difference found with probability {POWER}, before Holm, as the runs deviate:"
                least = detectable_difference(pair.standard_error, 1, first + second - 2)
                names.append(("", f" {least:.3f}"))
            found.setdefault(head, []).extend(names)
    return [[("", head), *names, ("", ".")] for head, names in found.items()]


def _run_of(row: str, result: str) -> Note:
    return [("code", row), ("", " (result "), ("code", result[:12]), ("", ")")]


def _row_notes(row: Row) -> list[Note]:
    found: list[Note] = []
    for gap in row.left_out:
        unplayed: Note = [("", " is not ranked: it does not play "), ("strong", gap.label), ("", ": ")]
        found.append([("code", row.name), *unplayed, ("text", gap.reason), ("", ".")])
    if row.seeds == 1:
        alone = ": one training seed, so its intervals and rank are of this checkpoint, not of its algorithm."
        found.append([("code", row.name), ("", alone)])
    if row.seeds > 1:
        ranked = "" if row.rank is None else ", and its rank permutes them"
        several = f": {row.seeds} training seeds; its intervals are over runs{ranked}."
        found.append([("code", row.name), ("", several)])
    for each in row.unreadable:
        found.append([("code", row.name), ("", ": "), ("text", str(each)), ("", ".")])
    for other in row.contested_by:
        contests: Note = [("", " is contested by result "), ("code", other[:12])]
        own = " of the same agent and training seed, which has other episodes: each is ranked by its own."
        found.append([*_run_of(row.name, row.results[0]), *contests, ("", own)])
    return found


_WRITTEN: Mapping[str, Callable[[str], str]] = {
    "": lambda text: text,
    "text": text_cell,
    "code": lambda text: f"`{code_cell(text)}`",
    "strong": lambda text: f"**{text_cell(text)}**",
}


def environment_cells(board: Board) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of the table of a board's environments as text."""
    head = ["Environment", "Id", "Options", "Split", "Tasks", "Floor", "Oracle", "Detectable difference"]
    lines = []
    for env in board.envs:
        label, scale = env.env.label, board.scales.get(env.env.label)
        detectable = board.detectable[label]
        lines.append(
            [
                f"{label} ({unit(env)})",
                env.env.id,
                ", ".join(f"{key}={value}" for key, value in env.env.kwargs.items()) or "-",
                env.env.split,
                f"{env.env.count} x {board.suite.attempts}",
                "-" if scale is None else _number(scale.floor, env),
                "-" if scale is None else _number(scale.oracle, env),
                "none" if detectable is None else _number(detectable, env),
            ]
        )
    return head, lines


def _environment_table(board: Board) -> str:
    head, lines = environment_cells(board)
    lines = [[label, Marked(f"`{code_cell(env_id)}`"), *others] for label, env_id, *others in lines]
    caption = (
        "*Tasks* x attempts, the first tasks of the split. *Detectable difference*: the least one that two "
        "independent agents near 50 % show with 80 % power; none where so few tasks tell no two apart.\n"
    )
    return table(head, lines, left=4) + "\n" + caption


def result_cells(board: Board, name: Callable[[Row], str]) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table of results, as text; ``name`` writes a row's name."""
    tokens = any(result.tokens_per_success for row in board.rows for result in row.envs.values())
    cost = any(result.cost_per_success for row in board.rows for result in row.envs.values())
    unread = any(result.format_errors.value for row in board.rows for result in row.envs.values())
    spread = any(has_judge(env) for env in board.envs)
    head = ["Environment", "Agent", "Success %", "Score", *["Judge SD"] * spread, "Invalid actions %"]
    head += ["Format errors %"] * unread + ["Steps"]
    head += ["Tokens / success"] * tokens + ["US$ / success"] * cost + ["Errors", "Retries", "Ends"]
    lines = []
    for env in board.envs:
        for row in _players(board, env):
            result = row.envs[env.env.label]
            cells = [env.env.label, name(row), _percent(result.success)]
            cells += ["-" if env.env.metric == "success" else _score(result.score, env)]
            cells += [judge_deviation(row, env)] * spread
            cells += [_percent(result.invalid), *[_percent(result.format_errors)] * unread]
            cells += [_one_decimal(result.steps)]
            cells += [_one_decimal(result.tokens_per_success)] * tokens
            cells += ["-" if (price := result.cost_per_success) is None else _interval(price, 1.0, 4)] * cost
            retries = "-" if result.retries is None else str(result.retries)
            ends = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in result.ends.items())
            lines.append([*cells, str(result.errors), retries, ends])
    if all(env.env.metric == "success" for env in board.envs):
        head.remove("Score")
        lines = [[*line[:3], *line[4:]] for line in lines]
    return head, lines


def _players(board: Board, env: RunEnv) -> list[Row]:
    return [row for row in board.rows if env.env.label in row.envs]


def type_cells(board: Board, name: Callable[[Row], str]) -> list[tuple[list[str], list[list[str]]]]:
    """Return head and lines of the tables by task type, one for each choice of types, as text."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for env in board.envs:
        for row in _players(board, env):
            result = row.envs[env.env.label]
            if result.by_type:
                cells = [_score(estimate, env) for estimate in (*result.by_type.values(), result.score)]
                line = [f"{env.env.label} ({unit(env)})", name(row), *cells]
                groups.setdefault(tuple(result.by_type), []).append(line)
    return [(["Environment", "Agent", *kinds, "All"], lines) for kinds, lines in groups.items()]


def measure_cells(board: Board, name: Callable[[Row], str]) -> list[tuple[list[str], list[list[str]]]]:
    """Return head and lines of the tables of measures, one for each choice of columns, as text.

    Old runs may have no measures.
    """
    if not any(result.measures for row in board.rows for result in row.envs.values()):
        return []
    tables: dict[tuple[Measure, ...], list[list[str]]] = {}
    for env in board.envs:
        columns = board.columns.get(env.env.label, ())
        for row in _players(board, env) if columns else []:
            found = row.envs[env.env.label].measures
            cells = [_measure_cell(found.get(column.name), column) for column in columns]
            tables.setdefault(columns, []).append([env.env.label, name(row), *cells])
    return [
        (["Environment", "Agent", *map(_measure_head, columns)], lines) for columns, lines in tables.items()
    ]


def _measure_head(column: Measure) -> str:
    if _is_share(column):
        return f"{column.name} %"
    unit = ", ".join([*[column.unit] * bool(column.unit), *["sum"] * column.total])
    return f"{column.name} ({unit})" if unit else column.name


def _is_share(column: Measure) -> bool:
    return column.bounds == (0.0, 1.0) and not column.unit and not column.total


def _measure_cell(estimate: Estimate | None, column: Measure) -> str:
    return "-" if estimate is None else _interval(estimate, 100.0 if _is_share(column) else 1.0, 1)


def measure_notes(board: Board) -> list[tuple[str, str]]:
    """Return the name of each measure, its description, and the better direction."""
    found = {column: None for columns in board.columns.values() for column in columns}
    better = {"higher": "higher is better", "lower": "lower is better", "neither": "spent, neither is better"}
    return [(column.name, f"{column.about} ({better[column.better]})") for column in found]


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
    return table(head, lines, left=2)


def _run_table(board: Board) -> str:
    head = ["Agent", "Kind", "Algorithm", "Base model", "Seeds", "Date", "Version", "Runs"]
    lines = [
        [
            _agent(row),
            _kind(row),
            row.agent.model.algorithm or "-",
            row.agent.model.base_model or "-",
            str(row.seeds or "-"),
            row.date,
            ", ".join(row.versions),
            Marked(" ".join(f"`{run[:12]}`" for run in row.runs)),
        ]
        for row in board.rows
    ]
    return table(head, lines, left=4)


def _published_table(results: Sequence[tuple[Paper, PublishedSuccess]]) -> str:
    """Return a table of success rates that papers print, and how each came about."""
    head = ["Environment", "Paper", "Model", "Method", "Success %"]
    lines = []
    for paper, result in results:
        spread = "" if result.spread is None else f" ± {result.spread}"
        lines.append(
            [result.environment, paper.place, result.model, result.method, f"{result.success}{spread}"]
        )
    notes = dict.fromkeys(
        line
        for paper, _ in results
        for line in (
            f"- {paper.place}: {paper.protocol}.\n",
            *(f"- {paper.place}: {caveat}.\n" for caveat in paper.caveats),
        )
    )
    results_table = table(head, sorted(lines, key=lambda line: line[0]), left=4)
    return f"{PUBLISHED_ABOUT}\n\n{results_table}\n{''.join(notes)}"


# --- cells ------------------------------------------------------------------------------------------


def unit(env: RunEnv) -> str:
    """Return the unit of an environment's scores, for heads of columns."""
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


def score_cell(row: Row, env: RunEnv) -> str:
    """Return a row's score in an environment; a dash where it does not play it."""
    result = row.envs.get(env.env.label)
    return "-" if result is None else _score(result.score, env)


def _unread(row: Row, env: RunEnv) -> str:
    result = row.envs.get(env.env.label)
    share = 0.0 if result is None else result.format_errors.value
    return score_cell(row, env) + (f", {100 * share:.0f} % unreadable" if share else "")


def _percent(estimate: Estimate) -> str:
    return _interval(estimate, 100.0, 1)


def _one_decimal(estimate: Estimate | None) -> str:
    return "-" if estimate is None else _interval(estimate, 1.0, 1)


def aggregate_cell(estimate: Estimate | None) -> str:
    """Return a normalised number."""
    return "n/a" if estimate is None else _interval(estimate, 1.0, 2)


def _interval(estimate: Estimate, scale: float, digits: int) -> str:
    value, low, high = (
        "∞" if math.isinf(x) else f"{scale * x:.{digits}f}"
        for x in (estimate.value, estimate.low, estimate.high)
    )
    return Marked(f"{value} [{low}, {high}]")


def rank_cell(row: Row, rows: Iterable[Row]) -> str:
    """Return a row's rank, marked where others share it."""
    if row.rank is None:
        return "-"
    return f"{row.rank}=" if sum(other.rank == row.rank for other in rows) > 1 else str(row.rank)


def _kind(row: Row) -> str:
    """Return the agent's kind; of an imported run also whose it was, and of which tasks."""
    options = row.agent.options if row.agent.kind == IMPORTED else {}
    stated = [one for one in (options.get("origin"), options.get("panel")) if isinstance(one, str)]
    kind = "replayed from a public log" if options.get("public") else row.agent.kind
    return ": ".join(filter(None, (kind, "; ".join(stated))))


def _agent(row: Row) -> str:
    return row.name if row.role == "agent" else Marked(f"*{text_cell(row.name)}*")
