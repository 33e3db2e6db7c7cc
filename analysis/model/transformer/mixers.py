"""Layers that keep a state of constant size, read from `mixers.toml`: widths and MACs."""

from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec

from hardware.base import file_access
from hardware.base.file_access import convert_record

Terms = dict[str, int]  # a width as a sum: name of a size -> how often it counts


class MixerKind(msgspec.Struct, frozen=True):
    """A kind of recurrent layer: a row of `mixers.toml`, which describes the fields."""

    project: Terms
    convolve: Terms = {}
    low_rank: list[tuple[Terms, Terms]] = []
    vectors: Terms = {}
    norm: Terms = {}
    products: int = 0
    scan: tuple[int, int] = (0, 0)
    chunk: int = 0
    chunk_keys: int = 0
    chunk_values: int = 0

    @property
    def has_state(self) -> bool:
        """True if it has a state besides the last inputs of its convolution."""
        return bool(self.products or self.scan[0])


@cache
def kinds() -> dict[str, MixerKind]:
    """Return the kinds of recurrent layers by name."""
    path = Path(__file__).with_suffix(".toml")
    return {name: convert_record(path, name, row, MixerKind) for name, row in file_access.shipped(path).items()}


class Mixer(msgspec.Struct, frozen=True, kw_only=True):
    """A recurrent layer. Each of `heads` has a state of `keys` x `values` numbers; heads of one of `groups` share keys.
    The short convolution spans `conv` tokens."""

    kind: MixerKind
    hidden: int
    heads: int
    groups: int
    keys: int
    values: int
    rank: int
    conv: int

    def width(self, terms: Terms) -> int:
        """Return a width of the table in elements."""
        inner = self.heads * self.values
        sizes = {
            "hidden": self.hidden, "inner": inner, "key_width": self.groups * self.keys, "heads": self.heads,
            "values": self.values, "rank": self.rank, "states": inner * self.keys,
        }  # fmt: skip
        return sum(count * sizes[name] for name, count in terms.items())

    @property
    def inner(self) -> int:
        """Elements of the values of all heads."""
        return self.heads * self.values

    def state_macs(self, is_chunked: bool) -> Fraction:
        """Return the MACs of a token with the state and, if `is_chunked`, with the earlier tokens of its chunk."""
        kind = self.kind
        beside = kind.chunk_keys * self.groups * self.keys + kind.chunk_values * self.inner
        in_chunk = Fraction(kind.chunk + 1, 2) * beside if is_chunked else 0
        return Fraction(kind.products * self.inner * self.keys) + in_chunk
