"""Memory, descriptors, threads and processor time of processes, and what they may grow by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from benchmarks.bridges.served import Usage, usage

WARM_UP = 0.25
"""Share of the time in which caches fill; what is bounded begins afterwards."""

PARTS = 5
"""Parts of the time after the warm-up, whose medians are compared."""

SHARE = 0.05
"""Of its memory, that a process may grow by from the first part to the last."""

MIN_GROWTH = 8.0
"""MiB that it may grow by however small it is."""

DRIFT = 0.1
"""Share by which the processor time of a step may differ between the first part and the last."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at a moment."""

    seconds: float
    """Since the start."""
    usage: Usage
    steps: int
    """That its work has come to."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of a process after the warm-up."""

    name: str
    first: float
    """Median of its resident memory in the first part, in MiB."""
    last: float
    """The same of the last part."""
    slope: float
    """MiB an hour, by least squares."""
    descriptors: tuple[int, ...]
    """The least number of open descriptors in each part: what is open when nothing is going on."""
    most: int
    """Descriptors open at any time."""
    threads: tuple[int, ...]
    """The least number of threads in each part."""
    pace: tuple[float, ...]
    """Seconds of processor time a step in each part; empty where steps are not counted."""
    problems: tuple[str, ...]


@dataclass(slots=True)
class Watch:
    """The samples of some processes."""

    pids: Mapping[str, int]
    steps: Callable[[str], int]
    """Steps that a process has done so far, by its name; 0 where they are not counted."""
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def take(self, seconds: float) -> Iterator[str]:
        """Sample every process; yield the names of those that are gone."""
        for name, pid in self.pids.items():
            try:
                sample = Sample(seconds, usage(pid), self.steps(name))
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


def _growth(name: str, samples: Sequence[Sample], seconds: float) -> Growth:
    begin = WARM_UP * seconds
    length = (seconds - begin) / PARTS
    parts: list[list[Sample]] = [[] for _ in range(PARTS)]
    for sample in samples:
        if sample.seconds >= begin:
            parts[min(PARTS - 1, int((sample.seconds - begin) / length))].append(sample)
    if not all(parts):
        absent = (f"{name}: it was not there all the time",)
        return Growth(name, 0.0, 0.0, 0.0, (), 0, (), (), absent)
    settled = [sample for part in parts for sample in part]
    growth = Growth(
        name,
        first=median(sample.usage.mib for sample in parts[0]),
        last=median(sample.usage.mib for sample in parts[-1]),
        slope=_slope(settled),
        descriptors=tuple(min(sample.usage.descriptors for sample in part) for part in parts),
        most=max(sample.usage.descriptors for sample in settled),
        threads=tuple(min(sample.usage.threads for sample in part) for part in parts),
        pace=_pace(parts),
        problems=(),
    )
    return replace(growth, problems=tuple(_problems(growth)))


def _pace(parts: Sequence[Sequence[Sample]]) -> tuple[float, ...]:
    """Return the seconds of processor time a step in each part."""
    steps = [part[-1].steps - part[0].steps for part in parts]
    if not all(steps):
        return ()
    spent = [part[-1].usage.seconds - part[0].usage.seconds for part in parts]
    return tuple(seconds / number for seconds, number in zip(spent, steps, strict=True))


def _problems(growth: Growth) -> Iterator[str]:
    name, grown, allowed = growth.name, growth.last - growth.first, max(MIN_GROWTH, SHARE * growth.first)
    if grown > allowed:
        yield f"{name}: memory grew by {grown:.1f} MiB, more than {allowed:.1f} MiB"
    for what, numbers in (("descriptors", growth.descriptors), ("threads", growth.threads)):
        if max(numbers) > numbers[0]:
            yield f"{name}: {what} grew from {numbers[0]} to {max(numbers)}"
    if growth.pace and abs(growth.pace[-1] / growth.pace[0] - 1) > DRIFT:
        first, last = 1000 * growth.pace[0], 1000 * growth.pace[-1]
        yield f"{name}: a step took {first:.3f} ms of processor time at first, and {last:.3f} at last"


def _slope(samples: Sequence[Sample]) -> float:
    """Return the MiB an hour that a line through the samples rises by."""
    times = [sample.seconds / 3600 for sample in samples]
    mean_time = sum(times) / len(times)
    mean = sum(sample.usage.mib for sample in samples) / len(samples)
    spread = sum((time - mean_time) ** 2 for time in times)
    with contextlib.suppress(ZeroDivisionError):
        pairs = zip(times, samples, strict=True)
        return sum((time - mean_time) * (sample.usage.mib - mean) for time, sample in pairs) / spread
    return 0.0
