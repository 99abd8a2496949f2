"""Board tables of models behind endpoints: calls, servers, and the judge's spread."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.evaluation.board.boards import Board, Row
from agentgym.evaluation.log.judge_spread import JUDGE
from agentgym.evaluation.log.markdown import code_cell, table, text_cell
from agentgym.evaluation.log.results import AGENT, RunEnv

_STATED = """\
Stated by the submitter. *Seconds* are of an answer: the median over episodes of their means, and the 95th
percentile of the same. No price is shown where none was given.
"""


def endpoint_table(board: Board, name: Callable[[Row], str]) -> str:
    """Return the table of `endpoint_cells` as Markdown; empty without any endpoint."""
    head, lines = endpoint_cells(board, name)
    return f"{table(head, lines, left=3)}\n{_STATED}" if lines else ""


def endpoint_cells(board: Board, name: Callable[[Row], str]) -> tuple[list[str], list[list[str]]]:
    """Return head and lines of the table of endpoint calls by agent; ``name`` writes a row's name."""
    head = ["Environment", "Agent", "Model", "Answers", "Tokens in", "Tokens out", "US$"]
    head += ["Seconds, median", "Seconds, 95 %"]
    lines = []
    for env in board.envs:
        for row in board.rows:
            result = row.envs.get(env.env.label)
            if result is None or result.endpoint is None:
                continue
            used = result.endpoint
            models = ", ".join(e.model for e in row.endpoints if AGENT in e.asked_by)
            lines.append(
                [
                    env.env.label,
                    name(row),
                    models,
                    f"{used.answers:,}",
                    f"{used.prompt_tokens:,}",
                    f"{used.completion_tokens:,}",
                    f"{used.cost:.4f}" if used.cost else "-",
                    f"{used.median_seconds:.2f}",
                    f"{used.slow_seconds:.2f}",
                ]
            )
    return head, lines


def answered_by(board: Board) -> list[str]:
    """Return the outside sources of the environments' answers, as paragraphs."""
    notes = [
        f"- **{text_cell(env.env.label)}**: `{code_cell(pin.name)}` is `{code_cell(pin.kind)}`, "
        f"{pin.standing}{', sampled' if pin.sampled else ''}.\n"
        for env in board.envs
        for pin in env.answers
    ]
    return [f"Answered from outside:\n\n{''.join(notes)}"] if notes else []


def judge_deviation(row: Row, env: RunEnv) -> str:
    """Return the standard deviation of a judge's rating of an episode's score, as the score is written."""
    deviation = row.judge_deviations(env.env.label).get("score")
    if deviation is None:
        return "not measured" if has_judge(env) else "-"
    return f"{100.0 * deviation if env.env.bounds == (0.0, 1.0) else deviation:.2f}"


def has_judge(env: RunEnv) -> bool:
    """Return whether a judge behind an endpoint rates an environment, so that its rating has a spread."""
    return any(pin.name == JUDGE and pin.standing == "attested" for pin in env.answers)
