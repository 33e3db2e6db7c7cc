"""Operators of a demand on a spatial accelerator: their loop nests, the mappings found for them, times and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hardware.demand import Demand, Floats, Ints, OpClass
from hardware.efficiency import Efficiency
from hardware.mapping import common
from hardware.mapping.common import Mapping, Traffic
from hardware.mapping.spatial.machine import Machine, machine
from hardware.mapping.spatial.nest import INPUT, OUTPUT, WEIGHT, WINDOWS, Nest, Problem, Run, run
from hardware.mapping.spatial.search import Costs, Needs, level_bytes, needed, search
from hardware.mapping.tiling import Tiling, fma

if TYPE_CHECKING:
    from hardware.device import Device
    from hardware.plan import Plan


class _Work(msgspec.Struct, frozen=True):
    """The c contractions of a demand: `which` operators they are, their loop `problem`, their MACs over those of the
    loops, `scale`; the mappings found, what they do and need; bytes of a value (3, c); what time depends on."""

    which: Ints
    problem: Problem
    scale: Floats
    nest: Nest
    run: Run
    needs: Needs
    value_bytes: Floats
    costs: Costs


def map_operators(demand: Demand, device: Device, plan: Plan, rates: Efficiency) -> Mapping:
    """Contractions on the arrays, each as its search found; element-wise work behind them."""
    if demand.unpack_ops is not None:
        demand = msgspec.structs.replace(demand, vector_flops=demand.vector_flops + common.unpacked(demand, device))
    hardware, on_matrix = machine(device), common.contraction_formats(demand, plan) == "matrix"
    least = common.traffic(msgspec.structs.replace(demand, gemm=np.zeros_like(demand.gemm)), device)
    ideal_s = _ideal_s(demand, device, plan)
    work = _work(demand, device, hardware, rates, least, ideal_s)
    flow = _flow(demand, least, work)
    dram_s, chip_s = common.memory_seconds(device, flow, rates.bandwidth[:, demand.op_class])
    array_s, units = np.zeros(demand.n), np.full(demand.n, device.units)
    found_s = work.needs.seconds(work.costs, np.arange(len(work.which))) * work.scale
    array_s[work.which], chip_s[work.which] = found_s[0], found_s[2]
    units[work.which] = work.run.instances[-1]
    slower = rates.compute[0] / rates.compute
    arrays_s = np.maximum(array_s * slower[:, demand.op_class], ideal_s)
    peak = 2.0 * device.units * fma(device, "vector", plan.vector)
    special = device.arch.data.assumed("special_flops")
    lanes_s = common.vector_work(demand, special) / peak / rates.compute[:, [OpClass.ELEMENTWISE]]
    # One operator after the other, each at the pace of what it needs most; the vector unit works behind all of them.
    each_s = np.maximum(np.maximum(arrays_s, dram_s), chip_s)
    serial_s, behind_s = (np.stack([demand.per_kernel(row) for row in seconds]) for seconds in (each_s, lanes_s))
    return Mapping(
        arrays_s * on_matrix,
        arrays_s * ~on_matrix + lanes_s,
        dram_s,
        chip_s,
        ideal_s * on_matrix,
        ideal_s * ~on_matrix + demand.vector_flops / peak,
        on_matrix,
        units,
        flow,
        _tiling(demand, work),
        _counts(demand, device, hardware, flow, work),
        np.zeros(demand.n, dtype=np.bool_),
        np.maximum(serial_s, behind_s),
    )


def _ideal_s(demand: Demand, device: Device, plan: Plan) -> Floats:
    """Seconds of each contraction were all elements at work, (n,)."""
    is_image = np.isin(demand.op_class, (OpClass.CONV, OpClass.DEPTHWISE))
    attends = demand.op_class == OpClass.ATTENTION

    def rate(unit: str, format_: str) -> float:
        return device.units * fma(device, unit, format_) * (plan.matrix_rate if unit == "matrix" else 1.0)

    others = np.where(attends, rate(plan.contraction[0], plan.attention), rate(*plan.contraction))
    seconds: Floats = demand.macs / np.where(is_image, rate(*plan.convolution), others)
    return seconds


def problem_of(demand: Demand, which: Ints) -> Problem:
    """The loops of contractions: convolutions with their windows where these are known, others as products."""
    g, m, n, k = demand.gemm[:, which]
    one = np.ones(len(which))
    rows, columns, height, width, stride, part = (
        np.ones((6, len(which))) if demand.windows is None else demand.windows[:, which]
    )
    is_image = height * width * rows * columns > 1
    # A contraction without sizes (recurrent cells): as many weights as multiply-accumulates.
    square = np.ceil(np.sqrt(demand.macs[which]))
    known = g > 0
    sizes = np.stack([
        np.where(is_image, np.maximum(m / (rows * columns), 1.0), one),
        np.where(known, g, 1.0),
        np.where(known, n, square),
        np.where(known, np.maximum(np.ceil(k / (height * width)), 1.0), square),
        np.where(is_image, rows, np.where(known, m, 1.0)),
        np.where(is_image, columns, one),
        height,
        width,
    ])  # fmt: skip
    return Problem(sizes, stride, part)


def _work(
    demand: Demand, device: Device, hardware: Machine, rates: Efficiency, least: Traffic, ideal_s: Floats
) -> _Work:
    """The mappings of all contractions: those of equal ones are searched once."""
    which = np.flatnonzero(demand.macs > 0)
    problem = problem_of(demand, which)
    scale = demand.macs[which] / np.prod(problem.sizes, axis=0)
    right = np.broadcast_to(demand.right, demand.n)[which]
    inputs, partial = np.full(len(which), demand.element_bytes), np.full(len(which), device.accumulator_bytes)
    value_bytes = np.stack([inputs, right, partial])
    byte_s = 1.0 / (device.memory_bandwidth * rates.bandwidth[0, demand.op_class[which]])
    # What the operator would move did it see every value once, less what really passes the memory interface.
    once = (compulsory(problem) * value_bytes).sum(axis=0)
    spared = once - (least.dram_read + least.dram_write)[which] / scale
    cycle_s = ideal_s[which] / demand.macs[which] * hardware.elements / rates.compute[0, demand.op_class[which]]
    assumed = device.arch.data.assumed
    weights = (assumed("weight_memory"), assumed("weight_first"), assumed("weight_inner"))
    costs = Costs(cycle_s, byte_s, 1.0 / device.clock_hz, spared)
    columns = np.vstack([problem.sizes, problem.stride, problem.part, value_bytes, cycle_s, byte_s, spared])
    _, first, place = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    distinct = Costs(cycle_s[first], byte_s[first], costs.access_s, spared[first])
    nest = search(hardware, problem.of(first), value_bytes[:, first], weights, distinct)
    place = place.ravel()
    mine = Nest(*(tuple(part[:, place] for part in getattr(nest, name)) for name in Nest.__struct_fields__))
    runs = run(problem, mine, hardware.stations)
    return _Work(which, problem, scale, mine, runs, needed(hardware, runs, value_bytes, weights), value_bytes, costs)


def compulsory(problem: Problem) -> Floats:
    """Distinct values of each tensor, (3, c)."""
    n, g, k, c, p, q, r, s = problem.sizes
    sides = [(problem.sizes[result] - 1) * problem.stride + problem.sizes[window] for result, window in WINDOWS]
    return np.stack([n * g * c * sides[0] * sides[1] * problem.part, g * k * c * r * s, n * g * k * p * q])


def _flow(demand: Demand, least: Traffic, work: _Work) -> Traffic:
    """What passes the memory interface: every value that is not on chip once, and what the mappings move again."""
    moves, value_bytes = work.run.moves, work.value_bytes
    once = compulsory(work.problem)
    read = sum((moves[0, t].reads - once[t]) * value_bytes[t] for t in (INPUT, WEIGHT))
    partial = moves[0, OUTPUT].reads * value_bytes[OUTPUT]
    again, spilled = np.zeros(demand.n), np.zeros(demand.n)
    again[work.which] = np.maximum((read + partial) * work.scale, 0.0)
    spilled[work.which] = np.maximum(partial * work.scale, 0.0)
    return Traffic(
        least.dram_read + again,
        least.dram_write + spilled,
        least.chip_read + again,
        least.chip_write + spilled,
        least.weight_read,
    )


def _tiling(demand: Demand, work: _Work) -> Tiling:
    """The tiles of the outermost level, and the steps of the arrays over them."""
    sizes, tile = work.problem.sizes, work.nest.tiles[0]
    n, _, k, _, p, q, _, _ = tile
    spread = np.prod(np.stack(work.nest.spread), axis=0)
    last = work.nest.tiles[-1]
    columns = (
        work.run.cycles,
        np.prod(np.ceil(sizes / tile), axis=0),
        np.prod(np.ceil(sizes / np.minimum(last * spread, sizes)), axis=0),
        work.run.instances[-1],
        n * p * q,
        k,
        np.ones_like(k),
    )
    found = np.zeros((7, demand.n))
    found[:, work.which] = np.stack(columns)
    return Tiling(*found)


def _counts(demand: Demand, device: Device, hardware: Machine, flow: Traffic, work: _Work) -> Floats:
    """Events of each operator: what every level and network moves; element-wise work passes the outermost level."""
    (counts, row), assumed = common.empty_counts(device, demand), device.arch.data.assumed
    which, value_bytes = work.which, work.value_bytes
    counts[row["array.mac"]] = demand.macs
    counts[row["vector.flop"]] = demand.vector_flops
    counts[row["vector.special_function"]] = demand.special
    for s, place in enumerate(hardware.places):
        for memory in place.memories:
            read, written = level_bytes(work.run, s, memory, value_bytes)
            counts[row[f"{memory.name}.read"], which] = read * work.scale
            counts[row[f"{memory.name}.write"], which] = written * work.scale
        if place.array:
            counts[row[f"network.{place.array}"], which] = _handed(work, hardware, s) * work.scale
    outermost, others = hardware.places[1].memories[0].name, demand.macs <= 0
    counts[row[f"{outermost}.read"]] += flow.chip_read * others
    counts[row[f"{outermost}.write"]] += flow.chip_write * others
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    moved = flow.dram_read + flow.dram_write
    counts[row["control.dma_descriptor"]] = np.ceil(moved / assumed("dma_bytes"))
    counts[row["control.tile_setup"], which] = np.prod(np.ceil(work.problem.sizes / work.nest.tiles[0]), axis=0)
    counts[row["control.program_launch"]] = demand.head
    return counts


def _handed(work: _Work, hardware: Machine, s: int) -> Floats:
    """Bytes that the network below a station hands to its elements and takes from them: of a tensor that passes
    several networks, each element of the innermost has its own."""
    total = np.zeros(len(work.which))
    for t, width in enumerate(work.value_bytes):
        outer = max(i for i in range(s + 1) if (i, t) in work.run.moves)
        moved = work.run.moves[outer, t]
        further = [i for i in range(s + 1, len(hardware.places)) if hardware.places[i].array]
        is_last = not further or any((i, t) in work.run.moves for i in range(s + 1, further[0] + 1))
        total += (moved.reads + moved.updates) * np.where(is_last, moved.shared, 1.0) * width
    return total
