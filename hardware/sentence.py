"""Phrases shared by the sentences of several architectures: `401,408 x 64 x 147 product`, `3 waves`."""

from hardware.base.text import whole
from hardware.demand import Demand
from hardware.mapping.common import Mapping
from hardware.plan import Plan


def product(demand: Demand, i: int) -> str:
    """Return the sizes of a contraction as text."""
    g, m, n, k = demand.gemm[:, i]
    groups = f"{whole(g)} x " if g > 1 else ""
    return f"{groups}{whole(m)} x {whole(n)} x {whole(k)} matrix product"


def elements(demand: Demand, i: int, what: str) -> str:
    """Return the number of elements of an operator, with their name."""
    return f"{whole(demand.elements[i])} {what}"


def format_run(mapping: Mapping, plan: Plan, i: int) -> str:
    """Return the format in which an operator's multiply-accumulates run."""
    return plan.matrix if mapping.on_matrix[i] else plan.vector_mac


def split(mapping: Mapping, i: int) -> str:
    """Return the number of ways in which K is divided, as text; '' if it is not."""
    ways = mapping.tiling.split[i]
    return f", K split {whole(ways)} ways" if ways > 1 else ""
