"""Build the Demand, which is what a workload asks of a device, from operators and a way to group them into kernels.

A runtime groups operators in one of eight ways (`Setup.joins`, here `execution`): `eager` runs each operator as a
kernel, but a bias with its contraction; `apart` is the same, except that the bias of a convolution is a kernel;
`split` and `modules` are `eager` with some operators in parts; `compiled` runs contractions alone and the operators
after each as one kernel; `served` joins products of one input; `fused` runs each subgraph as one kernel; `clamped` does
both, but smooth activations leave a contraction. Values between the operators of a kernel stay on chip; all others are
transfers. Each has the traffic since its data was last touched, which decides whether a cache still holds it.
"""

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from analysis.estimate import operator_facts as facts
from analysis.estimate.operator_facts import Values
from analysis.model.ir.workload import BUFFER, KINDS, WEIGHT, Bools, Floats, Ints, Workload
from hardware.base.records import memoize
from hardware.demand import READ, READ_WEIGHT, WRITE, Calls, Demand, OpClass, Transfers, distinct_shapes
from hardware.precision import CACHE, EXCLUDED, FILE_ROLES, IN_8_BITS, QUANTIZED, TABLES, Widths, uniform

_Move = tuple[int, int, int, int, int, int, bool]  # op, role, row of numel, tensor, kernel, previous, wraps
_SMOOTH = {"silu", "sigmoid", "hardswish", "hardsigmoid", "tanh"}  # activations that do not only clamp
# The same for a model without these operators; heads of attention have products of one input.
_USUAL = {"clamped": ("fused", {*_SMOOTH, "attention", "softmax"}), "split": ("eager", _SMOOTH)}
# Passes of whole tensors before the last of an operator in parts, by kind or call.
_PARTS = {
    "split": {"silu": 1, "hardswish": 3},  # a sigmoid; a sum, a clamp and a product
    # To fp32, which is twice as wide, a square, a product, to 16 bits; two products, halves negated and joined.
    "modules": {"norm": 7, "hwexplorer.rotary.default": 4},
}
_PARTS["awaited"] = _PARTS["modules"]


class Moves(Values, frozen=True, kw_only=True):
    """Transfers (t,) at any batch: values that operators read from outside of their kernel, or write to it.

    `op` is the operator, `kernel` its kernel, `tensor` the tensor moved, `role` READ, READ_WEIGHT or WRITE. `previous`
    is the last kernel that touched the data (for writes: the last that reads it), -1 for data that is new or must
    leave; `wraps` marks weights last touched in the previous inference."""

    op: Ints
    kernel: Ints
    tensor: Ints
    role: Ints
    previous: Ints
    wraps: Bools

    @cached_property
    def is_weight(self) -> Bools:
        """True if a transfer reads weights, (t,)."""
        return np.equal(self.role, READ_WEIGHT)

    @cached_property
    def between(self) -> tuple[Ints, Ints]:
        """Return the range of kernels, `first` to `last - 1`, between two uses of the data, (t,) each. Data that wraps
        was used in the previous inference: then all kernels outside of the range lie between."""
        first, second = np.minimum(self.kernel, self.previous), np.maximum(self.kernel, self.previous)
        return np.where(self.wraps, first, first + 1), np.where(self.wraps, second + 1, second)


class Exchanges(Values, frozen=True, kw_only=True):
    """Values that operators, `op` (x,), exchange within their kernel."""

    op: Ints


class Structure(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The part of a demand that is the same at every batch: kernels and transfers.

    `kernel`, `head`, `op_class` and `n_kernels` are as in Demand, `begins`, `prompts`, `dispatched` and `parts` (n,) in
    Calls; `weights` are the values of all weights that are read; `elements` (n, m) counts what each operator writes.
    `times` (k,) is how often kernels of merged layers run or None, `body` how many run for each part of a batch."""

    op_class: Ints
    kernel: Ints
    head: Bools
    n_kernels: int
    moves: Moves
    inside: Exchanges
    weights: Values
    elements: Floats
    begins: Floats
    prompts: Floats
    dispatched: Floats
    parts: Floats
    times: Floats | None
    body: int


def usual_joins(workload: Workload, execution: str) -> str:
    """Return the most usual of the ways to join operators that are the same as `execution` for this workload."""
    usual, without = _USUAL.get(execution, (execution, set()))
    return usual if without.isdisjoint(workload.operators.kind) else execution


def _group(workload: Workload, execution: str) -> list[list[int]]:
    """Return the operators of each kernel, in the order in which kernels run. The first operator is the head."""
    if execution == "fused":
        return [list(members) for members in facts.partition(workload).members]
    if execution in ("compiled", "clamped"):
        return _compile(workload, execution == "clamped")
    if execution == "served":
        return _join_served(workload)
    kinds, runs = workload.operators.kind, list[list[int]]()
    for i, kind in enumerate(kinds):
        if kind == "bias" and i > 0 and (execution != "apart" or kinds[i - 1] not in ("conv", "conv_transpose")):
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _compile(workload: Workload, clamps: bool) -> list[list[int]]:
    """Group contractions (with their bias) as library kernels, and what follows each in a subgraph as one kernel. If it
    `clamps`, a library kernel also takes what follows, up to a smooth activation, and products of one input (queries,
    keys and values of one module) are one."""
    ops, kinds = workload.operators, workload.operators.kind
    runs: list[list[int]] = []
    for members in facts.partition(workload).members:
        current: list[int] = []
        for i in members:
            leaves = kinds[i] in _SMOOTH if clamps else kinds[i] != "bias"
            after_library = bool(current) and KINDS[kinds[current[0]]].fuses == "anchor" and leaves
            if current and (KINDS[kinds[i]].fuses == "anchor" or after_library):
                runs.append(current)
                current = []
            current.append(i)
        runs.append(current)
    joined: dict[object, list[int]] = {}
    for run in sorted(runs, key=lambda run: run[-1]):
        is_plain = clamps and {kinds[i] for i in run} <= {"linear", "bias"}
        key = (ops.path[run[0]].rpartition(".")[0], ops.in_tensor[ops.in_ptr[run[0]]]) if is_plain else run[0]
        joined.setdefault(key, []).extend(run)
    return list(joined.values())


def _join_served(workload: Workload) -> list[list[int]]:
    """Group as engines of language models do: products of one input in one module are a single product (queries, keys
    and values; gate and up), library kernels are separate, and consecutive other operators are one kernel."""
    ops, producer = workload.operators, workload.tensors.producer.tolist()
    in_ptr, in_tensor = ops.in_ptr.tolist(), ops.in_tensor.tolist()
    runs: list[list[int]] = []
    run_of: list[int] = []
    products: dict[tuple[str, str, int], int] = {}  # by module, kind and input
    rows: set[int] = set()  # kernels of element-wise work
    for i, kind in enumerate(ops.kind):
        inputs = in_tensor[in_ptr[i] : in_ptr[i + 1]]
        latest = max((run_of[producer[t]] for t in inputs if producer[t] >= 0), default=-1)
        target, last = len(runs), len(runs) - 1
        if KINDS[kind].op_class == OpClass.GEMM:
            data = next((t for t in inputs if producer[t] >= 0), -1)
            target = products.setdefault((ops.path[i].rpartition(".")[0], kind, data), target)
        elif kind == "bias":
            target = latest
        elif KINDS[kind].fuses == "epilogue" or (kind == "copy" and latest in rows):
            # A later kernel may read the results of an earlier one, so only the last kernel can still grow.
            target = last if last in rows and latest >= last - 1 else target
            rows.add(target)
        if target == len(runs):
            runs.append([])
        runs[target].append(i)
        run_of.append(target)
    return runs


class _Walk:
    """The transfers that kernels need, found in the order in which they run: `rows` of moves, and values exchanged in a
    kernel (`local`: operator, tensor, row of numel). `op_class` and `parts` (n,) are those of operators in parts.

    `touched` holds the kernels that read each tensor from outside, in order."""

    def __init__(self, workload: Workload, execution: str, order: list[tuple[int, int]], kernel: list[int]) -> None:
        self.workload, self.order, self.kernel = workload, order, kernel
        self.rows: list[_Move] = []
        self.local: list[tuple[int, int, int]] = []
        self.touched: dict[int, list[int]] = {}
        self.read_inside: set[int] = set()
        self.op_class, self.parts = facts.op_classes(workload), np.ones(workload.n_operators)
        self._find_reads(joins_cache=execution in ("modules", "awaited"))
        self._find_writes(_PARTS.get(execution, {}))

    def _find_reads(self, joins_cache: bool) -> None:
        """Find what operators read. A tensor made in the kernel, or read in it before, is exchanged. A framework that
        `joins_cache` copies a cache that grows."""
        ops, tensors, kernel = self.workload.operators, self.workload.tensors, self.kernel
        role_of, of_tensor, producer = tensors.role.tolist(), facts.roles(self.workload), tensors.producer.tolist()
        in_ptr, in_tensor = ops.in_ptr.tolist(), ops.in_tensor.tolist()
        for k, i in self.order:
            for e in range(in_ptr[i], in_ptr[i + 1]):
                t = in_tensor[e]
                made_in = kernel[producer[t]] if producer[t] >= 0 else -1
                seen = self.touched.get(t, [])
                if made_in == k or (seen and seen[-1] == k):
                    self.local.append((i, t, e))
                    self.read_inside.add(t)
                    continue
                is_weight = role_of[t] in (WEIGHT, BUFFER)
                role, previous = READ_WEIGHT if is_weight else READ, seen[-1] if seen else made_in
                self.rows.append((i, role, e, t, k, previous, is_weight and not seen))
                self.touched.setdefault(t, []).append(k)
                if joins_cache and of_tensor[t] == CACHE and producer[t] < 0:  # joined with what is new
                    self.rows += [(i, role, e, t, k, k, False) for role in (WRITE, READ)]
                    self.parts[i] += 1.0

    def _find_writes(self, passes_of: dict[str, int]) -> None:
        """Find what leaves kernels, and the passes of whole tensors in operators that run in parts."""
        ops, head = self.workload.operators, dict[int, int]()
        out_ptr, out_tensor = ops.out_ptr.tolist(), ops.out_tensor.tolist()
        is_output, first_tensor = self.workload.tensors.is_output.tolist(), len(ops.in_numel)
        for k, i in self.order:
            first = head.setdefault(k, i)
            for t in out_tensor[out_ptr[i] : out_ptr[i + 1]]:
                leaves = is_output[t]
                if t in self.touched or leaves or t not in self.read_inside:
                    last = -1 if leaves else self.touched.get(t, [-1])[-1]
                    self.rows.append((first, WRITE, first_tensor + t, t, k, last, False))
                if t in self.read_inside and t not in self.touched:
                    self.local.append((i, t, first_tensor + t))
                if passes := passes_of.get(ops.target[i], passes_of.get(ops.kind[i], 0)):
                    self.op_class[i], self.parts[i] = OpClass.ELEMENTWISE, passes + 1.0
                    kept = [(i, role, first_tensor + t, t, k, k, False) for role in (WRITE, READ)]
                    self.rows += kept * passes + kept[1:]  # the last part also reads the argument


@memoize(shared=True)
def structure(workload: Workload, execution: str) -> Structure:
    """Return the kernels and transfers of a workload, computed once for each way to group operators."""
    ops, tensors = workload.operators, workload.tensors
    runs, n = _group(workload, execution), workload.n_operators
    kernel, head = [0] * n, np.zeros(n, dtype=np.bool_)
    order = [(k, i) for k, run in enumerate(runs) for i in run]
    for k, i in order:
        kernel[i] = k
        head[i] = i == runs[k][0]
    walk = _Walk(workload, execution, order, kernel)
    numel = np.concatenate([ops.in_numel, tensors.numel])  # of each input of an operator, then of each tensor
    written = np.zeros((n, len(workload.monomials)))
    np.add.at(written, np.repeat(np.arange(n), np.diff(ops.out_ptr)), tensors.numel[ops.out_tensor])
    times, body = None, 0
    if workload.repeats is not None and workload.kind != "request":
        times = np.ones(len(runs))
        times[kernel] = workload.repeats @ workload.value_at(batch=1)
        body = 0 if workload.training is None else int(np.flatnonzero(times > 1.0)[-1]) + 1
    moves = _moves(workload, walk.rows, numel, body)
    inside = np.array([t for _, t, _ in walk.local], dtype=np.intp)
    return Structure(
        op_class=walk.op_class,
        kernel=np.array(kernel, dtype=np.int32),
        head=head,
        n_kernels=len(runs),
        moves=moves,
        inside=Exchanges(
            op=np.array([i for i, _, _ in walk.local], dtype=np.intp),
            numel=numel[np.array([row for _, _, row in walk.local], dtype=np.int64)],
            fixed_bytes=tensors.fixed_bytes[inside],
            precision_role=facts.width_roles(workload)[inside],
        ),
        weights=facts.select_values(
            workload, np.flatnonzero(np.bincount(moves.tensor[moves.is_weight])).astype(np.int32)
        ),
        elements=np.maximum(written, facts.summed(workload)),
        begins=_begins(workload, runs),
        prompts=_prompts(workload),
        dispatched=facts.dispatches(workload, awaits=execution == "awaited"),
        parts=walk.parts,
        times=times,
        body=body,
    )


def _moves(workload: Workload, rows: list[_Move], numel: Floats, body: int) -> Moves:
    columns = zip(*rows, strict=True) if rows else [()] * 7
    op, role, row, tensor, kernel, previous, wraps = map(list[Any], columns)
    # A weight that several kernels read was last touched by the last of them, one inference or part of a batch ago.
    last = dict(zip(tensor, kernel, strict=True))
    last |= {t: k for t, k in zip(tensor, kernel, strict=True) if k < body}
    touched = [last[t] if wrap else before for t, before, wrap in zip(tensor, previous, wraps, strict=True)]
    return Moves(
        op=np.array(op, dtype=np.int32),
        kernel=np.array(kernel, dtype=np.int32),
        tensor=np.array(tensor, dtype=np.int32),
        role=np.array(role, dtype=np.int8),
        previous=np.array(touched, dtype=np.int32),
        wraps=np.array(wraps, dtype=np.bool_),
        numel=numel[np.array(row, dtype=np.int64)],
        fixed_bytes=workload.tensors.fixed_bytes[tensor],
        precision_role=facts.width_roles(workload)[tensor],
    )


def _begins(workload: Workload, runs: list[list[int]]) -> Floats:
    """Return 1 where a call of the model begins: at its first kernel, and at the first of each repeated part."""
    begins = np.zeros(workload.n_operators)
    if runs:
        begins[runs[0][0]] = 1.0
    if workload.kind == "request" and workload.repeats is not None:
        changes = (workload.repeats[1:] != workload.repeats[:-1]).any(axis=1)
        begins[1:][changes] = 1.0
    return begins


def _prompts(workload: Workload) -> Floats:
    """Return 1 for operators that read a prompt: all of a prefill or of training; of a request, those that run as often
    as the first."""
    once = np.full(workload.n_operators, float(workload.kind in ("prefill", "request", "training")))
    if workload.kind == "request" and workload.repeats is not None:
        once[(workload.repeats != workload.repeats[0]).any(axis=1)] = 0.0
    return once


@memoize(large=True)
def demand(workload: Workload, batch: int, widths: Widths, execution: str) -> Demand:
    """Return the demand of the workload at one batch and widths of its tensors. The last few results are cached."""
    result = _evaluate(workload, batch, widths, execution)
    vars(result).update(_batch_independent(workload, execution))
    return result


@memoize()
def equal_kernels(workload: Workload, execution: str) -> Ints:
    """Return the first kernel that equals each, (k,): at any batch and widths, since it does so at an odd batch with a
    width for each role. The `lag` counts only where hardware lays out models."""
    widths = Widths(3.0, 4.0, 5.0, 6.0, 7.0, 8.0, tuple(range(9, 9 + len(FILE_ROLES))), 1.0, 2.0)
    asked = _evaluate(workload, 997, widths, execution)
    moves, sizes = asked.transfers, [np.bincount(asked.transfers.op, minlength=asked.n)]
    for record in (asked, asked.calls):
        fields = [getattr(record, name) for name in record.__struct_fields__ if name not in ("kernel", "lag")]
        sizes += [each for each in fields if isinstance(each, np.ndarray) and each.shape[-1] == asked.n]
    operators, kernels = [row.tobytes() for row in np.vstack(sizes).T], [b""] * asked.n_kernels
    rows = np.array((moves.size_bytes, moves.role, moves.distance, moves.previous < 0)).T
    for i, row in zip(moves.op.tolist(), rows, strict=True):
        operators[i] += row.tobytes()
    for k, operator in zip(asked.kernel.tolist(), operators, strict=True):
        kernels[k] += operator
    first = dict[bytes, int]()
    return np.array([first.setdefault(kernel, k) for k, kernel in enumerate(kernels)], dtype=np.int32)


@memoize(shared=True)
def _batch_independent(workload: Workload, execution: str) -> dict[str, Any]:
    """Return the attributes that all demands of these operators share. Equal polynomials are equal shapes."""
    ops, n = workload.operators, workload.n_operators
    kinds = (
        facts.op_classes(workload),
        facts.windows(workload)[6],
        facts.right_roles(workload),
        facts.fixed_weight_bytes(workload),
    )
    polynomials = np.column_stack([ops.gemm.reshape(n, -1), ops.macs, *kinds])
    shapes = distinct_shapes(polynomials.T, (ops.gemm[:, 0] != 0).any(axis=1))
    return _evaluate(workload, 1, uniform(1.0), execution).batch_independent | {"shapes": shapes}


def _evaluate(workload: Workload, batch: int, widths: Widths, execution: str) -> Demand:
    ops, s = workload.operators, structure(workload, execution)
    point, n, attended = workload.value_at(batch=batch), workload.n_operators, -(-batch // workload.attention_copies)
    moves, moved = s.moves, s.moves.size_bytes(point, widths)
    inside = s.inside.size_bytes(point, widths)
    activations = np.bincount(moves.kernel, np.where(moves.is_weight, 0.0, moved), minlength=s.n_kernels)
    macs, elements = ops.macs @ point, s.elements @ point
    gemm, shape = (ops.gemm.reshape(4 * n, len(point)) @ point).reshape(n, 4).T.copy(), facts.windows(workload)
    return Demand(
        op_class=s.op_class,
        kernel=s.kernel,
        head=s.head,
        n_kernels=s.n_kernels,
        macs=macs,
        vector_flops=np.maximum(ops.flops @ point - 2.0 * macs, 0.0),
        special=ops.special @ point,
        elements=elements,
        gemm=gemm,
        local_bytes=np.bincount(s.inside.op, inside, minlength=n).astype(np.float64, copy=False),
        weight_bytes=np.full(n, float(s.weights.size_bytes(point, widths).sum())),
        largest_bytes=np.full(n, activations.max(initial=0.0)),
        element_bytes=widths.activations,
        transfers=Transfers(
            op=moves.op, size_bytes=moved, role=moves.role, distance=_distances(s, moved), previous=moves.previous
        ),
        calls=Calls(
            begins=s.begins,
            sequences=s.begins * attended,
            prompts=s.prompts,
            interpreted=s.prompts * facts.is_interpreted(workload),
            dispatched=s.dispatched,
            parts=s.parts,
        ),
        links=facts.collective_links(workload, _exchanged_bytes(workload, moves, moved, elements * widths.activations)),
        right_bytes=np.maximum(
            np.array(widths.by_role)[facts.right_roles(workload)], facts.fixed_weight_bytes(workload)
        ),
        unpack_ops=_unpack_ops(moves, point, widths, n),
        model=np.zeros(s.n_kernels, dtype=np.intp),
        batch=np.full(n, attended),
        lag=facts.row_lags(workload),
        training_devices=workload.training.settings.devices if workload.training else 0,
        windows=shape[:6],
        patches=gemm[1] * shape[6],
        is_expert=facts.is_expert(workload),
        mean_work=facts.mean_work(workload, batch, s.prompts),
        expert_rows=facts.expert_rows(workload, batch, s.prompts),
    )


def _exchanged_bytes(workload: Workload, moves: Moves, moved: Floats, result_bytes: Floats) -> Floats:
    """Return the bytes of the whole of what collectives gather or sum; in training values have several widths."""
    if workload.training is None:
        return result_bytes
    is_write, n = moves.role == WRITE, workload.n_operators
    read, written = (np.bincount(moves.op, np.where(which, moved, 0.0), n) for which in (~is_write, is_write))
    return np.maximum(read, written)


def _distances(s: Structure, moved: Floats) -> Floats:
    """Return the bytes that other traffic moves between two uses of the data of each transfer, (t,)."""
    moves = s.moves
    each = np.bincount(moves.kernel, moved, minlength=s.n_kernels)
    until = np.concatenate([[0.0], each.cumsum()])
    first, last = moves.between
    distance, total = until[last] - until[first], until[-1]
    if s.times is not None:  # merged layers move data each time they run, except between two uses inside them
        passed = np.concatenate([[0.0], np.cumsum(each * s.times)])
        is_once = (s.times[moves.kernel] == 1) & (s.times[moves.previous] == 1)
        distance, total = np.where(is_once, passed[last] - passed[first], distance), passed[-1]
        total = np.where(moves.kernel < s.body, until[s.body], total)
    distance = np.where(moves.wraps, total - distance, distance)
    return np.where(moves.previous < 0, np.inf, np.maximum(distance, 0.0))


def _unpack_ops(moves: Moves, point: Floats, widths: Widths, n: int) -> Floats | None:
    """Return the operations that each operator spends on unpacking weights and cache; None if nothing is packed."""
    if not (widths.unpack_weights or widths.unpack_cache):
        return None
    each = np.zeros(len(widths.by_role))
    each[[QUANTIZED, CACHE]] = widths.unpack_weights, widths.unpack_cache
    each[[role for (part, _), role in FILE_ROLES.items() if part not in TABLES]] = widths.unpack_weights
    for role in (EXCLUDED, IN_8_BITS):
        each[role] = widths.unpack_weights * (widths.by_role[role] == widths.weights)
    is_fixed = (moves.fixed_bytes > 0) | (moves.role == WRITE)
    operations = np.where(is_fixed, 0.0, (moves.numel @ point) * each[moves.precision_role])
    return np.bincount(moves.op, operations, minlength=n).astype(np.float64, copy=False)
