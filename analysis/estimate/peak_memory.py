"""Peak memory from the lifetimes of tensors over the execution order."""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.kernels import structure
from analysis.estimate.roles import Values, roles, select_values
from analysis.estimate.workspace import workspace
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, Floats, Ints, Workload
from hardware.memo import memoize
from hardware.precision import CACHE, Widths

_KEEP = 32  # settings that the bytes of a workload's weights are remembered for: those of a sweep


class Memory(msgspec.Struct, frozen=True):
    """Bytes. At operator `peak_at` the most is held: `peak_bytes` = weights + activations + workspace there.

    `timeline` (n,) is what activations hold while each operator runs, `workspace` (n,) what libraries take beside
    (zero where no rule is known): `peak_bytes - weight_bytes` is the maximum of their sum."""

    peak_bytes: float
    weight_bytes: float
    activation_peak_bytes: float
    workspace_peak_bytes: float
    peak_at: int
    timeline: Floats
    workspace: Floats


class Lifetimes(msgspec.Struct, frozen=True):
    """Per allocation (a tensor and all that share its storage), shape (a,): the kernels that it is first and last
    needed in, the largest tensor in it, which names it, and the values of that."""

    first: Ints
    last: Ints
    tensor: Ints
    values: Values


def peak_memory(workload: Workload, batch: int, widths: Widths, execution: str, block: float = 0.0) -> Memory:
    """Peak memory of one inference. What passes between the operators of a kernel takes none.

    `block`: channels side by side where the rule of workspace.py holds (`workspace.block_channels`), else 0."""
    kernel = structure(workload, execution).kernel
    lives = lifetimes(workload, execution)
    size = allocation_bytes(workload, lives, batch, widths)
    timeline = live_bytes(lives, size, int(kernel.max(initial=-1)) + 1)[kernel]
    scratch = workspace(workload, batch, widths.activations, block) if block else np.zeros(len(kernel))
    weights = weight_bytes(workload, batch, widths)
    if not len(kernel):
        return Memory(weights, weights, 0.0, 0.0, 0, timeline, scratch)
    at = int((timeline + scratch).argmax())
    held, taken = float(timeline[at]), float(scratch[at])
    return Memory(weights + held + taken, weights, held, taken, at, timeline, scratch)


@memoize(keep=_KEEP)
def weight_bytes(workload: Workload, batch: int, widths: Widths) -> float:
    """Return the bytes of weights and buffers, which stay for the whole run."""
    return float(_parameters(workload).size_bytes(workload.value_at(batch=batch), widths).sum())


@memoize(shared=True)
def _parameters(workload: Workload) -> Values:
    role = workload.tensors.role
    return select_values(workload, (role == WEIGHT) | (role == BUFFER))


def allocation_bytes(workload: Workload, lives: Lifetimes, batch: int, widths: Widths) -> Floats:
    """Bytes of each allocation, shape (a,)."""
    return lives.values.size_bytes(workload.value_at(batch=batch), widths)


def cache_bytes(workload: Workload, batch: int, widths: Widths) -> float:
    """The key-value cache after the step: what was there and what it adds. Part of the activations held. That of a
    request holds what its prompt adds."""
    which = roles(workload) == CACHE
    if workload.kind == "request":
        which &= workload.tensors.role == INPUT
    return float((workload.tensors.numel[which] @ workload.value_at(batch=batch)).sum() * widths.cache)


def live_bytes(lives: Lifetimes, size: Floats, n_kernels: int) -> Floats:
    """Return the bytes of allocations that live while each kernel runs, shape (k,)."""
    n = max(n_kernels, 1)
    change = np.bincount(lives.first, size, minlength=n + 1) - np.bincount(lives.last + 1, size, minlength=n + 1)
    held: Floats = np.cumsum(change)[:n_kernels]
    return held


@memoize(shared=True)
def lifetimes(workload: Workload, execution: str) -> Lifetimes:
    """When each allocation lives, computed once per workload and execution mode."""
    tensors, joined = workload.tensors, structure(workload, execution)
    last_touch: dict[int, int] = {}  # of each value that leaves its kernel
    for tensor, kernel_of in zip(joined.moves.tensor.tolist(), joined.moves.kernel.tolist(), strict=True):
        last_touch[tensor] = max(last_touch.get(tensor, 0), kernel_of)
    spans: dict[int, tuple[int, int, int]] = {}
    sizes = (tensors.numel @ workload.value_at(**dict.fromkeys(workload.dims, 2))).tolist()
    roles, producers, root = tensors.role.tolist(), tensors.producer.tolist(), storage_roots(tensors.storage)
    kernel = joined.kernel.tolist()
    for tensor, touched in sorted(last_touch.items()):
        if roles[tensor] in (WEIGHT, BUFFER):
            continue
        made_in = kernel[producers[tensor]] if producers[tensor] >= 0 else 0
        until = max(_last_needed_kernel(workload, joined.n_kernels, kernel, tensor, touched, execution), made_in)
        first, last, largest = spans.get(root[tensor], (made_in, until, tensor))
        largest = tensor if sizes[tensor] > sizes[largest] else largest
        spans[root[tensor]] = (min(first, made_in), max(last, until), largest)
    rows = np.array(list(spans.values()), dtype=np.int32).reshape(-1, 3)
    return Lifetimes(rows[:, 0], rows[:, 1], rows[:, 2], select_values(workload, rows[:, 2]))


def _last_needed_kernel(
    workload: Workload, n_kernels: int, kernel: list[int], t: int, touched: int, execution: str
) -> int:
    """The last kernel that a value must be kept for.

    Eager frees a value when the module that it was passed into returns; a compiled program after its last use.
    Inputs belong to the caller and outputs to whoever comes after, in both."""
    tensors = workload.tensors
    if tensors.is_output[t]:
        return n_kernels - 1
    if execution in ("eager", "apart") or tensors.role[t] == INPUT:
        return max(kernel[int(tensors.live_until[t])], touched)
    return touched


def storage_roots(storage: Ints) -> list[int]:
    """The tensor that owns each tensor's memory: an in-place result may overwrite an in-place result."""
    root: list[int] = storage.tolist()
    for t, base in enumerate(root):
        while root[base] != base:
            base = root[base]
        root[t] = base
    return root
