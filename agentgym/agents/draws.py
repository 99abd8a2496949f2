"""Counter-based random draws: a pure function of seed and position, cheap enough for every action.

A generator per episode would make an action depend on how many were drawn before it, and a
`SeedSequence` per action costs more than the step it decides.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
"""The odd number nearest to 2^64 divided by the golden ratio."""


def mix(value: int) -> int:
    """Return a 64-bit integer whose every bit depends on every bit of ``value``; a bijection.

    The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014, Figure 16: variant 13 of Stafford).
    """
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Draws:
    """The random numbers of one turn of one episode, in order.

    Example:
        >>> draws, again = Draws(seed=7, turn=3), Draws(seed=7, turn=3)
        >>> [draws.below(10) for _ in range(5)] == [again.below(10) for _ in range(5)]
        True
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int, turn: int):
        """Start at the beginning of a turn.

        Args:
            seed: of the episode; its lowest 64 bits count.
            turn: steps taken so far.
        """
        self._state = mix((seed + (turn + 1) * _GAMMA) & _MASK)

    def below(self, bound: int) -> int:
        """Draw an integer uniformly from 0 to ``bound - 1``; the bias is below ``bound / 2^64``."""
        self._state = (self._state + _GAMMA) & _MASK
        return (mix(self._state) * bound) >> 64
