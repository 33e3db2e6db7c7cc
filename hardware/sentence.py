"""Phrases that the sentences of several architectures are made of: `401,408 x 64 x 147 product`, `3 waves`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware.demand import Demand

if TYPE_CHECKING:
    from hardware.mapping.common import Mapping
    from hardware.plan import Plan


def whole(value: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,.0f}"


def product(demand: Demand, i: int) -> str:
    """The sizes of a contraction."""
    g, m, n, k = demand.gemm[:, i]
    groups = f"{whole(g)} x " if g > 1 else ""
    return f"{groups}{whole(m)} x {whole(n)} x {whole(k)} product"


def elements(demand: Demand, i: int, what: str) -> str:
    """Return the number of elements of an operator, with their name."""
    return f"{whole(demand.elements[i])} {what}"


def format_run(mapping: Mapping, plan: Plan, i: int) -> str:
    """The format its multiply-accumulates run in."""
    return plan.matrix if mapping.on_matrix[i] else plan.vector_mac


def count_noun(count: float, what: str) -> str:
    """Return a count with its noun, in the plural where it is not one."""
    return f"{whole(count)} {what}{'s' if count != 1 else ''}"


def split(mapping: Mapping, i: int) -> str:
    """Return in how many ways K is divided, '' where it is not."""
    ways = mapping.tiling.split[i]
    return f", K split {whole(ways)} ways" if ways > 1 else ""
