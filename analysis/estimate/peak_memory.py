"""Peak memory from the lifetimes of tensors over the execution order, with the scratch memory of libraries.

A rule of scratch memory is known for PyTorch eager on CPU, fp32: oneDNN reorders operands of convolutions into blocked
layouts and the result back, and max pooling keeps the positions of its maxima. It was read off the profiler's allocator
events (torch 2.13, AVX-512): of 31 torchvision models at batch 1, 4 and 8, 24 are within 0.1 % and all within 13 %;
test_report_memory_measured.py repeats twelve. Without a rule none is counted, and reports say so.
"""

import msgspec
import numpy as np

from analysis.estimate.kernels import structure
from analysis.estimate.operator_facts import Values, roles, select_values
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, Floats, Ints, Workload
from hardware.base.records import memoize
from hardware.device import Device
from hardware.precision import CACHE, Widths

SOURCE = (
    "oneDNN reorders into blocks of channels: max(input unless it is an image of up to 3 channels, plus weights; "
    "output); max pooling: int64 positions; read off PyTorch's allocator events on CPU"
)
NO_RULE = "libraries choose it layer by layer and publish no rule"  # why no scratch memory is counted
ADVISED = "; cuBLAS advises 32 MiB on Hopper, 4 MiB on other GPUs (its reference, cublasSetWorkspace)"
_INDEX_BYTES = 8  # int64, whatever the precision
_PLAIN_CHANNELS = 3  # oneDNN reads an image of so few channels as it is
_REORDERED = ("conv", "depthwise_conv", "conv_transpose")


class _Sizes(msgspec.Struct, frozen=True):
    """Elements as coefficients, each (n, m); zero for an operator that takes none."""

    reordered: Floats
    weights: Floats
    output: Floats
    positions: Floats


def block_channels(device: Device, execution: str) -> float:
    """Return the channels per block of a blocked layout, where a partial block takes the memory of a whole one. Return
    0 if the rule does not apply (it does for eager execution on a CPU)."""
    return device.channel_block if device.arch.is_host and execution == "eager" else 0.0


def workspace(workload: Workload, batch: int, element_bytes: float, block: float) -> Floats:
    """Return the scratch bytes of each operator while it runs, shape (n,), under PyTorch eager on a CPU that lays
    `block` channels side by side."""
    sizes, point = _sizes(workload, block), workload.value_at(batch=batch)
    operands = (sizes.reordered + sizes.weights) @ point
    scratch: Floats = np.maximum(operands, sizes.output @ point) * element_bytes
    scratch += sizes.positions @ point * _INDEX_BYTES
    if workload.scratch is not None:
        scratch += workload.scratch @ point * element_bytes
    return scratch


@memoize(shared=True)
def _sizes(workload: Workload, block: float) -> _Sizes:
    ops, tensors = workload.operators, workload.tensors
    once = workload.value_at(**dict.fromkeys(workload.dims, 1))
    reordered, weights, output, positions = (np.zeros((workload.n_operators, len(workload.monomials))) for _ in "iwop")
    plain = tuple(range(_PLAIN_CHANNELS + 1))
    is_image = all(len(spec.shape) == 4 and spec.shape[1] in plain for spec in workload.inputs)
    for i, kind in enumerate(ops.kind):
        result = tensors.numel[ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]].sum(axis=0)
        if kind == "max_pool":
            positions[i] = result
        if kind not in _REORDERED:
            continue
        groups, _, columns, _ = ops.gemm[i] @ once
        output[i] = result * _padding(groups * columns, block)
        if kind == "conv_transpose" and groups == 1:
            output[i] += result  # its result is channels last, and is copied once more
        padding = _padding(groups, block) if kind == "depthwise_conv" else 1.0
        for e in range(ops.in_ptr[i], ops.in_ptr[i + 1]):
            t = ops.in_tensor[e]
            if tensors.role[t] == WEIGHT:
                weights[i] += ops.in_numel[e]
            elif not (is_image and tensors.role[t] == INPUT):
                reordered[i] += ops.in_numel[e] * padding
    return _Sizes(reordered, weights, output, positions)


def _padding(channels: float, block: float) -> float:
    """Return the bytes of a blocked layout over the bytes of the values in it."""
    return float(np.ceil(channels / block) * block / channels) if channels > 0 else 1.0


class Memory(msgspec.Struct, frozen=True):
    """Bytes. The peak is at operator `peak_at`: `peak_bytes` = weights + activations + workspace there.

    `timeline` (n,) is the bytes of activations while each operator runs, `workspace` (n,) the scratch memory of
    libraries (zero without a rule): `peak_bytes - weight_bytes` is the maximum of their sum."""

    peak_bytes: float
    weight_bytes: float
    activation_peak_bytes: float
    workspace_peak_bytes: float
    peak_at: int
    timeline: Floats
    workspace: Floats

    def largest_batch(self, batch: int, room: float) -> int:
        """Return how many inferences fit into `room` bytes, with this memory of a batch: weights stay, the rest of the
        peak (caches, activations) grows with the batch."""
        each = (self.peak_bytes - self.weight_bytes) / batch
        return max(int((room - self.weight_bytes) / each), 0) if each > 0 else 0


class Lifetimes(msgspec.Struct, frozen=True):
    """Allocations, shape (a,): each is a tensor and all that share its storage. `first` and `last` are the kernels that
    need it first and last; `tensor` is its largest tensor, which names it; `values` describes that tensor."""

    first: Ints
    last: Ints
    tensor: Ints
    values: Values


def peak_memory(workload: Workload, batch: int, widths: Widths, execution: str, block: float = 0.0) -> Memory:
    """Return the peak memory of one batch. Values between the operators of a kernel take none.

    `block`: channels side by side where the rule of scratch memory applies (`block_channels`), else 0."""
    kernel = structure(workload, execution).kernel
    lives = lifetimes(workload, execution)
    size = allocation_bytes(workload, lives, batch, widths)
    after = int(kernel.max(initial=0)) + 2
    change = np.bincount(lives.first, size, minlength=after) - np.bincount(lives.last + 1, size, minlength=after)
    timeline = change.cumsum()[kernel]
    scratch = workspace(workload, batch, widths.activations, block) if block else np.zeros(len(kernel))
    weights = weight_bytes(workload, batch, widths)
    if not len(kernel):
        return Memory(weights, weights, 0.0, 0.0, 0, timeline, scratch)
    at = int((timeline + scratch).argmax())
    held, taken = float(timeline[at]), float(scratch[at])
    return Memory(weights + held + taken, weights, held, taken, at, timeline, scratch)


@memoize(keep=32)  # settings: as many as a sweep has
def weight_bytes(workload: Workload, batch: int, widths: Widths) -> float:
    """Return the bytes of weights and buffers, which stay for the whole run."""
    return float(_parameters(workload).size_bytes(workload.value_at(batch=batch), widths).sum())


@memoize(shared=True)
def _parameters(workload: Workload) -> Values:
    role = workload.tensors.role
    return select_values(workload, (role == WEIGHT) | (role == BUFFER))


def allocation_bytes(workload: Workload, lives: Lifetimes, batch: int, widths: Widths) -> Floats:
    """Return the bytes of each allocation, shape (a,)."""
    return lives.values.size_bytes(workload.value_at(batch=batch), widths)


def cache_bytes(workload: Workload, batch: int, widths: Widths) -> float:
    """Return the bytes of the key-value cache after the step: its content before, and what the step adds. It is part of
    the activations. In a request only input caches count: they have room for the whole request."""
    which = roles(workload) == CACHE
    if workload.kind == "request":
        which &= workload.tensors.role == INPUT
    return float(select_values(workload, which).size_bytes(workload.value_at(batch=batch), widths).sum())


@memoize(shared=True)
def lifetimes(workload: Workload, execution: str) -> Lifetimes:
    """Return when each allocation is live, computed once per workload and execution mode."""
    tensors, joined = workload.tensors, structure(workload, execution)
    last_touch: dict[int, int] = {}  # the last kernel to touch each value that leaves its own
    for tensor, kernel_of in zip(joined.moves.tensor.tolist(), joined.moves.kernel.tolist(), strict=True):
        last_touch[tensor] = max(last_touch.get(tensor, 0), kernel_of)
    spans: dict[int, tuple[int, int, int]] = {}
    sizes = (tensors.numel @ workload.value_at(**dict.fromkeys(workload.dims, 2))).tolist()
    role_of, producers, root = tensors.role.tolist(), tensors.producer.tolist(), storage_roots(tensors.storage)
    kernel = joined.kernel.tolist()
    for tensor, touched in sorted(last_touch.items()):
        if role_of[root[tensor]] in (WEIGHT, BUFFER):  # of a weight, or written in its place
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
    """Return the last kernel that needs a value.

    Eager execution frees a value when the module that received it returns; a compiled program frees it after its last
    use. In both, inputs and outputs stay until the end, because the caller holds them."""
    tensors = workload.tensors
    if tensors.is_output[t]:
        return n_kernels - 1
    if execution in ("eager", "apart", "split", "modules", "awaited") or tensors.role[t] == INPUT:
        return max(kernel[int(tensors.live_until[t])], touched)
    return touched


def storage_roots(storage: Ints) -> list[int]:
    """Return the tensor that owns each tensor's memory: an in-place result may overwrite an in-place result."""
    while not np.array_equal(storage, storage[storage]):
        storage = storage[storage]
    return storage.tolist()  # type: ignore[no-any-return]
