"""Two matrix products of which the first streams its results into the second, on one fabric of cells.

All weights stay in the cells: rows along K and columns along N, over as many tiles as that takes. A row of inputs
enters with each beat, its values one cycle apart, and sums leave at the foot of the columns one cycle apart: as the
rows of the second product take them. So index (m, n) of the second follows the first result by the cycles that a sum
crosses."""

import math

import msgspec

from hardware.mapping.recurrence_schedules import Fabric

Size = tuple[int, int, int]


class ProductChain(msgspec.Struct, frozen=True, kw_only=True):
    """Two products M x N x K, of which N of the first is K of the second, the `tiles` that hold their weights, and the
    cycles: of both one after another, of both as a stream, and until the first result leaves."""

    first: Size
    second: Size
    tiles: int
    beat: float
    in_turn_cycles: float
    streamed_cycles: float
    first_result_cycle: float


def chain_products(first: Size, second: Size, fabric: Fabric) -> ProductChain:
    """Return the schedule of two chained products. Both take the longer of their beats: what leaves enters."""
    (m, n, k), (_, last, _) = first, second
    rows, columns = fabric.rows, fabric.columns
    tiles = sum(math.ceil(size[2] / rows) * math.ceil(size[1] / columns) for size in (first, second))
    beat = float(fabric.beat(rows, columns))
    each = (m - 1) * beat
    return ProductChain(
        first=first,
        second=second,
        tiles=tiles,
        beat=beat,
        in_turn_cycles=2 * each + (k + n - 1) + (n + last - 1),
        streamed_cycles=each + k + n + last - 1,
        first_result_cycle=float(k + n),
    )
