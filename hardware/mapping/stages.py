"""The stages of one operator on the units of a device: what its schedule does in which cycles."""

import math

import msgspec
import numpy as np

from hardware.demand import Demand
from hardware.mapping.common import Mapping
from hardware.setup import Setup

FILL, STREAM, DRAIN = NAMES = ("fill", "steady", "drain")  # in the order of time
_OF_TILING = ("seconds", "blocks", "waves", "units", "tile_m", "tile_n", "split")


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of one operator. `blocks` of its index space along M, N, and its groups and parts of K, of `block`
    (M, N, K) each, are taken by `units` at once, in `rounds`; work without a product has blocks of `block[0]` elements.

    Units `fill`, `stream` and `drain` for so many cycles of a clock of `clock_hz`, in all rounds: once, or in each
    round if they are `repeated`. `cells` are the rows and columns of the array of a unit, (0, 0) for a unit that is
    none; `keeps` names what stays in its cells."""

    clock_hz: float
    blocks: tuple[int, int, int]
    block: tuple[float, float, float]
    units: int
    rounds: int
    fill: float = 0.0
    stream: float
    drain: float = 0.0
    repeated: tuple[str, ...] = (STREAM,)
    cells: tuple[int, int] = (0, 0)
    keeps: str = ""

    @property
    def cycles(self) -> dict[str, float]:
        """The cycles by stage."""
        return dict(zip(NAMES, (self.fill, self.stream, self.drain), strict=True))


def stream_stages(demand: Demand, setup: Setup, mapping: Mapping, i: int) -> Stages:
    """Return operator `i` as it streams all the time: in tiles, or without them in blocks of elements."""
    device, tiling = setup.device, mapping.tiling.take(np.full(1, i))
    seconds, blocks, rounds, units, tile_m, tile_n, split = (float(getattr(tiling, name)[0]) for name in _OF_TILING)
    g, m, n, k = demand.gemm[:, i].tolist()
    is_tiled = bool(tiling.is_tiled[0])
    if mapping.is_reduced[i]:
        m = max(float(demand.patches[i]), 1.0)
    if not is_tiled:
        blocks = max(math.ceil(demand.elements[i] / device.arch.constants.elements_per_block), 1)
        units = min(float(mapping.units[i]), blocks)
        rounds, k, seconds = blocks / units, 1.0, 0.0
    if not is_tiled or demand.is_depthwise[i]:  # results of all channels are folded into blocks
        g, m, n = 1.0, max(float(demand.elements[i]), 1.0), 1.0
        tile_m, tile_n = m / blocks, 1.0
    layers, along_n = max(round(g), 1) * max(math.ceil(split), 1), max(math.ceil(n / tile_n), 1)
    if blocks % (along_n * layers):  # products of one input are one product, with more columns
        along_n = max(round(blocks / (layers * max(math.ceil(m / tile_m), 1))), 1)
    clock_hz = device.matrix_clock_hz if mapping.on_matrix[i] else device.vector_clock_hz
    return Stages(
        clock_hz=clock_hz,
        blocks=(max(math.ceil(blocks / (along_n * layers) - 1e-9), 1), along_n, layers),
        block=(min(tile_m, m), min(tile_n, n), k / max(split, 1.0)),
        units=max(round(units), 1),
        rounds=max(math.ceil(rounds), 1),
        stream=(seconds or max(float(mapping.matrix_s[0, i]), float(mapping.vector_s[0, i]))) * clock_hz,
    )
