"""Memory and descriptors of processes, sampled from ``/proc``, and what they may grow by."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

PAGE = os.sysconf("SC_PAGE_SIZE")

MIB = 1 << 20

WARM_UP = 0.25
"""Share of the time in which caches fill; what is bounded begins afterwards."""

PARTS = 5
"""Parts of the time after the warm-up, whose medians are compared."""

SHARE = 0.05
"""Of its memory, that a process may grow by from the first part to the last."""

MIN_GROWTH = 8 * MIB
"""Bytes that it may grow by however small it is."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at a moment."""

    seconds: float
    """Since the start."""
    resident: int
    """Bytes."""
    descriptors: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of a process after the warm-up."""

    name: str
    first: float
    """Median of its resident memory in the first part, in bytes."""
    last: float
    """The same of the last part."""
    slope: float
    """Bytes an hour, by least squares."""
    descriptors: tuple[int, ...]
    """The least number of open descriptors in each part: what is open when nothing is going on."""
    most: int
    """Descriptors open at any time."""
    problems: tuple[str, ...]


@dataclass(slots=True)
class Watch:
    """The samples of some processes."""

    pids: Mapping[str, int]
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def take(self, seconds: float) -> Iterator[str]:
        """Sample every process; yield the names of those that are gone."""
        for name, pid in self.pids.items():
            try:
                sample = Sample(seconds, resident(pid), descriptors(pid))
            except OSError:
                yield name
            else:
                self.samples.setdefault(name, []).append(sample)

    def growths(self, seconds: float) -> list[Growth]:
        """Compare the parts of the time after the warm-up.

        Args:
            seconds: how long it all took.
        """
        return [_growth(name, samples, seconds) for name, samples in self.samples.items()]


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _growth(name: str, samples: Sequence[Sample], seconds: float) -> Growth:
    begin = WARM_UP * seconds
    length = (seconds - begin) / PARTS
    parts: list[list[Sample]] = [[] for _ in range(PARTS)]
    for sample in samples:
        if sample.seconds >= begin:
            parts[min(PARTS - 1, int((sample.seconds - begin) / length))].append(sample)
    if not all(parts):
        return Growth(name, 0.0, 0.0, 0.0, (), 0, (f"{name}: it was not there all the time",))
    first, last = (median(sample.resident for sample in part) for part in (parts[0], parts[-1]))
    open_ones = tuple(min(sample.descriptors for sample in part) for part in parts)
    settled = [sample for part in parts for sample in part]
    problems = []
    allowed = max(MIN_GROWTH, SHARE * first)
    if last - first > allowed:
        problems.append(
            f"{name}: memory grew by {(last - first) / MIB:.1f} MiB, more than {allowed / MIB:.1f} MiB"
        )
    if max(open_ones) > open_ones[0]:
        problems.append(f"{name}: descriptors grew from {open_ones[0]} to {max(open_ones)}")
    most = max(sample.descriptors for sample in settled)
    return Growth(name, first, last, _slope(settled), open_ones, most, tuple(problems))


def _slope(samples: Sequence[Sample]) -> float:
    """Return the bytes an hour that a line through the samples rises by."""
    times = [sample.seconds / 3600 for sample in samples]
    mean_time = sum(times) / len(times)
    mean = sum(sample.resident for sample in samples) / len(samples)
    spread = sum((time - mean_time) ** 2 for time in times)
    with contextlib.suppress(ZeroDivisionError):
        pairs = zip(times, samples, strict=True)
        return sum((time - mean_time) * (sample.resident - mean) for time, sample in pairs) / spread
    return 0.0
