"""Operators of a demand on a spatial accelerator: their loop nests, the mappings found for them, times and events."""

import msgspec
import numpy as np

from hardware.base.text import percent
from hardware.demand import Demand, Floats, Ints, OpClass
from hardware.device import Device
from hardware.efficiency import Efficiency
from hardware.mapping import common
from hardware.mapping.common import Mapping, Traffic
from hardware.mapping.tiling import Tiling
from hardware.setup import Setup
from hardware.spatial.costs import Costs, Needs, Power, find_needs, moved_on_chip
from hardware.spatial.loop_nest import INPUT, OUTPUT, WEIGHT, WINDOWS, Nest, NestRun, Problem, count_moves
from hardware.spatial.machine import SpatialMachine, find_machine
from hardware.spatial.mapping_search import search


class _Work(msgspec.Struct, frozen=True):
    """The c contractions of a demand, `which` operators they are, and the mappings found. `scale` is their MACs over
    those of the loops; `value_bytes` is (3, c). A mapping that was not counted may be `open_s` faster."""

    which: Ints
    problem: Problem
    scale: Floats
    nest: Nest
    run: NestRun
    needs: Needs
    value_bytes: Floats
    costs: Costs
    open_s: Floats


def map_operators(demand: Demand, setup: Setup, rates: Efficiency) -> Mapping:
    """Map contractions to the arrays, each by its search, and element-wise work to the vector unit."""
    device, plan = setup.device, setup.plan
    if demand.unpack_ops is not None:
        demand = msgspec.structs.replace(demand, vector_flops=demand.vector_flops + common.unpack_flops(demand, device))
    machine, on_matrix = find_machine(device), common.on_matrix_unit(demand, plan)
    least = common.traffic(msgspec.structs.replace(demand, gemm=np.zeros_like(demand.gemm)), device)
    ideal_s = _ideal_s(demand, setup)
    special = device.arch.data.assumed("special_flops")
    lanes_s = common.vector_work(demand, special) / setup.vector_flops / rates.compute[:, [OpClass.ELEMENTWISE]]
    work = _work(demand, device, machine, rates, setup.prices.value, least, ideal_s, lanes_s[0])
    flow = _flow(demand, least, work)
    dram_s = common.memory_seconds_of(device, flow.dram_bytes, rates.bandwidth[:, demand.op_class])
    chip_s = common.last_level_seconds(device, flow.chip_bytes)
    array_s, units = np.zeros(demand.n), np.full(demand.n, device.units)
    found_s = work.needs.seconds(work.costs, np.arange(len(work.which))) * work.scale
    array_s[work.which], chip_s[work.which] = found_s[0], found_s[2]
    units[work.which] = work.run.instances[-1]
    slower = rates.compute[0] / rates.compute
    arrays_s = np.maximum(array_s * slower[:, demand.op_class], ideal_s)
    # Operators run one after another, each as fast as its slowest resource; the vector unit works in parallel.
    each_s = np.maximum(np.maximum(arrays_s, dram_s), chip_s)
    serial_s, behind_s = (np.stack([demand.per_kernel(row) for row in seconds]) for seconds in (each_s, lanes_s))
    busy_s = np.maximum(serial_s, behind_s)
    return Mapping(
        matrix_s=arrays_s * on_matrix,
        vector_s=arrays_s * ~on_matrix + lanes_s,
        dram_s=dram_s,
        chip_s=chip_s,
        matrix_ideal_s=ideal_s * on_matrix,
        vector_ideal_s=ideal_s * ~on_matrix + demand.vector_flops / setup.vector_flops,
        on_matrix=on_matrix,
        units=units,
        traffic=flow,
        tiling=_tiling(demand, work),
        counts=_counts(demand, device, machine, flow, work),
        is_reduced=np.zeros(demand.n, dtype=np.bool_),
        busy_s=busy_s,
        mark=_mark(work.open_s, float(busy_s[0].sum())),
    )


def _mark(open_s: Floats, busy_s: float) -> str:
    if open_s.sum() < 0.005 * busy_s:  # 0 % would be said
        return ""
    few, saved = f"{np.count_nonzero(open_s)} of {open_s.size} products", percent(min(open_s.sum() / busy_s, 1.0))
    return f"the search ended early for {few}: other mappings may save up to {saved} of the time"


def _ideal_s(demand: Demand, setup: Setup) -> Floats:
    device, plan = setup.device, setup.plan
    attends = demand.is_attention

    def rate(unit: str, format_: str) -> float:
        """Return the multiply-accumulates per second of all units in a format."""
        return device.units * device.mac_rate(unit, format_) * (plan.matrix_rate if unit == "matrix" else 1.0)

    others = np.where(attends, rate(plan.contraction[0], plan.attention), rate(*plan.contraction))
    seconds: Floats = demand.macs / np.where(demand.is_convolution, rate(*plan.convolution), others)
    return seconds


def problem_of(demand: Demand, which: Ints) -> Problem:
    """Return the loops of contractions: convolutions with their windows where these are known, others as products."""
    g, m, n, k = demand.gemm[:, which]
    one = np.ones(len(which))
    rows, columns, height, width, stride, part = demand.windows[:, which]
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


def _other_work(
    demand: Demand, device: Device, rates: Efficiency, prices: Floats, least: Traffic
) -> tuple[Floats, Floats]:
    """Return the seconds (n,) of each kernel's operators besides its contraction, and J that no mapping changes."""
    passing_s = common.memory_seconds_of(device, least.dram_bytes, rates.bandwidth[0, demand.op_class])
    passing_s = np.maximum(passing_s, common.last_level_seconds(device, least.chip_bytes))
    unmapped_j = np.sum(prices[:, None] * _unmapped_counts(demand, device, least), axis=0)
    beside_s, rest_j = (demand.per_kernel(each)[demand.kernel] for each in (passing_s * (demand.macs <= 0), unmapped_j))
    return beside_s, rest_j


def _power(device: Device, machine: SpatialMachine, prices: Floats) -> Power:
    row = device.arch.row
    clock_w = float(prices[device.arch.timed_rows].sum()) * device.clock_hz * device.units
    budget_w = device.power_limit_w - float(prices[device.arch.static_rows].sum())
    return Power(float(prices[row["memory.dram_read"]]), float(prices[row[machine.events[0]]]), clock_w, budget_w)


def _work(
    demand: Demand, device: Device, machine: SpatialMachine, rates: Efficiency, prices: Floats, least: Traffic,
    ideal_s: Floats, lanes_s: Floats,
) -> _Work:  # fmt: skip
    """Return the mappings of all contractions. Equal contractions are searched once."""
    which = np.flatnonzero(demand.macs > 0)
    problem = problem_of(demand, which)
    scale = demand.macs[which] / np.prod(problem.sizes, axis=0)
    right = np.broadcast_to(demand.right_bytes, demand.n)[which]
    inputs, partial = np.full(len(which), demand.element_bytes), np.full(len(which), device.accumulator_bytes)
    value_bytes = np.stack([inputs, right, partial])
    byte_s = 1.0 / (device.memory_bandwidth * rates.bandwidth[0, demand.op_class[which]])
    # Bytes if every value moved once, minus the bytes that really pass the memory interface.
    once = (compulsory(problem) * value_bytes).sum(axis=0)
    spared = once - (least.dram_read + least.dram_write)[which] / scale
    cycle_s = ideal_s[which] / demand.macs[which] * machine.elements / rates.compute[0, demand.op_class[which]]
    power, (beside_s, rest_j) = _power(device, machine, prices), _other_work(demand, device, rates, prices, least)
    behind_s, start_s = demand.per_kernel(lanes_s)[demand.kernel], device.kernel_start_s
    by_operator = (cycle_s, byte_s, spared, scale, beside_s[which], behind_s[which], rest_j[which])
    costs = Costs(*by_operator, 1.0 / device.clock_hz, start_s, power)
    # All prices on chip scale with the voltage, so no clock changes the relative prices of the search.
    relative = tuple(float(f"{prices[device.arch.row[label]] / power.chip_j:.9g}") for label in machine.events)
    columns = np.vstack([problem.sizes, problem.stride, problem.part, value_bytes, *by_operator])
    _, first, place = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    nest, open_s = search(machine, problem.take(first), value_bytes[:, first], relative, costs.take(first))
    place = place.ravel()
    mine = Nest(*(tuple(part[:, place] for part in getattr(nest, name)) for name in Nest.__struct_fields__))
    runs = count_moves(problem, mine, machine.stations)
    return _Work(
        which, problem, scale, mine, runs, find_needs(machine, runs, value_bytes, relative), value_bytes, costs,
        open_s[place],
    )  # fmt: skip


def compulsory(problem: Problem) -> Floats:
    """Return the number of distinct values of each tensor, (3, c)."""
    n, g, k, c, p, q, r, s = problem.sizes
    sides = [(problem.sizes[result] - 1) * problem.stride + problem.sizes[window] for result, window in WINDOWS]
    return np.stack([n * g * c * sides[0] * sides[1] * problem.part, g * k * c * r * s, n * g * k * p * q])


def _flow(demand: Demand, least: Traffic, work: _Work) -> Traffic:
    """Return the traffic: every value that is not on chip once, and what mappings move again."""
    moves, value_bytes = work.run.moves, work.value_bytes
    once = compulsory(work.problem)
    read = sum((moves[0, t].reads - once[t]) * value_bytes[t] for t in (INPUT, WEIGHT))
    partial = moves[0, OUTPUT].reads * value_bytes[OUTPUT]
    again, spilled = np.zeros(demand.n), np.zeros(demand.n)
    again[work.which] = np.maximum((read + partial) * work.scale, 0.0)
    spilled[work.which] = np.maximum(partial * work.scale, 0.0)
    dram, chip = (
        (least.dram_read + again, least.dram_write + spilled),
        (least.chip_read + again, least.chip_write + spilled),
    )
    return Traffic(*dram, *chip, least.weight_read)


def _tiling(demand: Demand, work: _Work) -> Tiling:
    sizes, tile = work.problem.sizes, work.nest.tiles[0]
    n, _, k, _, p, q, _, _ = tile
    spread = np.prod(np.stack(work.nest.spread), axis=0)
    last = work.nest.tiles[-1]
    steps = np.prod(np.ceil(sizes / np.minimum(last * spread, sizes)), axis=0)
    run, found = work.run, np.zeros((7, demand.n))
    found[:, work.which] = [run.cycles, run.tiles, steps, run.instances[-1], n * p * q, k, np.ones_like(k)]
    return Tiling(*found)


def _counts(demand: Demand, device: Device, machine: SpatialMachine, flow: Traffic, work: _Work) -> Floats:
    counts = _unmapped_counts(demand, device, flow)
    for label, moved in moved_on_chip(machine, work.run, work.value_bytes).items():
        counts[device.arch.row[label], work.which] = moved * work.scale
    return counts


def _unmapped_counts(demand: Demand, device: Device, flow: Traffic) -> Floats:
    """Count arithmetic, off-chip traffic, and the passes of element-wise work through the outermost level."""
    counts, row = common.empty_counts(device, demand)
    counts[row["array.mac"]] = demand.macs
    counts[row["vector.flop"]] = demand.vector_flops
    counts[row["vector.special_function"]] = demand.special
    outermost, others = find_machine(device).places[1].memories[0].name, demand.macs <= 0
    counts[row[f"{outermost}.read"]] += flow.chip_read * others
    counts[row[f"{outermost}.write"]] += flow.chip_write * others
    counts[row["memory.dram_read"]] = flow.dram_read
    counts[row["memory.dram_write"]] = flow.dram_write
    moved = flow.dram_read + flow.dram_write
    counts[row["control.dma_descriptor"]] = np.ceil(moved / device.arch.data.assumed("dma_bytes"))
    counts[row["control.program_launch"]] = demand.head
    return counts
