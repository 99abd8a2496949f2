"""Unreadable replies: how many replies of a run's models could not be parsed, with the first one's text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from agentgym.core.queries import UNREADABLE
from agentgym.evaluation.log.markdown import one_line
from agentgym.evaluation.log.recorded_answers import lost_key
from agentgym.evaluation.log.results import AGENT
from agentgym.evaluation.log.stored_run import StoredRun

MAX_SHARE = 0.05
"""Largest share of unreadable answers of a partner or judge in a ranked run."""

_QUOTED = 160
"""Most characters of the first unreadable reply in a report."""


@dataclass(frozen=True, slots=True)
class UnreadableShare:
    """Replies of one model in one environment that could not be read."""

    env: str
    """Label of the environment."""
    who: str
    """Author of the answers: `AGENT`, or a query backend such as ``partner``."""
    count: int
    """Number of answers that could not be read."""
    asked_again: int
    """Number of further answers that were readable only after a repeated request."""
    of: int
    """Number of all answers."""
    first: str
    """First unreadable reply, on one line; empty where no file has it."""

    @property
    def share(self) -> float:
        """Share of answers that could not be read."""
        return self.count / self.of

    def __str__(self) -> str:
        """One line."""
        again = f", {self.asked_again:,} more asked again" if self.asked_again else ""
        example = f', first: "{self.first}"' if self.first else ""
        share = f"{100 * self.share:.0f} % unreadable"
        return f"{self.env}: {self.who} {share} ({self.count:,} of {self.of:,} answers{again}){example}"


def unreadable_answers(run: StoredRun) -> list[UnreadableShare]:
    """Return what could not be read of the models that answer environments, from ``answers.jsonl``."""
    found = []
    pins = [(env.env.label, pin) for env in run.log.played for pin in env.answers]
    for label, pin in pins:
        answers = {each.key: each.value for each in run.answers if (each.env, each.kind) == (label, pin.kind)}
        read_later = set(map(lost_key, answers))
        values = [value for key, value in answers.items() if key not in read_later]
        unread = [
            each for each in values if isinstance(each, dict) and isinstance(each.get(UNREADABLE), list)
        ]
        if unread:
            lost = sum(each.keys() == {UNREADABLE} for each in unread)
            first = one_line(str(next(iter(unread[0][UNREADABLE]), ""))[:_QUOTED])
            found.append(UnreadableShare(label, pin.name, lost, len(unread) - lost, len(values), first))
    return found


def unreadable_responses(run: StoredRun) -> list[UnreadableShare]:
    """Return what could not be read of a run's agent, by its episodes and transcripts."""
    unread = Counter({each.env: 0 for each in run.results})
    answers, examples = Counter(unread), dict[str, str]()
    for each in run.results:
        unread[each.env] += each.format_errors
        answers[each.env] += max(each.length, each.format_errors)
    for record in run.transcripts().values() if unread.total() else ():
        for step in record.steps:
            if step.format_error:
                examples.setdefault(record.env, one_line(step.response[:_QUOTED]))
    return [
        UnreadableShare(label, AGENT, count, 0, answers[label], examples.get(label, ""))
        for label, count in unread.items()
        if count
    ]
