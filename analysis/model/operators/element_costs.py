"""Arithmetic per element by ATen base name, from operators.toml, which documents the values."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from hardware.base import file_access

_TABLE = file_access.table(Path(__file__).with_name("operators.toml"))


class PerElement(NamedTuple):
    """Flops and special functions per element of the output (element-wise) or of the input (reductions)."""

    kind: str
    flops: int
    special: int = 0


def _rows(rows: Iterable[tuple[str, int, int, str]]) -> dict[str, PerElement]:
    return {name: PerElement(kind, flops, special) for kind, flops, special, names in rows for name in names.split()}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: value for value, names in table.items() for name in names.split()}


ELEMENTWISE = _rows(_TABLE["elementwise"])
REDUCTIONS = _rows(_TABLE["reductions"])
POOLS, MOVEMENT, GATHERS = (_by_name(_TABLE[name]) for name in ("pools", "movement", "gathers"))
RESAMPLE = {name: int(flops) for name, flops in _by_name(_TABLE["resample"]).items()}
FACTORISATIONS, SOLVES = _by_name(_TABLE["factorisations"]), _by_name(_TABLE["solves"])
DECOMPOSITIONS = {name: float(Fraction(cubes)) for name, cubes in _by_name(_TABLE["decompositions"]).items()}
ALIASES = _by_name(_TABLE["aliases"])
SORTS, FACTORIES, RANDOM, IDENTITIES, OVERWRITES, ATTENTIONS, BIASED = (
    frozenset(_TABLE["sets"][name].split())
    for name in ("sorts", "factories", "random", "identities", "overwrites", "attentions", "biased")
)

# Flops per element of a normalisation over a group: mean (1), variance (subtract, square, add: 3), subtract and
# multiply by the reciprocal root (2), affine (2). The root is one special function per group.
NORM_FLOPS = 8
RMS_NORM_FLOPS = 4  # square, add, two multiplications

# 0.5 * x * (1 + tanh(c * (x + d * x^3))): three products, add, product, tanh, add, two products.
GELU_TANH = PerElement("gelu", 9, 1)

LIVE_LENGTH = 1 << 16  # assumed length of a sort along a symbolic dimension; the work grows with its log2, 16
