"""Evidence for checks: rollouts, transcripts, and the first difference between two of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt

from agentgym.core.types import Snapshot
from agentgym.env import MAX_ACTION_LENGTH, AgentEnv
from agentgym.registration import find_spec

OVERLONG = "x" * (MAX_ACTION_LENGTH + 1)
"""An action that no game accepts, whatever it takes."""

STRANGE_ACTIONS = ("", " ", "\n", "no such action", OVERLONG, "grüße, 世界 🂡", "\x00", "\ud800", "<slot>")
"""Strings that hardly any game accepts and every game must survive."""

INVALID_RATE = 0.2
"""Share of strange actions in random play."""

T = TypeVar("T")

EPISODES = 4
"""Episodes played at random by checks that look at many states."""

STEPS = 24
"""Longest stretch of an episode that they look at."""

Make: TypeAlias = Callable[..., AgentEnv[Any]]
"""Constructor of a new environment; takes the environment's keyword arguments."""


class ContractError(AssertionError):
    """A broken promise of the environment contract, named in one line."""


class Transition(NamedTuple):
    """The result of one step (or, with reward 0, of one reset)."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def require(holds: bool, broken: str) -> None:
    """Raise `ContractError` with the text ``broken`` unless a promise holds."""
    if not holds:
        raise ContractError(broken)


def run(checks: Iterable[Callable[[T], None]], make: T) -> None:
    """Run checks in order; an error that no promise allows breaks the promise being checked."""
    for check in checks:
        try:
            check(make)
        except ContractError:
            raise
        except Exception as error:
            promise = (check.__doc__ or check.__name__).partition("\n")[0]
            cause = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise ContractError(f"{cause} (while checking: {promise})") from error


@contextmanager
def expect(error: type[Exception], occasion: str) -> Iterator[None]:
    """Demand that the block raises ``error``."""
    try:
        yield
    except error as raised:
        require(
            "\n" not in str(raised), f"{occasion} must raise a message of one line, got {str(raised)!r:.200}"
        )
        return
    except Exception as other:
        raise ContractError(f"{occasion} must raise {error.__name__}, raised {other!r:.200}") from other
    raise ContractError(f"{occasion} must raise {error.__name__}, raised nothing")


@contextmanager
def untouched_global_generators(occasion: str) -> Iterator[None]:
    """Demand that the block leaves ``random`` and ``numpy.random`` as they were."""
    before = (random.getstate(), np.random.get_state(legacy=False))  # noqa: NPY002 (watched, not used)
    yield
    after = (random.getstate(), np.random.get_state(legacy=False))  # noqa: NPY002
    require(before[0] == after[0], f"{occasion} draws from Python's global `random`: use self.np_random")
    changed = first_difference(before[1], after[1])
    require(changed is None, f"{occasion} draws from the global `numpy.random`: use self.np_random")


def begin(env: AgentEnv[Any], seed: int | None = 0, task: str | None = None) -> Transition:
    """Reset, and return the result as a transition."""
    observation, info = env.reset(seed=seed, options=None if task is None else {"task": task})
    return Transition(observation, 0.0, False, False, info)


def fill(action: str) -> str:
    """Turn a template into an action: every slot in angle brackets gets a word."""
    return re.sub(r"<[^<>]*>", "word", action)


def choose(admissible: Sequence[str], rng: np.random.Generator, invalid_rate: float = INVALID_RATE) -> str:
    """Draw an admissible action, or with probability ``invalid_rate`` a strange one."""
    pool = admissible if admissible and rng.random() >= invalid_rate else STRANGE_ACTIONS
    return fill(pool[int(rng.integers(len(pool)))])


def random_rollout(
    env: AgentEnv[Any], rng: np.random.Generator, steps: int, invalid_rate: float = INVALID_RATE
) -> tuple[list[str], list[Transition]]:
    """Play a running episode at random, for at most ``steps`` steps; return actions and transitions."""
    actions: list[str] = []
    beats: list[Transition] = []
    while len(beats) < steps and not (beats and (beats[-1].terminated or beats[-1].truncated)):
        actions.append(choose(env.admissible_actions(), rng, invalid_rate))
        beats.append(Transition(*env.step(actions[-1])))
    return actions, beats


def episode(env: AgentEnv[Any], seed: int) -> Iterator[Transition]:
    """Play an episode at random, for at most `STEPS` steps, and yield what reset and step return."""
    rng = generator(seed)
    yield (beat := begin(env, seed))
    for _ in range(STEPS):
        if beat.terminated or beat.truncated:
            return
        (beat,) = random_rollout(env, rng, 1)[1]
        yield beat


def beats_of(env: AgentEnv[Any]) -> Iterator[Transition]:
    """Play `EPISODES` episodes at random and yield what they return, as it comes."""
    return (beat for seed in range(EPISODES) for beat in episode(env, seed))


def snapshots_of(env: AgentEnv[Any]) -> list[Snapshot]:
    """Return the states of some episodes played at random."""
    return [env.snapshot() for _ in beats_of(env)]


def replay(env: AgentEnv[Any], actions: Sequence[str]) -> list[Transition]:
    """Play given actions."""
    return [Transition(*env.step(action)) for action in actions]


def generator(seed: int) -> np.random.Generator:
    """Return the generator of a check's own choices."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


def first_difference(left: Any, right: Any, path: str = "") -> str | None:
    """Compare two values exactly, types and dtypes included; return the first difference, or None."""
    where = path or "value"
    if type(left) is not type(right):
        return f"{where} is a {type(left).__name__} here and a {type(right).__name__} there"
    if is_dataclass(left) and not isinstance(left, type):
        names = [field.name for field in fields(left) if field.compare]
        pairs = ((getattr(left, name), getattr(right, name), f"{path}.{name}") for name in names)
    elif isinstance(left, Mapping):
        if left.keys() != right.keys():
            return f"{where} has keys {sorted(left)} here and {sorted(right)} there"
        pairs = ((left[key], right[key], f"{path}[{key!r}]") for key in left)
    elif isinstance(left, tuple | list):
        if len(left) != len(right):
            return f"{where} has length {len(left)} here and {len(right)} there"
        pairs = ((a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(left, right, strict=True)))
    elif isinstance(left, np.ndarray):
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            return f"{where} is {left.dtype}{left.shape} here and {right.dtype}{right.shape} there"
        if left.dtype != object:
            return None if left.tobytes() == right.tobytes() else _first_unlike(left, right, where)
        pairs = ((a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(left.flat, right.flat, strict=True)))
    else:
        same = left.hex() == right.hex() if isinstance(left, float) else bool(left == right)
        return None if same else f"{where} is {_short(left)} here and {_short(right)} there"
    return next((found for a, b, at in pairs if (found := first_difference(a, b, at)) is not None), None)


def _first_unlike(left: npt.NDArray[Any], right: npt.NDArray[Any], where: str) -> str:
    index = np.unravel_index(int(np.argmax(left != right)), left.shape)
    at = "".join(f"[{i}]" for i in index)
    return f"{where}{at} is {left[index].item()!r} here and {right[index].item()!r} there"


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:90]


def require_equal(left: Any, right: Any, promise: str) -> None:
    """Raise `ContractError` with the first difference unless both are exactly equal."""
    difference = first_difference(left, right)
    require(difference is None, f"{promise}: {difference}")


def factory(subject: str | AgentEnv[Any] | Make) -> Make:
    """Return the constructor of environments like ``subject``: an id, an environment or a callable."""
    if isinstance(subject, str):
        return lambda **options: unwrap(gymnasium.make(find_spec(subject), **options))
    if isinstance(subject, gymnasium.Env):
        single = unwrap(subject)
        return lambda **options: type(single)(**options) if options else single.spawn()
    return lambda **options: unwrap(subject(**options))


def unwrap(env: gymnasium.Env[Any, Any]) -> AgentEnv[Any]:
    """Return the `AgentEnv` below all wrappers."""
    single = env.unwrapped
    if not isinstance(single, AgentEnv):
        raise ContractError(f"{type(single).__name__} is not an AgentEnv: derive it from agentgym.AgentEnv")
    return single
