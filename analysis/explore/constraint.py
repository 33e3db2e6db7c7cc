"""Limits that devices are held against, `L<5ms E<1J P<30W M<8GB`: of the latency of the batch, the energy
of an inference, the average power and the peak memory."""

from __future__ import annotations

import re

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.explore.rules import COMPARE, FIGURES
from hardware.amount import parse_amount
from hardware.errors import RequestError

LETTERS = {"L": "latency", "E": "energy", "P": "power", "M": "memory"}
_LIMIT = re.compile(r"([A-Za-z]+)(<=|>=|<|>)([^<>=\s]+)")


class DeviceLimit(msgspec.Struct, frozen=True):
    """`amount` is `value` as it was typed."""

    letter: str
    sign: str
    amount: str
    value: float

    def __str__(self) -> str:
        return self.letter + self.sign + self.amount

    def holds(self, figure: float) -> bool:
        """Of a figure in the SI unit."""
        return COMPARE[self.sign](figure, self.value)


def find(word: str) -> DeviceLimit | None:
    """The limit that a word is; None where it is none. RequestError where its amount is wrong."""
    match = _LIMIT.fullmatch(word)
    named = match[1].casefold() if match is not None else ""
    letter = next((letter for letter, name in LETTERS.items() if named in (letter.casefold(), name)), "")
    if match is None or not letter:
        return None
    return DeviceLimit(letter, match[2], match[3], parse_amount(match[3], FIGURES[LETTERS[letter]].unit))


def read(text: str) -> tuple[DeviceLimit, ...]:
    """The limits in a text, spaces or commas between them. Raises RequestError for what is none."""
    limits = []
    for word in text.replace(",", " ").split():
        limit = find(word)
        if limit is None:
            raise RequestError(f"limit {word[:40]!r}: one of L<5ms, E<1J, P<30W, M<8GB is expected")
        limits.append(limit)
    return tuple(limits)


def broken(text: str, result: Estimate) -> tuple[str, ...]:
    """The limits that an estimate is not within."""
    return tuple(str(each) for each in read(text) if not each.holds(FIGURES[LETTERS[each.letter]].of(result)))
