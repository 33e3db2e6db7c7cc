"""The operators and tensors of a training step while it is written: amounts are coefficients over the monomials of the
forward pass."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from analysis.model.ir import workload as ir
from analysis.model.ir.workload import ACTIVATION, Floats, Workload

FP32, INDEX = 4, 8  # bytes


class StepTensor(msgspec.Struct):
    """A tensor that is written. `numel` (m,) are coefficients; `last` is the last operator that reads it."""

    name: str
    numel: Floats
    role: int = ACTIVATION
    fixed: int = 0
    storage: int = -1
    shape: tuple[int | str, ...] = ()
    dtype: str = "float32"
    producer: int = -1
    last: int = 0

    @property
    def is_float(self) -> bool:
        """True if it may have a gradient."""
        return self.dtype.startswith(("float", "bfloat"))


class Op(msgspec.Struct, kw_only=True):
    """An operator that is written: amounts are coefficients, (m,) and (4, m)."""

    path: str
    kind: str
    target: str = ""
    module_type: str = ""
    macs: Floats
    flops: Floats
    special: Floats
    gemm: Floats
    reads: list[tuple[int, Floats]]
    writes: list[int]
    has_rule: bool = True


class Tape:
    """The operators and tensors written so far; tensors of the forward pass keep their numbers."""

    def __init__(self, forward: Workload, parts: int = 1) -> None:
        ops, tensors, self.forward = forward.operators, forward.tensors, forward
        self.zero, self.one = np.zeros((2, len(forward.monomials)))
        self.one[forward.monomials.index((0,) * len(forward.dims))] = 1.0
        self.at_two = forward.value_at(**dict.fromkeys(forward.dims, 2) | {"batch": 2 * parts})
        shapes, dtypes = tensors.shape or [()] * len(tensors.name), tensors.dtype or ["float32"] * len(tensors.name)
        columns = (tensors.name, tensors.numel, tensors.role.tolist(), tensors.fixed_bytes.tolist())
        self.tensors = [
            StepTensor(*row) for row in zip(*columns, tensors.storage.tolist(), shapes, dtypes, strict=True)
        ]
        self.ops: list[Op] = []
        ins, outs, reads, writes = (x.tolist() for x in (ops.in_ptr, ops.out_ptr, ops.in_tensor, ops.out_tensor))
        self.reads: list[dict[int, Floats]] = [
            dict(zip(reads[a:b], ops.in_numel[a:b], strict=True)) for a, b in pairwise(ins)
        ]
        self.writes: list[list[int]] = [writes[a:b] for a, b in pairwise(outs)]

    def forward_op(self, i: int, path: str, reads: dict[int, Floats], writes: list[int]) -> None:
        """Add operator i of the forward pass, with these tensors."""
        ops, names = self.forward.operators, ("kind", "target", "module_type", "macs", "flops", "special", "gemm")
        values = {name: getattr(ops, name)[i] for name in names}
        self.append(Op(path=path, reads=list(reads.items()), writes=writes, has_rule=bool(ops.has_rule[i]), **values))

    def tensor(self, numel: Floats, name: str, fixed: int = 0, storage: int = -1, role: int = ACTIVATION) -> int:
        """Add a tensor; one with a `storage` overwrites another."""
        index = len(self.tensors)
        root = index if storage < 0 else self.tensors[storage].storage
        self.tensors.append(StepTensor(name, numel, role, fixed, root))
        return index

    def add(self, path: str, kind: str, reads: Sequence[int], writes: Sequence[int], **amounts: Any) -> int:
        """Add an operator that reads whole tensors. Return its first result."""
        values = dict.fromkeys(("macs", "flops", "special"), self.zero) | {"gemm": np.zeros((4, len(self.zero)))}
        pairs = [(t, self.tensors[t].numel) for t in dict.fromkeys(reads)]
        target = {"target": f"hwexplorer.{kind}.default"}
        self.append(Op(path=path, kind=kind, **(target | values | amounts), reads=pairs, writes=list(writes)))
        return writes[0]

    def append(self, op: Op) -> None:
        """Add an operator."""
        for t in op.writes:
            self.tensors[t].producer = self.tensors[t].last = len(self.ops)
        for t, _ in op.reads:
            self.tensors[t].last = len(self.ops)
        self.ops.append(op)

    def cast(self, t: int, path: str, fixed: int) -> int:
        """Write a conversion to another width."""
        numel = self.tensors[t].numel
        return self.add(
            path, "cast", [t], [self.tensor(numel, path, fixed)], flops=numel, target="aten._to_copy.default"
        )

    def size(self, amount: Floats) -> float:
        """Return an amount where all dimensions are 2."""
        return float(amount @ self.at_two)

    def is_less(self, amount: Floats, other: Floats) -> bool:
        """Return True if an amount is less than another, beyond rounding."""
        return self.size(amount) < 0.999 * self.size(other)

    def workload(self, forward: Workload, held: Iterable[int], is_output: bool = False) -> Workload:
        """Return all that was written; the tensors that are `held`, and may be outputs, stay to the end as weights."""
        ops, tensors, n = self.ops, self.tensors, len(self.ops)
        in_ptr, in_tensor = ir.csr([[t for t, _ in op.reads] for op in ops])
        out_ptr, out_tensor = ir.csr([op.writes for op in ops])
        amounts, stay = ("macs", "flops", "special", "gemm"), set(held)
        for t, each in enumerate(tensors):
            each.last = n - 1 if each.role != ACTIVATION or t in stay else each.last
        operators = ir.Operators(
            path=_unique([op.path for op in ops]),
            kind=tuple(op.kind for op in ops),
            target=tuple(op.target for op in ops),
            module_type=tuple(op.module_type for op in ops),
            **{name: np.array([getattr(op, name) for op in ops]) for name in amounts},
            in_ptr=in_ptr,
            in_tensor=in_tensor,
            in_numel=np.array([amount for op in ops for _, amount in op.reads]).reshape(-1, len(self.zero)),
            out_ptr=out_ptr,
            out_tensor=out_tensor,
            has_rule=np.array([op.has_rule for op in ops], dtype=np.bool_),
        )
        columns = {
            name: np.array([getattr(each, name) for each in tensors], dtype=np.int32)
            for name in ("role", "storage", "producer")
        }
        return msgspec.structs.replace(
            forward,
            operators=operators,
            tensors=ir.Tensors(
                name=tuple(each.name for each in tensors),
                numel=np.array([each.numel for each in tensors]),
                fixed_bytes=np.array([each.fixed for each in tensors], dtype=np.int32),
                live_until=np.array([each.last for each in tensors], dtype=np.int32),
                is_output=np.isin(np.arange(len(tensors)), list(stay)) & is_output,
                shape=tuple(each.shape for each in tensors),
                dtype=tuple(each.dtype for each in tensors),
                **columns,
            ),
            scratch=None,
        )


def _unique(paths: list[str]) -> tuple[str, ...]:
    """Return paths of which no two are alike, the second `add` is `add~2`, and none is a block of others: `conv` beside
    `conv.cast` is `conv.conv`, so that each row of a tree has its own key."""
    blocks = {path[:place] for path in paths for place, letter in enumerate(path) if letter == "."}
    seen: dict[str, int] = {}
    unique = []
    for path in (f"{path}.{path.rpartition('.')[2]}" if path in blocks else path for path in paths):
        seen[path] = seen.get(path, 0) + 1
        unique.append(path if seen[path] == 1 else f"{path}~{seen[path]}")
    return tuple(unique)


def with_scores(forward: Workload) -> Workload:
    """Return a forward pass as PyTorch trains models that drop values. Attention lays out heads in rows, stores all
    scores, scales and masks them, takes their softmax, drops some, and lays out the result; what a residual sum adds is
    dropped too (transformers, BertSelfAttention and BertSelfOutput)."""
    ops, tape = forward.operators, Tape(forward)
    laid_out = {t for kind, reads in zip(ops.kind, tape.reads, strict=True) if kind == "copy" for t in reads}

    def write(kind: str, target: str, t: int, path: str, size: Floats, **amounts: Any) -> int:
        """Write an operator that reads so many elements of one tensor."""
        result = tape.add(path, kind, [t], [tape.tensor(size, path)], target=f"aten.{target}", **amounts)
        tape.ops[-1].reads = [(t, size)]
        return result

    def drop(t: int, path: str) -> int:
        """Write a dropout, which keeps a mask."""
        size = tape.tensors[t].numel
        kept, mask = tape.tensor(size, path), tape.tensor(size, f"{path}.mask", 1)
        tape.tensors[mask].dtype = "bool"
        return tape.add(path, "elementwise", [t], [kept, mask], flops=size * 2.0, target="aten.native_dropout")

    for i, (path, reads, writes) in enumerate(zip(ops.path, tape.reads, tape.writes, strict=True)):
        if ops.kind[i] == "add" and path.endswith("_residual"):
            latest = max(reads, key=lambda t: tape.tensors[t].producer)
            reads = {drop(t, f"{path}.dropout") if t == latest else t: amount for t, amount in reads.items()}
        if ops.kind[i] != "attention" or len(reads) not in (1, 3):
            tape.forward_op(i, path, reads, writes)
            continue
        scores, parts = ops.special[i], 3 // len(reads)  # one tensor may hold all
        query, key, value = (
            write("copy", "clone.default", t, f"{path}.{name}", tape.tensors[t].numel / parts)
            for name, t in zip("qkv", list(reads) * parts, strict=True)
        )
        half = {"macs": ops.macs[i] / 2.0, "flops": ops.macs[i], "target": "aten.matmul.default"}
        raw, mixed = tape.tensor(scores, f"{path}.scores"), writes[0]
        tape.add(f"{path}.scores", "matmul", [query, key], [raw], gemm=ops.gemm[i], **half)
        scaled = write("elementwise", "div.Tensor", raw, f"{path}.scaled", scores, flops=scores)
        masked = write("add", "add.Tensor", scaled, f"{path}.masked", scores, flops=scores)
        shares = write("softmax", "softmax.int", masked, f"{path}.softmax", scores, flops=scores * 5.0, special=scores)
        if mixed not in laid_out:
            mixed = tape.tensor(tape.tensors[mixed].numel, f"{path}.mixed")
        kept = drop(shares, f"{path}.dropout")
        tape.add(f"{path}.mixed", "matmul", [kept, value], [mixed], gemm=ops.gemm[i][[0, 1, 3, 2]], **half)
        if mixed != writes[0]:
            tape.add(path, "copy", [mixed], writes, target="aten.clone.default")
    outputs = np.flatnonzero(forward.tensors.is_output)
    return tape.workload(forward, outputs.tolist(), is_output=True)
