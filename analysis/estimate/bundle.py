"""Many models evaluated in one pass on one device: their kernels are in one Demand, equal kernels only once.

Of the kernels of a hundred models a quarter are distinct. Two kernels are equal if all their polynomials are equal, so
they cost the same on every device at every batch. The distinct ones are executed once per device and gathered per
model; every figure has the same bits as `analysis.estimate.estimate` for the model alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import Estimate, add_up, estimate, mostly_convolution, precision_run
from analysis.estimate.kernels import Structure, demand, structure, usual_joins
from analysis.estimate.peak_memory import Memory, peak_memory
from analysis.estimate.roles import Values
from analysis.estimate.scenario import Scenario
from analysis.estimate.totals import Places, Totals, totals
from analysis.estimate.windows import windows
from analysis.estimate.workspace import block_channels
from analysis.model.ir.batch_limits import check_batch
from analysis.model.ir.workload import Floats, Workload
from hardware.demand import Calls, Demand, Transfers
from hardware.device import Device
from hardware.execute import execute, repeat_kernels
from hardware.memo import memoize
from hardware.precision import ACTIVATION, CACHE, KEPT, QUANTIZED, Widths
from hardware.setup import Setup

Indices = NDArray[np.int64]
_ROLES = (ACTIVATION, QUANTIZED, KEPT, CACHE)
_BY_KERNEL = (  # of an execution
    "pipelined_s", "kernel_s", "unthrottled_s", "busy_s", "overhead_s", "serial_s", "kernel_compute_s",
    "kernel_memory_s", "bound", "resource", "utilization",
)  # fmt: skip
_BY_OPERATOR = ("latency_s", "energy_j", "counts", "price_scale")  # of an execution
# The fields of a demand that are per operator, or the same for all operators.
_COLUMNS = (
    "op_class", "macs", "vector_flops", "special", "elements", "gemm", "local_bytes", "weight_bytes", "largest_bytes",
    "head", "windows", "patches", "links", "element_bytes", "right_bytes", "unpack_ops", "mean_work", "batch", "lag",
    "is_expert",
)  # fmt: skip


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Several workloads under one execution mode, with their distinct kernels. Per workload, `kernel_of` (k,) and
    `op_of` (n,) map its kernels and operators to distinct ones. `ops` and `transfers` are the rows of its demand whose
    kernels occur here first; operators are ordered by kernel."""

    workloads: tuple[Workload, ...]
    execution: str
    kernel_of: tuple[Indices, ...]
    op_of: tuple[Indices, ...]
    ops: tuple[Indices, ...]
    transfers: tuple[Indices, ...]
    n_kernels: int


class BundleDemand(msgspec.Struct, frozen=True):
    """A bundle at some batches and widths of its tensors: the joint demand of b x w estimates, ordered by batch; their
    `places` in it; and for each whether convolutions do most of its multiply-accumulates (None if it has none)."""

    demand: Demand
    places: Places
    convolution: tuple[bool | None, ...]


def make_bundle(workloads: Sequence[Workload], execution: str, keeps_order: bool = False) -> Bundle:
    """Find the distinct kernels of the workloads under an execution mode ('eager', 'fused' ..). With `keeps_order`
    every kernel is distinct, because its time depends on the others (`Runtime.keeps_order`)."""
    distinct: dict[bytes, tuple[int, int]] = {}  # signature -> distinct kernel and its first operator
    ops, transfers, kernel_of, op_of = [], [], [], []
    n_kernels = n_ops = 0
    for workload in workloads:
        s = structure(workload, execution)
        counts = np.bincount(s.kernel, minlength=s.n_kernels)
        is_first = np.zeros(s.n_kernels, dtype=np.bool_)
        kernels = np.zeros(s.n_kernels, dtype=np.int64)
        first_op = np.zeros(s.n_kernels, dtype=np.int64)
        alone = (b"%d" % k for k in range(n_kernels, n_kernels + s.n_kernels))
        for k, signature in enumerate(alone if keeps_order else _signatures(workload, s)):
            place = distinct.get(signature)
            if place is None:
                place = distinct[signature] = (n_kernels, n_ops)
                is_first[k] = True
                n_kernels += 1
                n_ops += int(counts[k])
            kernels[k], first_op[k] = place
        order, rank = _by_kernel(s.kernel, counts)
        operators = np.empty(len(s.kernel), dtype=np.int64)
        operators[order] = first_op[s.kernel[order]] + rank
        ops.append(order[is_first[s.kernel[order]]])
        transfers.append(np.flatnonzero(is_first[s.moves.kernel]))
        kernel_of.append(kernels)
        op_of.append(operators)
    return Bundle(
        workloads=tuple(workloads),
        execution=execution,
        kernel_of=tuple(kernel_of),
        op_of=tuple(op_of),
        ops=tuple(ops),
        transfers=tuple(transfers),
        n_kernels=n_kernels,
    )


def _concatenate(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _pointers(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _by_kernel(kernel: NDArray[Any], counts: NDArray[Any]) -> tuple[Indices, Indices]:
    """Return the order of rows by kernel, and the place of each row so ordered within its kernel."""
    order = np.argsort(kernel, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return order, np.arange(len(kernel)) - np.repeat(starts, counts)


def _signatures(workload: Workload, s: Structure) -> list[bytes]:
    """Return per kernel, as bytes, everything that its cost depends on: the polynomials of its operators and transfers,
    and of all weights and transfers of its model, which decide how much of them a scratchpad keeps."""
    ops, moves = workload.operators, s.moves
    n = workload.n_operators
    local = np.zeros((n, (len(_ROLES) + 1) * len(workload.monomials)))
    np.add.at(local, s.inside.op, _widths(s.inside))
    columns = (ops.macs, ops.flops, ops.special, s.elements, ops.gemm.reshape(n, -1), local)
    operators = np.column_stack([s.op_class, s.head, s.begins, s.prompts, s.dispatched, windows(workload)[6], *columns])
    moved = _widths(moves)
    # Transfers of a kernel name their operator by its place in the kernel.
    counts = np.bincount(s.kernel, minlength=s.n_kernels)
    order, rank = _by_kernel(s.kernel, counts)
    place = np.empty(n)
    place[order] = rank
    transfers = np.column_stack([place[moves.op], moves.role, moves.previous < 0, moved, _distances(s, moved)])
    weights = np.stack([moved[moves.is_weight].sum(axis=0), moved.sum(axis=0)])
    head = repr((workload.monomials, workload.defaults, workload.windows, weights.tolist())).encode()
    rows = _rows(operators, s.kernel, s.n_kernels)
    return [head + a + b"|" + b for a, b in zip(rows, _rows(transfers, moves.kernel, s.n_kernels), strict=True)]


def _widths(values: Values) -> Floats:
    """Return coefficients side by side: elements of each role, whose width depends on the precision, and bytes of
    values of fixed width."""
    numel, is_fixed = values.numel, values.fixed_bytes > 0
    columns = [np.where((~is_fixed & (values.precision_role == each))[:, None], numel, 0.0) for each in _ROLES]
    return np.hstack([*columns, np.where(is_fixed[:, None], numel * values.fixed_bytes[:, None], 0.0)])


def _distances(s: Structure, moved: Floats) -> Floats:
    """Return the traffic since each transfer's data was last touched, as coefficients that `kernels.demand`
    evaluates."""
    per_kernel = np.zeros((s.n_kernels, moved.shape[1]))
    np.add.at(per_kernel, s.moves.kernel, moved)
    until = np.vstack([np.zeros((1, moved.shape[1])), np.cumsum(per_kernel, axis=0)])
    first, last = s.moves.between
    distance = until[last] - until[first]
    distance = np.where(s.moves.wraps[:, None], until[-1] - distance, distance)
    return np.where((s.moves.previous < 0)[:, None], 0.0, distance)


def _rows(matrix: Floats, kernel: NDArray[Any], n_kernels: int) -> list[bytes]:
    """Return the rows of each kernel, in order, as bytes."""
    data = np.ascontiguousarray(matrix[np.argsort(kernel, kind="stable")] + 0.0).tobytes()  # + 0.0: no -0.0
    width = matrix.shape[1] * 8
    ends = (np.cumsum(np.bincount(kernel, minlength=n_kernels)) * width).tolist()
    return [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def bundle_demand(one: Bundle, batches: Sequence[int], widths: Widths) -> BundleDemand:
    """Return the joint demand of a bundle at some batches and widths of its tensors. Different batches share no
    kernels."""
    alone = [demand(workload, batch, widths, one.execution) for batch in batches for workload in one.workloads]
    n_ops, each = sum(map(len, one.ops)), range(len(batches))
    kernel_of = [numbers + i * one.n_kernels for i in each for numbers in one.kernel_of]
    places = Places(
        kernel_of=_concatenate(kernel_of),
        op_of=_concatenate([numbers + i * n_ops for i in each for numbers in one.op_of]),
        kernel_ptr=_pointers(one.kernel_of),
        op_ptr=_pointers(one.op_of),
        batches=len(batches),
    )
    return BundleDemand(_join(one, alone, kernel_of), places, tuple(map(mostly_convolution, alone)))


def _join(one: Bundle, alone: Sequence[Demand], kernel_of: Sequence[Indices]) -> Demand:
    """Return the distinct kernels of all demands as one demand: columns end to end, indices shifted."""
    times = len(alone) // max(len(one.workloads), 1)
    ops, transfers = one.ops * times, one.transfers * times

    def join(records: Sequence[Any], names: Sequence[str], rows: Sequence[Indices]) -> dict[str, Any]:
        """Concatenate columns of records, by name. A value that is not an array is the same in all."""
        return {
            name: np.concatenate(
                [getattr(one, name)[..., mine] for one, mine in zip(records, rows, strict=True)], axis=-1
            )
            if isinstance(same := getattr(records[0], name), np.ndarray)
            else same
            for name in names
        }

    kernel, owner, previous = [], [], []
    model = np.zeros(one.n_kernels * times, dtype=np.int64)  # a kernel that several estimates share is of one model
    for run, (each, mine, moves, to, start) in enumerate(
        zip(alone, ops, transfers, kernel_of, _pointers(ops)[:-1], strict=True)
    ):
        model[to] = run
        kernel.append(to[each.kernel[mine]])
        before = each.transfers.previous[moves]
        previous.append(np.where(before < 0, -1, to[before]))
        place = np.zeros(each.n, dtype=np.int64)
        place[mine] = start + np.arange(len(mine))
        owner.append(place[each.transfers.op[moves]])
    joined = join(alone, _COLUMNS, ops)
    return Demand(
        **joined | {"gemm": np.ascontiguousarray(joined["gemm"])},
        kernel=_concatenate(kernel),
        n_kernels=one.n_kernels * times,
        transfers=Transfers(
            op=_concatenate(owner),
            previous=_concatenate(previous),
            **join([each.transfers for each in alone], ("size_bytes", "role", "distance"), transfers),
        ),
        calls=Calls(**join([each.calls for each in alone], Calls.__struct_fields__, ops)),
        model=model,
    )


def evaluate_steps(
    steps: Sequence[Workload], batches: Sequence[int], device: Device, scenario: Scenario, is_recorded: bool = False
) -> Floats:
    """Return seconds and joules of steps that share their operators at some batches, (2, steps, batches). They equal
    those of `estimate` up to the last bits. With `is_recorded` those of prompts held by graphs come first, (4, ..)."""
    setup, first = scenario.setup_on(device, steps[0]), steps[0]
    none = msgspec.structs.replace(setup.runtime.prompt_dispatch, value=0.0, low=0.0, high=0.0)
    graphs = Setup(device, setup.plan, msgspec.structs.replace(setup.runtime, prompt_dispatch=none), setup.layout)
    bundle = make_bundle(steps, setup.joins, True)  # layers differ in times
    joint = bundle_demand(bundle, batches, setup.plan.widths)
    times = None if first.repeats is None else first.repeats @ first.value_at(batch=1)
    figures = list[Floats]()
    for each in (graphs, setup) if is_recorded else (setup,):
        run = execute(joint.demand, each)
        if times is not None:
            again = np.tile(np.concatenate([times[mine] for mine in bundle.ops]), len(batches))
            run, _ = repeat_kernels(run, joint.demand, again)
        sums = totals(run, joint.places)
        figures += [sums.latency_s, sums.energy_j * first.devices]
    return np.stack(figures).reshape(len(figures), len(batches), len(steps)).swapaxes(1, 2)


def estimate_batches(workload: Workload, device: Device, base: Scenario, batches: Sequence[int]) -> Iterator[Estimate]:
    """Yield the estimate at each batch, bit for bit as `estimate` does, from one execution of all. The mapping in it is
    that of all batches, except for `is_reduced`."""
    setup = base.setup_on(device, workload)
    scenarios = [msgspec.structs.replace(base, batch=batch) for batch in batches]
    if workload.repeats is not None or workload.parallel is not None or device.arch.is_searched:
        yield from (estimate(workload, device, scenario) for scenario in scenarios)
        return
    for batch in batches:
        check_batch(workload, batch)
    workload, runtime = workload.bound(sequence=base.sequence, kv=base.kv), setup.runtime
    about = usual_joins(workload, setup.joins), runtime.keeps_order(device), block_channels(device, runtime.mode)
    joint, demands, memories = _at_batches(workload, tuple(batches), setup.plan.widths, *about)
    run = execute(joint.demand, setup)
    by_kernel = _BY_KERNEL[run.pipelined_s is None :]
    kernels, operators = (np.split(of, len(batches)) for of in (joint.places.kernel_of, joint.places.op_of))
    for scenario, needs, memory, kernel, op in zip(scenarios, demands, memories, kernels, operators, strict=True):
        own = {name: np.take(getattr(run, name), kernel, axis=-1) for name in by_kernel}
        own |= {name: np.take(getattr(run, name), op, axis=-1) for name in _BY_OPERATOR}
        mapping = msgspec.structs.replace(run.mapping, is_reduced=run.mapping.is_reduced[op])
        yield add_up(setup, workload, scenario, needs, msgspec.structs.replace(run, mapping=mapping, **own), memory)


@memoize(keep=16)
def _at_batches(
    workload: Workload, batches: tuple[int, ...], widths: Widths, joins: str, keeps_order: bool, block: float
) -> tuple[BundleDemand, list[Demand], list[Memory]]:
    """Return the demand of all batches, and the demand and the memory of each."""
    joint = bundle_demand(make_bundle([workload], joins, keeps_order), batches, widths)
    demands = [demand(workload, batch, widths, joins) for batch in batches]
    return joint, demands, [peak_memory(workload, batch, widths, joins, block) for batch in batches]


def evaluate_bundle(demands: BundleDemand, setup: Setup) -> tuple[Totals, tuple[str, ...]]:
    """Evaluate all workloads of a bundle on one device, bit for bit as `estimate` does. Return also the format that
    most multiply-accumulates of each run in."""
    run = execute(demands.demand, setup)
    formats = {mostly: precision_run(setup.plan, mostly) for mostly in (None, False, True)}
    return totals(run, demands.places), tuple(map(formats.__getitem__, demands.convolution))
