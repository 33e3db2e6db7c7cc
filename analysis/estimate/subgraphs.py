"""Fusion: which operators form a subgraph, the unit that a compiler joins into one kernel.

The partition depends on the model alone. A contraction, or any operator without a producer to join, starts a subgraph;
an element-wise operator joins the one that made its input when nothing else reads that value. A row-wise reduction does
not join a contraction, whose tiles hold no complete rows.
"""

import msgspec
import numpy as np

from analysis.model.ir.operator_kinds import KINDS
from analysis.model.ir.workload import Floats, Ints, Workload
from hardware.base.records import memoize
from hardware.demand import OpClass

# Normalisations that need statistics over a row before the first result.
_ROW_WISE = ("softmax", "layer_norm", "group_norm", "norm")


class Partition(msgspec.Struct, frozen=True):
    """n operators in s subgraphs, numbered in execution order (the order of their last operators).

    `subgraph` (n,) is the subgraph of each operator; `members` are the operators of each subgraph in order; `head` (s,)
    is its first operator, which names it; `id` and `operator_id` are the paths in the tree; `kind` is the fusion
    pattern, e.g. "conv+batch_norm+relu".
    """

    subgraph: Ints
    members: tuple[tuple[int, ...], ...]
    head: Ints
    id: tuple[str, ...]
    operator_id: tuple[str, ...]
    kind: tuple[str, ...]

    def total(self, values: Floats) -> Floats:
        """Return the sums over the operators of each subgraph, shape (s,)."""
        return np.bincount(self.subgraph, values, minlength=len(self.id)).astype(np.float64)


@memoize(shared=True)
def partition(workload: Workload) -> Partition:
    """Return the fusion subgraphs of a workload, computed once."""
    return _number(workload, _group(workload))


def _group(workload: Workload) -> list[list[int]]:
    ops, tensors = workload.operators, workload.tensors
    in_ptr, in_tensor = ops.in_ptr.tolist(), ops.in_tensor.tolist()
    out_ptr, out_tensor = ops.out_ptr.tolist(), ops.out_tensor.tolist()
    producer = tensors.producer.tolist()
    numel = tensors.numel @ workload.value_at(**dict.fromkeys(workload.dims, 2))
    readers: dict[int, set[int]] = {}
    for i in range(len(ops.path)):
        for t in in_tensor[in_ptr[i] : in_ptr[i + 1]]:
            readers.setdefault(t, set()).add(i)
    outputs = set(np.flatnonzero(tensors.is_output).tolist())

    macs = (ops.macs @ workload.value_at(**dict.fromkeys(workload.dims, 2))).tolist()
    groups: list[list[int]] = []
    work: list[float] = []
    group_of: list[int] = []
    for i, kind in enumerate(ops.kind):
        target = -1
        if KINDS[kind].fuses == "epilogue":
            for t in in_tensor[in_ptr[i] : in_ptr[i + 1]]:
                p = producer[t]
                if p < 0 or readers[t] != {i} or t in outputs:
                    continue
                group = groups[group_of[p]]
                same_size = all(numel[o] == numel[t] for o in out_tensor[out_ptr[i] : out_ptr[i + 1]])
                # Where two branches meet, the one with more work takes the addition; if equal, the later one.
                if group[-1] == p and same_size and _accepts(group, kind, ops.kind):
                    target = max(target, group_of[p], key=lambda s: (work[s] if s >= 0 else -1.0, s))
        if target < 0:
            target = len(groups)
            groups.append([])
            work.append(0.0)
        groups[target].append(i)
        work[target] += macs[i]
        group_of.append(target)
    return groups


def _accepts(group: list[int], kind: str, kinds: tuple[str, ...]) -> bool:
    first = KINDS[kinds[group[0]]]
    if kind == "bias":
        return True
    if first.fuses == "alone":
        return False
    return not (kind in _ROW_WISE and any(KINDS[kinds[j]].fuses == "anchor" for j in group))


def _number(workload: Workload, groups: list[list[int]]) -> Partition:
    ops = workload.operators
    groups = sorted(groups, key=lambda group: group[-1])
    subgraph = np.zeros(len(ops.path), dtype=np.int32)
    ids, kinds = [], []
    operator_ids = [""] * len(ops.path)
    for s, group in enumerate(groups):
        subgraph[group] = s
        head = group[0]  # a contraction joins no group
        ids.append(ops.path[head])
        kinds.append("+".join(ops.kind[j] for j in group))
        for j in group:
            operator_ids[j] = f"{ops.path[head]}/{_leaf(ops.path[j], ops.path[head])}"
        if len({operator_ids[j] for j in group}) < len(group):
            for j in group:
                operator_ids[j] = f"{ops.path[head]}/{ops.path[j]}"
    return Partition(
        subgraph,
        tuple(tuple(group) for group in groups),
        np.array([group[0] for group in groups], dtype=np.int32),
        tuple(ids),
        tuple(operator_ids),
        tuple(kinds),
    )


def _leaf(path: str, head: str) -> str:
    """Return the name of an operator under its subgraph: the part of its path that differs from the head's module."""
    parent = head.rpartition(".")[0]
    return path[len(parent) + 1 :] if parent and path.startswith(parent + ".") else path


def op_classes(workload: Workload) -> Ints:
    """Return the hardware class of every operator, shape (n,); OTHER without a cost rule."""
    ops = workload.operators
    ruled = zip(ops.kind, ops.has_rule.tolist(), strict=True)
    classes = [KINDS[kind].op_class if has_rule else OpClass.OTHER for kind, has_rule in ruled]
    return np.array(classes, dtype=np.intp)
