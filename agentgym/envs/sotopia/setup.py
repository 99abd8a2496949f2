"""Setup of an environment: scenarios, rules, partner and judge, and the names that pin them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from agentgym.core.hashing import content_id, sha256_json
from agentgym.core.options import check_choice
from agentgym.core.queries import QueryBackend
from agentgym.core.rng import KeyRng
from agentgym.core.tasks import Task, TaskSet, pinned
from agentgym.envs.sotopia.builtin.temperaments import NAMES, Temperament
from agentgym.envs.sotopia.game import Order, SocialGame, StaleRule
from agentgym.envs.sotopia.judges import JudgeOptions, ModelJudge, RuleJudge, SocialJudge
from agentgym.envs.sotopia.modelcalls import ModelPart, read_model
from agentgym.envs.sotopia.partners import ModelPartner, Partner, PartnerOptions, TemperamentPartner
from agentgym.envs.sotopia.scenarios import Side
from agentgym.envs.sotopia.source import BUILTIN, open_tasks
from agentgym.envs.sotopia.tasks import SeatMode
from agentgym.envs.sotopia.views import Detail
from agentgym.errors import UsageError
from agentgym.io.optional import load_reference

RewardKind: TypeAlias = Literal["goal", "utterance"]
ActionForm: TypeAlias = Literal["text", "candidates"]
Unreadable: TypeAlias = Literal["rejected", "none"]

RULES: Final = "rules"
"""The judge of built-in scenarios."""

PARTNER, OPENING, JUDGE = "partner", "opening", "judge"
"""Names of what is asked."""


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """The options of an environment that are no parts of it."""

    mode: SeatMode
    order: Order
    stale_rule: StaleRule
    view: Detail
    reward: RewardKind
    actions: ActionForm
    unreadable: Unreadable
    max_turns: int

    @property
    def steps(self) -> int:
        """Steps that a conversation of ``max_turns`` turns has at most."""
        if self.mode == "self-chat":
            return self.max_turns * (2 if self.order == "simultaneous" else 1)
        return (self.max_turns + 1) // 2 if self.order == "round-robin" else self.max_turns


class TalkSetup(NamedTuple):
    """Parts of an environment."""

    tasks: TaskSet
    judge: SocialJudge
    players: Mapping[str, Partner]
    """The partner by what it is asked for, openings apart where those differ; none in self-chat."""
    query_backends: Mapping[str, QueryBackend]
    game_of: Callable[[Task], SocialGame]
    """Function that returns the rules of a task; a random order of acting follows from the task."""
    key: str
    """Names the data and all that decides how an episode goes on."""


def set_up(dataset: str, split: str, options: TalkOptions, partner: Any, judge: Any) -> TalkSetup:
    """Open an environment's parts.

    Arguments as `open_tasks`, `make_partner` and `make_judge` take them.
    """
    if not dataset:
        raise UsageError(f"dataset is {BUILTIN!r}, or name or path of imported data, got {dataset!r:.60}")
    builtin = dataset == BUILTIN
    tasks = open_tasks(dataset, split, options.mode)
    if options.actions == "candidates" and not builtin:
        raise UsageError("actions='candidates' lists the moves of built-in scenarios: leave it out")
    rater = make_judge(judge, builtin=builtin)
    players: dict[str, Partner] = {}
    if options.mode == "partner":
        players[PARTNER] = other = make_partner(partner, options, builtin=builtin)
        if isinstance(other, ModelPartner):
            players[OPENING] = other.for_openings()
    parts = {
        "partner": players[PARTNER].kind.name if players else None,
        "judge": rater.kind.name,
        **{name: getattr(options, name) for name in ("order", "stale_rule", "view", "reward", "max_turns")},
    }
    tasks = pinned(tasks, tuple(parts.items()))
    shared = {name: value for name, value in tasks.manifest.items() if name not in _OF_A_SPLIT}
    query_backends: dict[str, QueryBackend] = {**players, JUDGE: rater}
    key = f"{dataset}:{sha256_json(shared)[:16]}"
    return TalkSetup(tasks, rater, players, query_backends, partial(_game, options), key)


_OF_A_SPLIT = ("split", "n", "scenarios_sha256")
"""Keys of a manifest that differ between the splits of one data set."""


def _game(options: TalkOptions, task: Task) -> SocialGame:
    draws: tuple[Side, ...] = ()
    if options.order == "random":
        draws = _drawn(task.id, options.max_turns)
    return _rules(options.order, options.stale_rule, options.max_turns, draws)


_rules = lru_cache(maxsize=1_024)(SocialGame)


@lru_cache(maxsize=1_024)
def _drawn(task_id: str, turns: int) -> tuple[Side, ...]:
    """Return the sides of each turn; both act at some time, where there are turns enough."""
    rng = KeyRng(int(content_id(("order", task_id))[:16], 16))
    drawn: list[Side] = [1 if rng.below(2) else 0 for _ in range(turns)]
    if len(set(drawn)) == 1:
        drawn[0] = 1 if drawn[0] == 0 else 0
    return tuple(drawn)


def make_partner(partner: Any, options: TalkOptions, *, builtin: bool) -> Partner:
    """Return a partner by name.

    A temperament; a table that names a model; ``module:attribute``, a partner or a factory of one without
    arguments; or a partner. ``builtin`` is of the scenarios.
    """
    if isinstance(partner, Mapping):
        spec, own = read_model(partner, PartnerOptions, "partner")
        return ModelPartner(ModelPart(spec), own, options.view)
    made = _referenced(partner, NAMES, "partner")
    if not isinstance(made, str):
        player: Partner = _having(made, "partner")
        return player
    if not builtin:
        raise UsageError(
            f"partner={made!r} plays built-in scenarios only: give partner={{'endpoint': URL, 'model': NAME}}"
        )
    return TemperamentPartner(cast(Temperament, made))


def make_judge(judge: Any, *, builtin: bool) -> SocialJudge:
    """Return a judge by name; as `make_partner`."""
    if isinstance(judge, Mapping):
        spec, own = read_model(judge, JudgeOptions, "judge")
        return ModelJudge(ModelPart(spec), own)
    made = _referenced(judge, (RULES,), "judge")
    if not isinstance(made, str):
        rater: SocialJudge = _having(made, "judge")
        return rater
    if not builtin:
        raise UsageError(
            "judge='rules' rates built-in scenarios only: give judge={'endpoint': URL, 'model': NAME}"
        )
    return RuleJudge()


def _referenced(given: Any, known: Sequence[str], what: str) -> Any:
    """Return a known name as it is, and what any other text refers to."""
    if not isinstance(given, str) or given in known:
        return given
    if ":" not in given or "/" in given:
        other = ", or give a table with endpoint and model, or module:attribute"
        check_choice(what, given, known, other)
    made = load_reference(given, option=True)
    return made() if callable(made) else made


def _having(made: Any, what: str) -> Any:
    if not all(hasattr(made, name) for name in ("kind", "question", "answer", "agrees")):
        raise UsageError(f"{what} must be a name, a table or a backend with a question, got {made!r:.60}")
    return made
