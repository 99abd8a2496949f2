"""Submission card, in Markdown: agent, suite, and the person responsible."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym.evaluation.log.markdown import text_cell
from agentgym.evaluation.log.results import EvalLog
from agentgym.evaluation.verify.verdicts import Badge

CARD_FIELDS = ("contact", "licence", "training_data")
"""Fields that only the submitter can fill in."""

_FIELD = re.compile(r"^- (contact|licence|training data): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CardFields:
    """Fields of a submission card that the submitter fills in; a line each."""

    contact: str = ""
    licence: str = ""
    training_data: str = ""
    """Training data of the agent."""

    @classmethod
    def of(cls, run: EvalLog) -> CardFields:
        """Return the fields from a run's agent."""
        return cls(*(getattr(run.agent.card, name) for name in CARD_FIELDS))


def card_of(run: EvalLog, fields: CardFields, badge: Badge) -> str:
    """Write the card of a run."""
    model = run.agent.model
    about = {
        "suite": f"{run.suite.name}, version {run.suite.version}",
        "badge where it was packed": badge,
        "agent": run.agent.kind,
        "base model": model.base_model,
        "algorithm": model.algorithm,
        "request": run.request_id,
        "result": run.result_id or "",
        "date": run.provenance[-1].date[:10],
    }
    stated = {name.replace("_", " "): getattr(fields, name) for name in CARD_FIELDS}
    lines = [f"- {name}: {_line(text)}".rstrip() for name, text in {**about, **stated}.items()]
    return "\n".join([f"# {_line(run.agent.display_name)}", "", *lines, ""])


def missing_fields(fields: CardFields, badge: Badge) -> list[str]:
    """Return the fields that a card lacks, as words; a re-run agent needs none as further evidence."""
    missing = [name for name in CARD_FIELDS if badge != "re-run" and not getattr(fields, name).strip()]
    return [name.replace("_", " ") for name in missing]


def fields_of(card: str) -> CardFields:
    r"""Return a card's fields by its submitter.

    Example:
        >>> fields_of("# agent\n\n- contact: a@example.org\n- training data:\n").contact
        'a@example.org'
    """
    found = {name.replace(" ", "_"): text.strip() for name, text in _FIELD.findall(card)}
    return CardFields(**found)


def _line(text: str) -> str:
    return text_cell(text)
