"""The demand of operators on a device, as arrays; a mapping sees nothing else of a model."""

import math
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

Scalar = TypeVar("Scalar", bound=np.generic)
NDArray = np.ndarray[tuple[Any, ...], np.dtype[Scalar]]  # without numpy.typing, which takes a fortieth of the start
Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Record = TypeVar("Record", bound=msgspec.Struct)


class OpClass(IntEnum):
    """The classes of operators that hardware tells apart. A mapping has one efficiency per class and architecture."""

    GEMM = 0  # linear layers and matrix products
    CONV = 1  # dense and grouped convolutions, as implicit GEMM
    DEPTHWISE = 2  # convolutions with one or few channels per group: no reduction over channels
    ATTENTION = 3  # fused scaled-dot-product attention
    ELEMENTWISE = 4  # activations, adds, casts, bias
    NORM = 5  # batch normalisation: a scale and a shift per channel
    SOFTMAX = 6
    REDUCTION = 7  # mean, sum, max over axes
    POOL = 8
    MOVEMENT = 9  # copies, concatenation, padding, transposes that move data
    GATHER = 10  # embedding, indexing, scatter, resampling, sorting
    OTHER = 11  # no rule: bytes only
    ROW_NORM = 12  # layer and group normalisation: statistics over a row before the first result
    FACTOR = 13  # LU, Cholesky, triangular solves: each column depends on the one before


READ, READ_WEIGHT, WRITE = range(3)


class Transfers(msgspec.Struct, frozen=True, kw_only=True):
    """The t transfers between operators and off-kernel memory, (t,) each."""

    op: Ints  # the operator
    size_bytes: Floats
    role: Ints  # READ, READ_WEIGHT or WRITE
    distance: Floats  # bytes of other traffic since the data was last touched; inf: never on chip, or it must leave
    previous: Ints  # the kernel that touched the data before; of a write, the last that reads it; -1 for none


class Calls(msgspec.Struct, frozen=True):
    """The calls of a runtime, (n,) each."""

    begins: Floats  # 1 where a call of the model begins
    sequences: Floats  # the batch there
    prompts: Floats  # 1 for operators that read the prompt of a language model
    interpreted: Floats  # 1 for those of them that an engine starts from an interpreter
    # 0 for operators that the call of another one starts, as the bias of a convolution; the number of parts for one
    # that the host starts in parts after it has waited for the device; else 1
    dispatched: Floats
    parts: Floats  # kernels of an operator in parts, else 1


class KernelStarts(NamedTuple):
    """The starts of kernels, (k,) each: sums of Calls over the operators of a kernel."""

    is_light: NDArray[np.bool_]  # it only moves or computes element by element
    begins: Floats
    sequences: Floats
    dispatched: Floats
    prompts: Floats
    interpreted: Floats
    parts: Floats


class Demand(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The work that n operators in k kernels ask of a device.

    Shapes are (n,) and units those of the name (FLOP, operations and elements are counts) where a field says no more.
    """

    op_class: Ints  # an OpClass
    kernel: Ints  # the kernel of the operator, from 0 to k - 1
    head: NDArray[np.bool_]  # the kernel was started for this operator: launch and result belong to it
    n_kernels: int  # k
    macs: Floats  # multiply-adds
    vector_flops: Floats  # all other arithmetic, FLOP
    special: Floats  # exp, erf, roots and divisions among it
    elements: Floats  # written
    gemm: Floats  # (4, n): G, M, N, K of the contraction, G products of (M, K) by (K, N); zero elsewhere
    local_bytes: Floats  # exchanged within the kernel
    weight_bytes: Floats  # of the whole model that the operator belongs to
    element_bytes: float  # of an activation
    right_bytes: Floats | float  # of a value of a product's right operand; (n,) if sizes differ
    transfers: Transfers  # (t,): traffic between operators and memory
    calls: Calls  # (n,): what the host starts
    model: Ints  # (k,): the model of each kernel, for hardware that lays out many operators at once
    batch: Ints  # inferences of the model
    lag: Floats  # behind the inputs, as a fraction of the time between frames
    # (6, n): rows and columns of the result of a convolution, of its window, its stride, and the part under windows
    # that is not padding; ones for other contractions
    windows: Floats
    patches: Floats  # 4 x 4 patches of the results of dense 3 x 3 convolutions at stride 1, zero elsewhere
    is_expert: NDArray[np.bool_]  # products of experts, what is between them, and what moves their tokens
    training_devices: int = 0  # that share a step of training; 0 for other work
    links: Floats | None = (
        None  # (4, n): bytes, messages, speed of links (byte/s, 0: the device's), peers of an exchange
    )
    unpack_ops: Floats | None = None  # operations that unpack each stored value once
    product_rate: Floats | float = 1.0  # share of the rates of its tiles that software reaches
    largest_bytes: Floats | float = 0.0  # activations of the largest kernel of the model
    address_ops: Floats | float = 0.0  # integer operations beyond those of each value moved
    sectors: Floats | float = 0.0  # of memory that each value of a copy is read from alone, its neighbours being far
    mean_work: Floats | None = None  # of devices with experts of their own: mean work over that of the busiest
    expert_rows: Floats | None = None  # (3, n): experts of a device, rows of their tokens, rows of experts of others
    order: Ints | None = None  # (r,): kernels in the order in which they run, if equal ones are kept once

    @cached_property
    def n(self) -> int:
        """The number of operators."""
        return len(self.macs)

    @cached_property
    def is_convolution(self) -> NDArray[np.bool_]:
        """True where an operator is a convolution, (n,)."""
        is_image: NDArray[np.bool_] = (self.op_class == OpClass.CONV) | (self.op_class == OpClass.DEPTHWISE)
        return is_image

    @cached_property
    def is_depthwise(self) -> NDArray[np.bool_]:
        """True where an operator is a convolution without a reduction over channels, (n,)."""
        return np.equal(self.op_class, OpClass.DEPTHWISE)

    @cached_property
    def is_attention(self) -> NDArray[np.bool_]:
        """True where an operator is fused attention, (n,)."""
        return np.equal(self.op_class, OpClass.ATTENTION)

    @cached_property
    def is_factor(self) -> NDArray[np.bool_]:
        """True where an operator is a factorisation or a triangular solve, (n,)."""
        return np.equal(self.op_class, OpClass.FACTOR)

    @cached_property
    def vector_class(self) -> Ints:
        """The class of an operator's vector work, (n,): element-wise beside a product, else its own class."""
        is_product = (self.op_class <= OpClass.ATTENTION) & (self.op_class >= OpClass.GEMM)
        return np.where(is_product, OpClass.ELEMENTWISE, self.op_class)

    @cached_property
    def shapes(self) -> tuple[Ints, Ints]:
        """The distinct shapes of contractions: see `distinct_shapes`."""
        right = np.broadcast_to(self.right_bytes, self.n)
        return distinct_shapes(np.stack([*self.gemm, self.macs, self.op_class, self.patches, right]), self.gemm[0] > 0)

    @cached_property
    def transfers_by_role(self) -> tuple[tuple[Ints, Ints], ...]:
        """The indices of the transfers of each role, and their operators."""
        each = [np.flatnonzero(self.transfers.role == role) for role in (READ, READ_WEIGHT, WRITE)]
        return tuple((which, self.transfers.op[which]) for which in each)

    @property
    def batch_independent(self) -> dict[str, Any]:
        """Properties that hold for the same operators and transfers at any batch, for `with_values` to keep."""
        return {name: getattr(self, name) for name in (*_OF_OPERATORS, *_OF_TRANSFERS)}

    def with_values(self, **values: Any) -> "Demand":
        """Return the demand with other values. Operators keep their classes, shapes and cached properties."""
        names = _OF_OPERATORS if "transfers" in values else (*_OF_OPERATORS, *_OF_TRANSFERS, "moved_bytes")
        other = msgspec.structs.replace(self, **values)
        vars(other).update({name: vars(self)[name] for name in names if name in vars(self)})
        return other

    def with_transfers(self, **values: Any) -> "Demand":
        """Return the demand with other values of its transfers, which keep their operators."""
        other = self.with_values(transfers=msgspec.structs.replace(self.transfers, **values))
        names = _OF_TRANSFERS if "size_bytes" in values else (*_OF_TRANSFERS, "moved_bytes")
        vars(other).update({name: vars(self)[name] for name in names if name in vars(self)})
        return other

    @cached_property
    def moved_bytes(self) -> tuple[Floats, ...]:
        """Bytes that each operator moves in each role, (n,)."""
        return tuple([self.per_op(self.transfers.size_bytes, role) for role in (READ, READ_WEIGHT, WRITE)])

    @property
    def read_bytes(self) -> Floats:
        """Bytes that each operator reads, (n,)."""
        return self.moved_bytes[READ] + self.moved_bytes[READ_WEIGHT]

    @property
    def written_bytes(self) -> Floats:
        """Bytes that each operator writes, (n,)."""
        return self.moved_bytes[WRITE]

    @property
    def flops(self) -> Floats:
        """All arithmetic of each operator, shape (n,)."""
        return 2.0 * self.macs + self.vector_flops

    def without_repeats(self, equal: Ints) -> "Demand":
        """Return the demand with one kernel for all that are `equal`, (k,), to it."""
        is_kept, moves = np.zeros(self.n_kernels, dtype=np.bool_), self.transfers
        is_kept[equal] = True
        place = is_kept.cumsum() - 1
        order, taken, moved = place[equal], is_kept[self.kernel], is_kept[self.kernel[moves.op]]
        previous, operator = np.append(order, -1)[moves.previous[moved]], taken.cumsum() - 1
        moves = msgspec.structs.replace(_select(moves, moved), op=operator[moves.op[moved]], previous=previous)
        changed = {"kernel": place[self.kernel[taken]], "n_kernels": int(is_kept.sum()), "model": self.model[is_kept]}
        changed |= {"transfers": moves, "calls": _select(self.calls, taken), "order": order}
        return msgspec.structs.replace(_select(self, taken), **changed)

    def per_op(self, values: Floats, role: int | None = None) -> Floats:
        """Return the sum per operator of a per-transfer quantity, (n,), of one role or all."""
        if role is None:
            return _sums(self.transfers.op, values, self.n)
        which, ops = self.transfers_by_role[role]
        return _sums(ops, values[which], self.n)

    def per_kernel(self, values: Floats) -> Floats:
        """Return the sums per kernel, (..., k), of quantities per operator, (..., n)."""
        if self.n_kernels == self.n:
            return np.asarray(values, dtype=np.float64)
        if values.ndim == 1:
            return _sums(self.kernel, values, self.n_kernels)
        rows = math.prod(values.shape[:-1])
        place = (self.kernel + self.n_kernels * np.arange(rows)[:, None]).ravel()
        return _sums(place, values.ravel(), rows * self.n_kernels).reshape(*values.shape[:-1], self.n_kernels)

    @cached_property
    def starts(self) -> KernelStarts:
        """The starts of each kernel."""
        calls, works = self.calls, self.macs if self.links is None else self.macs + self.links[0]
        once = calls.dispatched, calls.prompts, calls.interpreted, calls.parts
        rows = works, calls.begins, calls.sequences, *(self.head * each for each in once)
        work, *host = self.per_kernel(np.array(rows))
        return KernelStarts(work == 0.0, *host)


def _sums(place: Ints, values: Floats, count: int) -> Floats:
    """Return the sums of values by their place, (count,)."""
    return np.asarray(np.bincount(place, values, count), dtype=np.float64)


def _select(record: Record, taken: Bools) -> Record:
    """Return a record with some of its columns."""
    columns = [(name, getattr(record, name)) for name in record.__struct_fields__]
    own = {name: each[..., taken] for name, each in columns if np.shape(each)[-1:] == taken.shape}
    return msgspec.structs.replace(record, **own)


_OF_OPERATORS = ("n", "is_convolution", "is_depthwise", "is_attention", "is_factor", "vector_class", "shapes")
_OF_TRANSFERS = ("transfers_by_role",)


def distinct_shapes(sizes: Floats, is_tiled: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return one operator of each distinct column of `sizes` (r, n), (u,), and each operator's shape number, (n,), from
    1 on; 0 for operators that are not tiled."""
    (taken,) = is_tiled.nonzero()
    sizes = sizes[:, taken]
    order = np.lexsort(sizes)
    sizes, is_new = sizes[:, order], np.ones(len(taken), dtype=np.bool_)
    is_new[1:] = (sizes[:, 1:] != sizes[:, :-1]).any(axis=0)
    shape_of = np.zeros(len(is_tiled), dtype=np.int64)
    shape_of[taken[order]] = is_new.cumsum()
    return taken[order[is_new]], shape_of
