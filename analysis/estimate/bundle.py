"""Many models of one device each evaluated in one pass: their kernels side by side in one Demand, equal kernels once.

Of the kernels of a hundred models a quarter are distinct. Two kernels are equal when every polynomial in them is, so
they cost the same on every device at every batch. The distinct ones are run once per device and gathered per model;
every figure has the bits that `analysis.estimate.estimate` gives for the model alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import mostly_convolution, precision_run
from analysis.estimate.kernels import Structure, demand, structure
from analysis.estimate.peak_memory import peak_memory
from analysis.estimate.roles import Values
from analysis.estimate.scenario import Scenario
from analysis.estimate.totals import Places, Totals, totals
from analysis.estimate.windows import windows
from analysis.model.ir.workload import Floats, Workload
from hardware.demand import Calls, Demand, Stream, Transfers
from hardware.device import Device
from hardware.execute import execute, repeat_kernels
from hardware.map_demand import map_demand
from hardware.mapping.common import Mapping, mapping_key
from hardware.precision import ACTIVATION, CACHE, KEPT, QUANTIZED, Widths
from hardware.setup import Setup

Indices = NDArray[np.int64]
_ROLES = (ACTIVATION, QUANTIZED, KEPT, CACHE)


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Several workloads under one execution mode, with their distinct kernels.

    Per workload, `ops` and `transfers` are the rows of its demand that belong to a kernel seen here first (the
    operators kernel by kernel), and `renumber` (k_w,) gives its kernels their numbers among the distinct. `places`
    says which distinct kernels and operators each workload consists of.
    """

    workloads: tuple[Workload, ...]
    execution: str
    ops: tuple[Indices, ...]
    transfers: tuple[Indices, ...]
    renumber: tuple[Indices, ...]
    n_kernels: int
    places_models: bool
    places: Places


class BundleDemand(msgspec.Struct, frozen=True):
    """A bundle at some batches and widths of its tensors: the joint demand of b x w runs, those of a batch side by
    side, and per run whether convolutions do most of its multiply-accumulates (None without any)."""

    bundle: Bundle
    demand: Demand
    convolution: tuple[bool | None, ...]


def make_bundle(workloads: Sequence[Workload], execution: str, places_models: bool = False) -> Bundle:
    """Find the distinct kernels of the workloads under an execution mode ('eager', 'fused' ..); no two are alike where
    devices place whole models."""
    distinct: dict[bytes, tuple[int, int]] = {}  # signature -> distinct kernel and its first operator
    ops, transfers, renumber, kernel_of, op_of = [], [], [], [], []
    n_kernels = n_ops = 0
    for workload in workloads:
        s = structure(workload, execution)
        counts = np.bincount(s.kernel, minlength=s.n_kernels)
        is_first = np.zeros(s.n_kernels, dtype=np.bool_)
        kernels = np.zeros(s.n_kernels, dtype=np.int64)
        first_op = np.zeros(s.n_kernels, dtype=np.int64)
        alone = (b"%d" % k for k in range(n_kernels, n_kernels + s.n_kernels))
        for k, signature in enumerate(alone if places_models else _signatures(workload, s)):
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
        renumber.append(kernels)
        kernel_of.append(kernels)
        op_of.append(operators)
    return Bundle(
        workloads=tuple(workloads),
        execution=execution,
        ops=tuple(ops),
        transfers=tuple(transfers),
        renumber=tuple(renumber),
        n_kernels=n_kernels,
        places_models=places_models,
        places=Places(
            kernel_of=_concatenate(kernel_of),
            op_of=_concatenate(op_of),
            kernel_ptr=_pointers(kernel_of),
            op_ptr=_pointers(op_of),
        ),
    )


def _concatenate(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _pointers(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _by_kernel(kernel: NDArray[Any], counts: NDArray[Any]) -> tuple[Indices, Indices]:
    """Rows in the order of their kernels, and each one's place within its kernel."""
    order = np.argsort(kernel, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return order, np.arange(len(kernel)) - np.repeat(starts, counts)


def _signatures(workload: Workload, s: Structure) -> list[bytes]:
    """Per kernel, everything its cost depends on, as bytes: the polynomials of its operators and transfers, and
    the weights of its model and all that it moves: how much of them a scratchpad keeps."""
    ops, moves = workload.operators, s.moves
    n = workload.n_operators
    local = np.zeros((n, (len(_ROLES) + 1) * len(workload.monomials)))
    np.add.at(local, s.inside.op, _widths(s.inside))
    columns = (ops.macs, ops.flops, ops.special, s.elements, ops.gemm.reshape(n, -1), local)
    operators = np.column_stack([s.op_class, s.head, s.begins, s.prompts, windows(workload)[6], *columns])
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
    """Return the coefficients of elements as wide as the precision has their role, and of bytes of fixed width, side by
    side."""
    numel, is_fixed = values.numel, values.fixed_bytes > 0
    columns = [np.where((~is_fixed & (values.precision_role == each))[:, None], numel, 0.0) for each in _ROLES]
    return np.hstack([*columns, np.where(is_fixed[:, None], numel * values.fixed_bytes[:, None], 0.0)])


def _distances(s: Structure, moved: Floats) -> Floats:
    """Return the traffic since each transfer's data was last touched, as coefficients: what `kernels.demand`
    evaluates."""
    per_kernel = np.zeros((s.n_kernels, moved.shape[1]))
    np.add.at(per_kernel, s.moves.kernel, moved)
    until = np.vstack([np.zeros((1, moved.shape[1])), np.cumsum(per_kernel, axis=0)])
    first, last = s.moves.between
    distance = until[last] - until[first]
    distance = np.where(s.moves.wraps[:, None], until[-1] - distance, distance)
    return np.where((s.moves.previous < 0)[:, None], 0.0, distance)


def _rows(matrix: Floats, kernel: NDArray[Any], n_kernels: int) -> list[bytes]:
    """The rows of each kernel, in order, as bytes."""
    data = np.ascontiguousarray(matrix[np.argsort(kernel, kind="stable")] + 0.0).tobytes()  # + 0.0: no -0.0
    width = matrix.shape[1] * 8
    ends = (np.cumsum(np.bincount(kernel, minlength=n_kernels)) * width).tolist()
    return [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def bundle_demand(one: Bundle, batches: Sequence[int], widths: Widths) -> BundleDemand:
    """The joint demand of a bundle at some batches and widths of its tensors."""
    many = _repeat_bundle(one, len(batches))
    runs = [(workload, batch) for batch in batches for workload in one.workloads]
    alone = [demand(workload, batch, widths, many.execution) for workload, batch in runs]
    convolution = tuple(mostly_convolution(one) for one in alone)
    return BundleDemand(many, _join(many, alone), convolution)


def _repeat_bundle(one: Bundle, times: int) -> Bundle:
    """The bundle so many times over, end to end: at another batch no kernel is that of this one."""
    kernels, n_ops = one.n_kernels, sum(map(len, one.ops))
    each, places = range(times), one.places
    return Bundle(
        workloads=one.workloads * times,
        execution=one.execution,
        ops=one.ops * times,
        transfers=one.transfers * times,
        renumber=tuple(numbers + i * kernels for i in each for numbers in one.renumber),
        n_kernels=kernels * times,
        places_models=one.places_models,
        places=Places(
            kernel_of=_concatenate([places.kernel_of + i * kernels for i in each]),
            op_of=_concatenate([places.op_of + i * n_ops for i in each]),
            kernel_ptr=_pointers(one.renumber * times),
            op_ptr=np.concatenate([[0], np.cumsum(np.tile(np.diff(places.op_ptr), times))]),
        ),
    )


def peak_memory_bytes(
    workloads: Sequence[Workload], execution: str, batches: Sequence[int], widths: Widths, block: float
) -> Floats:
    """Peak memory in bytes of each workload at each batch, (b * w,)."""
    runs = [(workload, batch) for batch in batches for workload in workloads]
    return np.array([peak_memory(one, batch, widths, execution, block).peak_bytes for one, batch in runs])


def _join(many: Bundle, alone: list[Demand]) -> Demand:
    """The distinct kernels of all demands as one demand: columns end to end, numbers shifted."""

    def column(name: str) -> NDArray[Any]:
        return join([getattr(one, name) for one in alone], many.ops)

    def join(parts: Sequence[NDArray[Any]], rows: Sequence[Indices]) -> NDArray[Any]:
        return np.concatenate([part[..., mine] for part, mine in zip(parts, rows, strict=True)], axis=-1)

    def transfer(name: str) -> NDArray[Any]:
        return join([getattr(one.transfers, name) for one in alone], many.transfers)

    kernel = [to[one.kernel[mine]] for one, mine, to in zip(alone, many.ops, many.renumber, strict=True)]
    owner = []
    for one, mine, moves, start in zip(alone, many.ops, many.transfers, _pointers(many.ops)[:-1], strict=True):
        place = np.zeros(one.n, dtype=np.int64)
        place[mine] = start + np.arange(len(mine))
        owner.append(place[one.transfers.op[moves]])
    has_links = alone[0].links is not None
    columns = ("op_class", "macs", "vector_flops", "special", "elements", "local_bytes", "weight_bytes", "head")
    return Demand(
        **{name: column(name) for name in (*columns, "largest_bytes", "windows", "patches")},
        gemm=np.ascontiguousarray(column("gemm")),
        kernel=_concatenate(kernel),
        n_kernels=many.n_kernels,
        transfers=Transfers(
            op=_concatenate(owner), **{name: transfer(name) for name in ("size_bytes", "role", "distance")}
        ),
        element_bytes=alone[0].element_bytes,
        calls=Calls(
            **{name: join([getattr(one.calls, name) for one in alone], many.ops) for name in Calls.__struct_fields__}
        ),
        links=column("links") if has_links else None,
        right_bytes=column("right_bytes") if np.ndim(alone[0].right_bytes) else alone[0].right_bytes,
        unpack_ops=None if alone[0].unpack_ops is None else column("unpack_ops"),
        stream=_stream(many, alone) if many.places_models else None,
    )


def _stream(many: Bundle, alone: list[Demand]) -> Stream:
    """All streams end to end: kernels are numbered model by model, since none is shared."""
    streams = [one.stream for one in alone if one.stream is not None]
    starts = many.places.kernel_ptr[:-1].tolist()
    moved = [
        np.where(stream.previous < 0, -1, stream.previous + start)[mine]
        for stream, start, mine in zip(streams, starts, many.transfers, strict=True)
    ]
    return Stream(
        batch=np.concatenate([np.full(len(mine), one.batch) for one, mine in zip(streams, many.ops, strict=True)]),
        model=np.repeat(np.arange(len(streams)), np.diff(many.places.kernel_ptr)),
        previous=_concatenate(moved),
        lag=np.concatenate([stream.lag[mine] for stream, mine in zip(streams, many.ops, strict=True)]),
    )


def evaluate_steps(steps: Sequence[Workload], batches: Sequence[int], device: Device, scenario: Scenario) -> Floats:
    """Return seconds and joules of steps that share their operators at some batches, (2, steps, batches), to the last
    bits what `estimate` finds for each."""
    setup, first = scenario.setup_on(device, steps[0]), steps[0]
    joint = bundle_demand(make_bundle(steps, setup.joins, True), batches, setup.plan.widths)  # layers differ in times
    run = execute(joint.demand, setup)
    if first.repeats is not None:
        times = first.repeats @ first.value_at(batch=1)
        run, _ = repeat_kernels(run, joint.demand, np.concatenate([times[mine] for mine in joint.bundle.ops]))
    sums = totals(run, joint.bundle.places)
    figures = np.stack([sums.latency_s, sums.energy_j * first.devices])
    return figures.reshape(2, len(batches), len(steps)).swapaxes(1, 2)


def evaluate_bundle(
    demands: BundleDemand, setup: Setup, mapped: dict[tuple[Any, ...], Mapping] | None = None
) -> tuple[Totals, tuple[str, ...]]:
    """All workloads of a bundle on one device, to the last bit what `estimate` finds for each; and the format that
    most multiply-accumulates of each run in. `mapped` are mappings of the same demand on the same device, by what they
    depend on in the plan, which other plans may use."""
    key = (setup.plan,) if setup.device.arch.maps_by_energy else mapping_key(setup)
    mapped = {} if mapped is None else mapped
    if key not in mapped:
        mapped[key] = map_demand(demands.demand, setup, setup.device.software.efficiency.nominal)
    run = execute(demands.demand, setup, mapped[key])
    formats = {mostly: precision_run(setup.plan, mostly) for mostly in (None, False, True)}
    return totals(run, demands.bundle.places), tuple(map(formats.__getitem__, demands.convolution))
