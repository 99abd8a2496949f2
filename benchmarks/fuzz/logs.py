"""Changed logs of other projects, which end in a run or in one line: ``python -m benchmarks.fuzz.logs``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from agentgym.errors import UsageError
from agentgym.evaluation.imports.dialects import DIALECTS
from agentgym.evaluation.imports.importing import LogSource, import_log
from agentgym.evaluation.suites.suite import SuiteEnv
from benchmarks.bridges import logs
from benchmarks.bridges.logs import FEW_GAMES, Episode

ENV = SuiteEnv(FEW_GAMES, "ALFWorld", "valid_seen", tasks=0, metric="score")

WRITERS: Mapping[str, Callable[[list[Episode]], tuple[str, ...]]] = {
    "react": lambda episodes: (logs.as_react(episodes), logs.as_notebook(logs.as_react(episodes))),
    "verl-agent": lambda episodes: (logs.as_verl_agent(episodes),),
    "inspect": lambda episodes: (logs.as_inspect(episodes, ENV.id, ENV.split),),
    "chat": lambda episodes: (logs.as_chat(episodes, ENV.id, ENV.split),),
    "conversations": lambda episodes: (logs.as_conversations(episodes),),
    "tales": lambda episodes: (logs.as_tales(episodes),),
    "knowagent": lambda episodes: (logs.as_knowagent(episodes),),
    "adapt": lambda episodes: (logs.as_adapt(episodes), logs.as_adapt_purchases(episodes)),
    "react-viewer": lambda episodes: (logs.as_react_viewer(episodes),),
    "self-improvement": lambda episodes: (logs.as_self_improvement(episodes),),
    "jsonl": lambda episodes: (logs.as_jsonl(episodes),),
}

BYTES = (
    b"\x00", b"\xff", b"\n", b"[" * 100, b"{\"a\":" * 100, b"1e999", b"9" * 5000, b"NaN", b"null", b"\\ud800",
    b"\"", b"\x1b[2J", b"> ", b"Action: reset\n", b"Here is the task:\n", b"Observation: ", "\u2028".encode(),
    b"-" * 9,
)  # fmt: skip
"""Put in somewhere."""

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0.5,
    1e308,
    "",
    "x" * 9000,
    "\x00",
    [],
    [[]],
    {},
    {"a": 1},
    ["a", 1],
)
"""In place of a value of JSON."""


def changed(log: bytes, rng: np.random.Generator) -> bytes:
    """Return a log with one to three changes, of bytes or, where it is JSON, of values."""
    for _ in range(int(rng.integers(1, 4))):
        log = (_values, _bytes)[int(rng.integers(2))](log, rng)
    return log


def _bytes(log: bytes, rng: np.random.Generator) -> bytes:
    start, end = sorted(int(place) for place in rng.integers(0, len(log) + 1, 2))
    end = min(end, start + 400)
    piece = BYTES[int(rng.integers(len(BYTES)))]
    return (log[:start] + log[end:], log[:end] + log[start:], log[:start] + piece + log[start:], log[:end])[
        int(rng.integers(4))
    ]


def _values(log: bytes, rng: np.random.Generator) -> bytes:
    lines = log.split(b"\n")
    number = int(rng.integers(len(lines)))
    try:
        table = json.loads(lines[number])
    except ValueError:
        return _bytes(log, rng)
    place: Any = {"": table}
    key: Any = ""
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
        place = place[key]
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = keys[int(rng.integers(len(keys)))]
    if rng.random() < 0.3 and place[key] is not table:
        del place[key]
    else:
        value = VALUES[int(rng.integers(len(VALUES)))]
        if place[key] is table:
            table = value
        place[key] = value
    return b"\n".join([*lines[:number], json.dumps(table).encode(), *lines[number + 1 :]])


@cache
def _logs(dialect: str) -> tuple[bytes, ...]:
    episodes = logs.played(ENV.id, "rules", tasks=2, options={"split": ENV.split})
    return tuple(text.encode() for text in WRITERS[dialect](episodes))


def hostile(dialect: str, count: int, *, seed: int, folder: Path) -> Counter[str]:
    """Import changed logs; count those that agreed, differed and were refused.

    Args:
        dialect: a key of `DIALECTS`.
        count: how many.
        seed: of the changes.
        folder: for the logs and what comes of them.

    Raises:
        AssertionError: a refusal has more than one line.
        Exception: anything else than a refusal.
    """
    rng = np.random.default_rng(seed)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        originals = _logs(dialect)
        which = int(rng.integers(len(originals)))
        log = folder / (f"{dialect}{'.ipynb' if which else '.json'}")
        log.write_bytes(changed(originals[which], rng))
        try:
            run = import_log(LogSource(log, dialect, "theirs", "fuzz"), ENV, folder)
        except UsageError as error:
            if "\n" in str(error) or not str(error):
                raise AssertionError(f"log {number} of seed {seed}: not one line: {error!r}") from error
            outcomes["refused"] += 1
        except Exception as error:
            error.add_note(f"log {number} of seed {seed}, kept as {log}")
            raise
        else:
            outcomes["differed" if run.mismatches else "agreed"] += 1
    return outcomes


def main() -> int:
    """Import changed logs of every dialect and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz.logs", description=main.__doc__)
    parser.add_argument("--count", type=int, default=1000, help="logs of each dialect (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the changes (default: 0)")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        for dialect in DIALECTS:
            outcomes = hostile(dialect, options.count, seed=options.seed, folder=Path(folder))
            sys.stdout.write(f"{dialect}: {dict(sorted(outcomes.items()))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
