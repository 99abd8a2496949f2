"""Processor seconds by stage, of functions that are watched; what a watched function calls counts apart."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any


class StageTimes:
    """Adds up exclusive processor seconds of stages.

    Example:
        >>> class Work:
        ...     def inner(self): return sum(range(100_000))
        ...     def outer(self): return self.inner()
        >>> times = StageTimes()
        >>> times.watch(Work, "inner", "inside"); times.watch(Work, "outer", "around")
        >>> _ = Work().outer()
        >>> sorted(times.seconds), times.seconds["inside"] > 0
        (['around', 'inside'], True)
    """

    def __init__(self) -> None:
        """Begin with nothing watched."""
        self.seconds: dict[str, float] = defaultdict(float)
        self.open: list[str] = []
        """Stages that are running, the innermost last."""
        self._since = 0.0

    def watch(self, owner: Any, name: str, stage: str | Callable[..., str]) -> None:
        """Replace a function of a class, module or object; ``stage`` may depend on its arguments."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def watched(*given: Any, **named: Any) -> Any:
            self._charge()
            self.open.append(stage if isinstance(stage, str) else stage(*given, **named))
            try:
                return function(*given, **named)
            finally:
                self._charge()
                self.open.pop()

        setattr(owner, name, watched)

    def _charge(self) -> None:
        now = time.process_time()
        if self.open:
            self.seconds[self.open[-1]] += now - self._since
        self._since = now
