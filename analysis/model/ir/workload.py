"""A captured model as plain data: operators of known kinds, tensors and the edges between them.

Every size is a polynomial in the *symbolic dimensions* (the batch; for language models also lengths). `monomials` has a
row per monomial and a column per dimension: `[[0], [1]]` is "constant, batch". A quantity is a row of coefficients. Its
value at a point is one dot product, so one capture serves every batch.

Its coverage is the share of bytes moved and of FLOPs with a cost rule (FLOPs without a rule are bounded). Its notes
state for which batches it has figures: all, one, or up to a maximum. `decode` checks untrusted bytes: a valid workload
gives finite, non-negative figures.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.model import request_bounds
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import memoize, share_memos
from hardware.base.text import percent
from hardware.demand import NDArray, OpClass


class OperatorKind(msgspec.Struct, frozen=True):
    """`op_class` is its class in a demand on hardware. `fuses`: 'anchor', 'epilogue' or 'alone' in a subgraph."""

    op_class: OpClass
    fuses: str


_KINDS = (
    ("anchor", OpClass.CONV, "conv conv_transpose deform_conv"),
    ("anchor", OpClass.DEPTHWISE, "depthwise_conv"),
    ("anchor", OpClass.GEMM, "linear matmul recurrent"),
    ("anchor", OpClass.ATTENTION, "attention"),
    ("epilogue", OpClass.ELEMENTWISE, "bias relu relu6 gelu silu sigmoid tanh hardswish hardsigmoid exp rsqrt pow"),
    ("epilogue", OpClass.ELEMENTWISE, "add sub mul div where compare clamp cast elementwise"),
    ("epilogue", OpClass.NORM, "batch_norm"),
    ("epilogue", OpClass.ROW_NORM, "layer_norm group_norm norm"),
    ("epilogue", OpClass.SOFTMAX, "softmax"),
    ("alone", OpClass.REDUCTION, "mean reduce"),
    ("alone", OpClass.POOL, "max_pool avg_pool"),
    ("alone", OpClass.MOVEMENT, "copy cat pad roll fill all_reduce all_gather all_to_all"),
    ("alone", OpClass.GATHER, "gather scatter embedding resample sort roi_align"),
    ("alone", OpClass.FACTOR, "lu cholesky solve"),
    ("alone", OpClass.OTHER, "fft linalg custom unknown"),
)
KINDS = {name: OperatorKind(op_class, fuses) for fuses, op_class, names in _KINDS for name in names.split()}


DECODING = "_decoding"
EXPERTS, EXPERT_ROWS = "experts", "expert_rows"
_CLASSES = [step / 2.0 for step in range(-6, 7)]  # standard deviations of expert log-odds
_SHARES = [math.exp(-z * z / 2.0) for z in _CLASSES]
SHARE = "share"  # sequences of the batch for which one of several devices computes attention


class Routing(msgspec.Struct, frozen=True):
    """The routing of tokens: each chooses `active` of `experts` independently; each of `devices` holds an equal number
    of experts. Popularity differs: the log-odds of a choice have the standard deviation `spread` over experts. A batch
    runs in `parts`, one after the other."""

    experts: int
    active: int
    devices: int = 1
    spread: float = 0.0
    parts: int = 1

    def mean_load(self, tokens: float) -> float:
        """Return the ratio of experts read by the average device to those read by the busiest."""
        read = msgspec.structs.replace(self, devices=1).expert_load(tokens)[0] / self.devices
        return read / (self.expert_load(tokens)[0] or 1.0)

    def expert_load(self, tokens: float) -> tuple[float, float]:
        """Return the mean number of distinct experts that `tokens` touch, and the tokens at each. For D > 1 devices
        both are of the busiest: its number of choices is sqrt(2 ln D) standard deviations above the mean m of all
        devices. The variance is m for chance plus a term for the popularity of its experts."""
        return _expert_load(self, tokens)


@lru_cache(4096)
def _expert_load(routing: Routing, tokens: float) -> tuple[float, float]:
    experts, active, devices = routing.experts, routing.active, routing.devices
    chances = popularity(experts, active, routing.spread)
    here, mean, times = experts / devices, tokens * active / devices, tokens
    if devices > 1 and tokens:
        square = sum(share * chance**2 for share, chance in chances) * (experts / active) ** 2
        variance = mean + mean**2 * max(square - 1.0, 0.0) / here
        busiest = mean + math.sqrt(2.0 * math.log(devices) * variance)
        times *= min(busiest, tokens * min(active, here)) / mean
    touched = here * (1.0 - sum(share * (1.0 - chance) ** times for share, chance in chances))
    return touched, times * active / devices / touched if touched else 0.0


@lru_cache(256)
def popularity(experts: int, active: int, spread: float) -> tuple[tuple[float, float], ...]:
    """Return classes of experts: the share of all experts in each class, and the chance that a token chooses a given
    expert of it. The mean chance is active / experts."""
    if not spread or active >= experts:
        return ((1.0, active / experts),)
    shares = [share / sum(_SHARES) for share in _SHARES]
    low, high = -50.0, 50.0
    for _ in range(80):  # bisection of the mean log-odds
        middle = (low + high) / 2.0
        chances = [1.0 / (1.0 + math.exp(-middle - spread * z)) for z in _CLASSES]
        mean = sum(share * chance for share, chance in zip(shares, chances, strict=True))
        low, high = (middle, high) if mean < active / experts else (low, middle)
    return tuple(zip(shares, chances, strict=True))


def attended_dim(window: int, phase: str = "") -> str:
    """Return the name of the dimension for tokens seen through a window, averaged over the new tokens."""
    return f"attended_{window}{phase}"


def cached_dim(window: int, phase: str = "") -> str:
    """Return the name of the symbolic dimension for earlier tokens that the cache holds for a window."""
    return f"cached_{window}{phase}"


def through_window(window: int, sequence: float, kv: float) -> float:
    """Return the mean number of tokens that `sequence` new tokens after `kv` others see, each including itself."""
    growing = min(max(window - kv, 0.0), sequence)  # new tokens with fewer than `window` tokens before them
    return (growing * kv + growing * (growing + 1.0) / 2.0 + (sequence - growing) * window) / sequence


def steps(output: float) -> float:
    """Return the decoding steps of a request: the prefill generates the first token."""
    return max(output - 1.0, 0.0)


def derived(values: Mapping[str, float], windows: Sequence[int], routing: Routing | None) -> dict[str, float]:
    """Return the dimensions that follow from `values` (`batch`, `sequence`, and `kv` or `output`), by name: tokens seen
    through each window and cached for it, experts touched and tokens at each. Names for decoding have its suffix."""
    sequence, lengths = values.get("sequence", 1.0), dict[str, float]()
    batch = values["batch"] / (routing.parts if routing else 1)
    if routing is not None and routing.devices > 1:
        lengths[SHARE] = math.ceil(batch / routing.devices)
    # Suffix, new tokens to average windows over, tokens before them, new tokens in one step.
    phases = [("", sequence, values.get("kv", 0.0), sequence)]
    if "output" in values:
        phases.append((DECODING, max(steps(values["output"]), 1.0), sequence, 1.0))
    for suffix, new, before, at_once in phases:
        for window in windows:
            lengths[attended_dim(window, suffix)] = through_window(window, new, before)
            lengths[cached_dim(window, suffix)] = min(before + (new - 1.0) / 2.0 if suffix else before, float(window))
        if routing is not None:
            experts, rows = routing.expert_load(batch * at_once)
            lengths |= {EXPERTS + suffix: experts, EXPERT_ROWS + suffix: rows}
    return lengths


Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

SCHEMA = "hwexplorer-workload/1"

_KEEP_BOUND = 16

# Kinds of work for the evidence of estimates: images, encoders, one token per step, a prompt, a request, a block, a
# block that factorises matrices, a step of training.
WORK_KINDS = ("vision", "encoder", "decode", "prefill", "request", "kernel", "solver", "training")

_FACTORISATIONS = frozenset(("lu", "cholesky", "solve"))

# Tensor roles.
ACTIVATION, INPUT, WEIGHT, BUFFER = range(4)
FIXED_FP32 = "float32 fixed"  # the type of values that stay in fp32 at any precision


class InputSpec(msgspec.Struct, frozen=True):
    """One model input: its name, dtype and shape; symbolic dimensions by name, e.g. `("batch", 3, 224, 224)`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Operators(msgspec.Struct, frozen=True):
    """Costed operators in execution order. n operators, m monomials, e input edges, f output edges.

    `macs` counts multiply-accumulates of contractions, `flops` all arithmetic (2 per MAC, special functions once each),
    `special` evaluations of exp, erf, rsqrt, division; each (n, m).
    `gemm` is (n, 4, m), in the order G, M, N, K: G independent products of (M x K) by (K x N); zero for operators that
    are not products. Fused attention states its first product (Q x K^T). Convolutions are implicit products:
    G = groups, M = batch * output pixels, N = output channels / G, K = input channels / G * kernel area.
    `in_tensor[in_ptr[i]:in_ptr[i+1]]` are the tensors (weights too) that operator i reads, `in_numel` (e, m) their
    distinct elements read. `out_tensor` are the tensors written. If not `has_rule`, only the bytes of a row count.
    """

    path: tuple[str, ...]
    kind: tuple[str, ...]
    target: tuple[str, ...]
    module_type: tuple[str, ...]
    macs: Floats
    flops: Floats
    special: Floats
    gemm: Floats
    in_ptr: Ints
    in_tensor: Ints
    in_numel: Floats
    out_ptr: Ints
    out_tensor: Ints
    has_rule: Bools


class Tensors(msgspec.Struct, frozen=True):
    """Distinct values. t tensors, m monomials. A view is not a tensor: an edge names the tensor that it views.

    `fixed_bytes` is the width of an element, 0 if the chosen precision determines it. `storage` is the tensor whose
    memory this one shares (itself, or the overwritten one). `producer` is an operator, -1 for inputs and weights.
    `live_until` is the last operator during which the value must be kept; n - 1 for outputs. `shape` and `dtype` are as
    captured (symbolic sizes as "2*batch"), empty if not known.
    """

    name: tuple[str, ...]
    role: Ints
    numel: Floats
    fixed_bytes: Ints
    storage: Ints
    producer: Ints
    live_until: Ints
    is_output: Bools
    shape: tuple[tuple[int | str, ...], ...] = ()
    dtype: tuple[str, ...] = ()


class Parallel(msgspec.Struct, frozen=True):
    """The workload is the share of one of `degree` devices. `link_bytes_per_s` of 0 means the device's links."""

    degree: int
    link_bytes_per_s: float

    def sent(self, kind: str) -> tuple[float, int, int]:
        """Return the sent fraction of a collective's result, its messages in turn, and the peers in an exchange."""
        rounds = {"all_reduce": 2, "all_gather": 1, "all_to_all": 1}.get(kind, 0) * (self.degree - 1)
        is_exchange = kind == "all_to_all" and rounds > 0
        return rounds / self.degree, self.degree.bit_length() if is_exchange else rounds, rounds * is_exchange


class TrainedModel(msgspec.Struct, frozen=True):
    """The forward pass of which a workload is a training step, its `settings` (a Training), whether its values have
    fewer than 32 bits, and whether modules of transformers run call by call."""

    forward: "Workload"
    settings: Any
    is_narrow: bool
    runs_by_call: bool


class Workload(msgspec.Struct, frozen=True, dict=True):
    """A captured model. `parameters` counts elements; `origin` names its source.

    `wide`: paths of parts with the role of their weights for a precision, where checkpoints store them otherwise.
    `defaults` are values of symbolic dimensions other than the batch, `windows` the lengths in tokens that limit
    attention. `repeats` (n, m) is how often each operator runs in one inference, `scratch` (n, m) elements that PyTorch
    on a CPU allocates in addition to its tensors.
    """

    name: str
    family: str
    origin: str
    inputs: tuple[InputSpec, ...]
    image_size: int | None
    parameters: int
    dims: tuple[str, ...]
    monomials: tuple[tuple[int, ...], ...]
    operators: Operators
    tensors: Tensors
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    defaults: dict[str, int] = {}
    windows: tuple[int, ...] = ()
    repeats: Floats | None = None
    scratch: Floats | None = None
    routing: Routing | None = None
    parallel: Parallel | None = None
    wide: tuple[tuple[str, int], ...] = ()
    asked: tuple[str, ...] = ()  # command-line words, if its name is not enough
    training: TrainedModel | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words after a verb of the command line that name this model."""
        return self.asked or (self.name,)

    @property
    def work(self) -> str:
        """The kind of work that runtimes distinguish: 'vision', 'encoder', 'language', 'solver' for blocks with a
        factorisation, or 'training'."""
        if self.training is not None:
            return "training"
        if self.family == "block" and not _FACTORISATIONS.isdisjoint(self.operators.kind):
            return "solver"
        return self.family if self.family in ("encoder", "language") else "vision"

    @property
    def devices(self) -> int:
        """The number of devices that share the model."""
        return self.parallel.degree if self.parallel else 1

    @property
    def attention_copies(self) -> int:
        """The number of devices that compute attention, each for its share of the sequences."""
        return self.routing.devices if self.routing and SHARE in self.dims else 1

    @property
    def kind(self) -> str:
        """The kind of work that measurements distinguish: one of WORK_KINDS."""
        if self.work != "language":
            return "kernel" if self.family == "block" and self.work == "vision" else self.work
        if "output" in self.defaults:
            return "request"
        return "decode" if self.defaults.get("sequence") == 1 else "prefill"

    @property
    def n_operators(self) -> int:
        """The number of operators."""
        return len(self.operators.path)

    def value_at(self, **dims: int) -> Floats:
        """Return the value of each monomial at a point, shape (m,), read-only. Missing dimensions have defaults."""
        return _point(self, tuple(dims.items()))

    def total(self, values: Floats, **dims: int) -> float:
        """Return the sum of a quantity (n, m) over all operators in one inference at a point."""
        point = self.value_at(**dims)
        times = 1.0 if self.repeats is None else self.repeats @ point
        return float((values @ point * times).sum())

    def bound(self, **dims: int | None) -> "Workload":
        """Return the same model with other defaults (memoized). Unknown dimensions and None are ignored."""
        changes = {name: value for name, value in dims.items() if value is not None and name in self.defaults}
        wanted = self.defaults | changes
        if wanted == self.defaults:
            return self
        return _bound(self, tuple(wanted.items()))


@memoize(keep=_KEEP_BOUND)
def _point(workload: Workload, dims: tuple[tuple[str, int], ...]) -> Floats:
    values: dict[str, float] = {**workload.defaults, **dict(dims)}
    values = derived(values, workload.windows, workload.routing) | values
    point = np.array([values[name] for name in workload.dims], dtype=np.float64)
    shape = len(workload.monomials), len(workload.dims)
    exponents = np.array(workload.monomials, dtype=np.float64).reshape(shape)
    monomials = np.asarray(np.multiply.reduce(point**exponents, axis=1), dtype=np.float64)
    monomials.flags.writeable = False
    return monomials


@memoize(keep=_KEEP_BOUND)
def _bound(workload: Workload, defaults: tuple[tuple[str, int], ...]) -> Workload:
    other = msgspec.structs.replace(workload, defaults=dict(defaults))
    share_memos(workload, other)  # results about the graph alone hold at every point
    return other


def _enc_hook(obj: Any) -> Any:
    if isinstance(obj, np.ndarray):
        return {"dtype": obj.dtype.str, "shape": list(obj.shape), "data": np.ascontiguousarray(obj).tobytes()}
    raise NotImplementedError(type(obj))


def encode(workload: Workload) -> bytes:
    """Return the workload as msgpack bytes (uncompressed)."""
    return msgspec.msgpack.Encoder(enc_hook=_enc_hook).encode((SCHEMA, workload))


@lru_cache(1024)
def base_name(target: str) -> tuple[str, bool]:
    """Split `aten.relu_.default` into (`relu`, is in place). Other namespaces keep theirs: `torchvision.nms`."""
    parts = target.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    in_place = name.endswith("_") and not name.endswith("__")
    name = name.rstrip("_") if in_place else name
    return (name if parts[0] in ("aten", "prims") or len(parts) == 1 else f"{parts[0]}.{name}"), in_place


def csr(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return row pointers and flattened values of a list of lists."""
    pointers = np.zeros(len(lists) + 1, dtype=np.int32)
    pointers[1:] = np.cumsum([len(row) for row in lists])
    values = np.array([value for row in lists for value in row], dtype=np.int32)
    return pointers, values


_CONSTANTS = Path(__file__).with_name("coverage.toml")
_SHOWN = 3
ALONE = "the language model alone"  # the start of a note that names the omitted parts of a model
ASSUMED = "its quantization_config is not read"  # the start of a note that says what weights count instead


class Coverage(msgspec.Struct, frozen=True):
    """Shares (0-1) of operators, bytes and FLOPs with a cost rule. An operator without a rule counts the FLOPs of a
    matrix product of its tensors. `missing` has the names and counts of operators without a rule."""

    operators: float = 1.0
    bytes: float = 1.0
    flops: float = 1.0
    missing: tuple[tuple[str, int], ...] = ()

    @property
    def work(self) -> float:
        """The smaller of the shares of bytes and FLOPs."""
        return min(self.bytes, self.flops)

    @property
    def gap(self) -> str:
        """A line that says how much of the work has no cost rule; '' if enough has one."""
        if self.work >= least():
            return ""
        listed = ", ".join(f"{name} ({count}x)" for name, count in self.missing[:_SHOWN])
        more = f" and {len(self.missing) - _SHOWN} more" if len(self.missing) > _SHOWN else ""
        return f"INCOMPLETE: about {percent(self.work)} of the work has a cost rule; without: {listed}{more}"


def _constant(name: str) -> float:
    return float(file_access.shipped(_CONSTANTS)[name]["value"])


def least() -> float:
    """Return the share of work with a rule below which no recommendation is given."""
    return _constant("least")


@memoize(keep=16)
def coverage(workload: Workload, batch: int = 1) -> Coverage:
    """Return the shares of a workload with a cost rule at a batch."""
    ops, tensors, point = workload.operators, workload.tensors, workload.value_at(batch=batch)
    known, count = ops.has_rule, workload.n_operators
    if known.all():
        return Coverage()
    times = np.ones(count) if workload.repeats is None else workload.repeats @ point
    width = np.where(tensors.fixed_bytes > 0, tensors.fixed_bytes, _constant("width"))
    read, written = ops.in_numel @ point, tensors.numel @ point
    moved, flops = np.zeros(count), ops.flops @ point
    for i in range(count):
        ins, outs = slice(*ops.in_ptr[i : i + 2]), ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]
        moved[i] = read[ins] @ width[ops.in_tensor[ins]] + written[outs] @ width[outs]
        if not known[i] and len(read[ins]) > 1:
            flops[i] = 2 * np.sqrt(np.prod(np.sort([*read[ins], written[outs].sum()])[-3:]))
    names = [ops.target[i] for i in np.flatnonzero(~known)]
    counts = sorted(((name, names.count(name)) for name in dict.fromkeys(names)), key=lambda entry: -entry[1])
    shares = [float((work * times)[known].sum() / ((work * times).sum() or 1.0)) for work in (moved, flops)]
    return Coverage(float(known.mean()), shares[0], shares[1], tuple(counts))


def uncovered_note(workload: Workload, batch: int = 1) -> str:
    """Return a line that names the work missing from a workload's figures, and what is assumed; '' if nothing is."""
    parts = (note for note in workload.notes if note.startswith((ALONE, ASSUMED)))
    return "; ".join(filter(None, (coverage(workload, batch).gap, *parts)))


_FIXED = r"captured at batch ([0-9]+) alone"
_UP_TO = r"captured for batches up to ([0-9]+) alone"


def fixed_note(batch: int, why: str) -> str:
    """Return the note of a workload that has figures for one batch only; `fixed_batch` reads it."""
    return f"captured at batch {batch} alone: {why}"


def range_note(most: int, why: str) -> str:
    """Return the note of a workload that has figures for batches up to `most`; `largest_batch` reads it."""
    return f"captured for batches up to {most} alone: {why}"


@memoize(shared=True)
def largest_batch(workload: Workload) -> int:
    """Return the largest batch for which a workload has figures."""
    match = next(filter(None, (re.match(_UP_TO, note) for note in workload.notes)), None)
    return int(match[1]) if match else request_bounds.BATCH


@memoize(shared=True)
def fixed_batch(workload: Workload) -> int | None:
    """Return the only batch for which a workload has figures, None if it is not limited to one."""
    sizes = " ".join([str(size) for item in workload.inputs for size in item.shape])
    if not workload.inputs or "batch" in sizes or SHARE in sizes:
        return None
    match = next(filter(None, (re.match(_FIXED, note) for note in workload.notes)), None)
    return int(match[1]) if match else 1


def refusal(workload: Workload, batch: int) -> str:
    """Return why a workload has no figures at a batch; '' if it has."""
    fixed, most = fixed_batch(workload), largest_batch(workload)
    if fixed is not None and batch != fixed:
        return f"{workload.name} is captured at one fixed batch: batch {fixed} is the only one it has"
    return f"{workload.name} is captured for batches up to {most}: its code takes another path beyond" * (batch > most)


def check_batch(workload: Workload, batch: int) -> None:
    """Raise RequestError for a batch without figures."""
    if reason := refusal(workload, batch):
        raise RequestError(reason)


def batch_words(workload: Workload, batch: int) -> str:
    """Return a batch in words: `batch 8`, or `8 requests at once` of a language model."""
    return f"{batch} requests at once" if "output" in workload.defaults else f"batch {batch}"


def batches_of(workload: Workload, usual: Sequence[int]) -> tuple[int, ...]:
    """Return the batches of `usual` for which a workload has figures, or its only batch."""
    fixed = fixed_batch(workload)
    return tuple(batch for batch in usual if not refusal(workload, batch)) if fixed is None else (fixed,)


_NAME_MAX, _TEXT_MAX = 500, 4000  # characters
_EXPONENT_MAX = 32
_SIZE_MAX = 1 << 31  # a symbolic dimension, an image size, a number of devices
_COUNT_MAX = 1e24  # operations or elements; a language model of 10^13 parameters has fewer over 10^10 tokens
_WIDEST_BYTES = 16  # complex128
_BATCHES = (1, 4096)
_ROLES = 4
_AT_LEAST = {"kv": 0, "output": 1, "sequence": 1}

# Type and shape of each array: n operators, p = n + 1, t tensors, m monomials, e input edges, f output edges.
_OPERATORS = {
    "macs": ("<f8", "nm"), "flops": ("<f8", "nm"), "special": ("<f8", "nm"), "gemm": ("<f8", "n4m"),
    "in_ptr": ("<i4", "p"), "in_tensor": ("<i4", "e"), "in_numel": ("<f8", "em"),
    "out_ptr": ("<i4", "p"), "out_tensor": ("<i4", "f"), "has_rule": ("|b1", "n"),
}  # fmt: skip
_TENSORS = {
    "role": ("<i4", "t"), "numel": ("<f8", "tm"), "fixed_bytes": ("<i4", "t"), "storage": ("<i4", "t"),
    "producer": ("<i4", "t"), "live_until": ("<i4", "t"), "is_output": ("|b1", "t"),
}  # fmt: skip


def decode(data: bytes) -> Workload:
    """Return the workload that `workload.encode` wrote. Raises ValueError with a short reason for other bytes."""
    try:
        schema, workload = msgspec.msgpack.Decoder(tuple[str, Workload], dec_hook=_array).decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("something unreadable") from None
    _require(schema == SCHEMA, f"a workload of a version other than {SCHEMA}")
    check(workload)
    return workload


def _array(kind: type, stored: Any) -> Any:
    # `kind` is only an alias of an array: `_arrays` checks types and shapes once all are decoded.
    if stored["dtype"] not in ("<f8", "<i4", "|b1"):
        raise ValueError(stored["dtype"])
    return np.frombuffer(stored["data"], dtype=stored["dtype"]).reshape(stored["shape"])


def check(workload: Workload) -> None:
    """Raise ValueError with a short reason for an invalid workload."""
    _names(workload)
    _sizes(workload)
    _arrays(workload)
    _edges(workload)
    _amounts(workload)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _names(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n = len(operators.path)
    _require(n, "no operators")
    _require(
        len(operators.kind) == len(operators.target) == len(operators.module_type) == n, "operators without a name"
    )
    named = {workload.name, *operators.path, *operators.target}
    _require(all(named) and max(map(len, named)) <= _NAME_MAX, "an empty or too long name")
    _require(workload.name.isprintable() and workload.training is None, "an unprintable name, or a training step")
    _require(max(map(len, (*tensors.name, *operators.module_type))) <= _NAME_MAX, "a name that is too long")
    for descriptions in (tensors.shape, tensors.dtype):
        _require(len(descriptions) in (0, len(tensors.name)), "tensors without a shape or type")
    live = {*tensors.dtype, *[size for shape in tensors.shape for size in shape if isinstance(size, str)]}
    _require(all(0 < len(text) <= _NAME_MAX and text.isprintable() for text in live), "an invalid size or type")
    _require({*operators.kind} <= KINDS.keys(), "an operator of an unknown kind")
    texts = (workload.family, workload.origin, *workload.notes, *workload.versions, *workload.versions.values())
    _require(all(len(text) <= _TEXT_MAX for text in texts), "a text that is too long")


def _sizes(workload: Workload) -> None:
    dims, rows = workload.dims, workload.monomials
    _require(rows and len(set(dims)) == len(dims) and dims[:1] == ("batch",), "invalid symbolic dimensions")
    _require(len(set(rows)) == len(rows) and all(len(row) == len(dims) for row in rows), "invalid monomials")
    _require(all(0 <= exponent <= _EXPONENT_MAX for row in rows for exponent in row), "an invalid exponent")
    least = [value - _AT_LEAST.get(name, 1) for name, value in workload.defaults.items()]
    _require(all(0 <= value < _SIZE_MAX for value in (*least, *workload.windows)), "an invalid length")
    sizes = [size for item in workload.inputs for size in item.shape]
    _require(all(0 <= size < _SIZE_MAX for size in sizes if isinstance(size, int)), "an invalid input")
    _require(workload.image_size is None or 0 < workload.image_size < _SIZE_MAX, "an invalid image size")
    _require(0 <= workload.parameters < _COUNT_MAX, "an invalid number of parameters")
    routing, parallel = workload.routing, workload.parallel
    _require(routing is None or 0 < routing.active <= routing.experts < _SIZE_MAX, "invalid experts")
    _require(
        parallel is None or (0 < parallel.degree < _SIZE_MAX and 0 <= parallel.link_bytes_per_s < math.inf),
        "an invalid number of devices",
    )


def _arrays(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n, m = len(operators.path), len(workload.monomials)
    length = {"n": n, "p": n + 1, "4": 4, "m": m, "t": len(tensors.name)}
    length |= {"e": operators.in_tensor.size, "f": operators.out_tensor.size}
    wanted = [(name, getattr(operators, name), *form) for name, form in _OPERATORS.items()]
    wanted += [(name, getattr(tensors, name), *form) for name, form in _TENSORS.items()]
    optional = {"repeats": workload.repeats, "scratch": workload.scratch}
    wanted += [(name, array, "<f8", "nm") for name, array in optional.items() if array is not None]
    for name, array, kind, form in wanted:
        _require(array.dtype.str == kind, f"{name} of another type")
        _require(array.shape == tuple(length[each] for each in form), f"{name} of another length")
        if kind == "|b1":
            _require((array.view(np.uint8) <= 1).all(), f"{name} that is neither true nor false")


def _edges(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n, t = len(operators.path), len(tensors.name)
    each = np.arange(n)
    for name, pointers, index in (
        ("in", operators.in_ptr, operators.in_tensor),
        ("out", operators.out_ptr, operators.out_tensor),
    ):
        steps = np.diff(pointers)
        _require(
            pointers[0] == 0 and pointers[-1] == len(index) and (steps >= 0).all(), f"{name}_ptr with invalid offsets"
        )
        _require(_is_within(index, 0, t), f"{name}_tensor with an unknown tensor")
    reader, writer = np.repeat(each, np.diff(operators.in_ptr)), np.repeat(each, np.diff(operators.out_ptr))
    _require(_is_within(tensors.role, 0, _ROLES), "an unknown role")
    _require(_is_within(tensors.fixed_bytes, 0, _WIDEST_BYTES + 1), "elements of an invalid width")
    _require(_is_within(tensors.producer, -1, n) and _is_within(tensors.live_until, -1, n), "an unknown operator")
    _require(_is_within(tensors.storage, 0, t), "an unknown storage")
    _require((tensors.storage[tensors.storage] == tensors.storage).all(), "a storage within another")
    _require((tensors.producer[operators.in_tensor] < reader).all(), "a tensor read before it is written")
    _require((tensors.producer[operators.out_tensor] == writer).all(), "a tensor written by another operator")
    _require((tensors.live_until[operators.in_tensor] >= reader).all(), "a tensor read after its end")
    _require((tensors.live_until >= tensors.producer).all(), "a tensor that ends before it begins")


def _is_within(values: NDArray[np.int32], least: int, end: int) -> bool:
    return bool(((values >= least) & (values < end)).all())


def _amounts(workload: Workload) -> None:
    """Require finite coefficients, and amounts that are not negative at batches 1 and 4096."""
    operators, tensors = workload.operators, workload.tensors
    amounts = [operators.macs, operators.flops, operators.special, operators.gemm, operators.in_numel, tensors.numel]
    amounts += [array for array in (workload.repeats, workload.scratch) if array is not None]
    _require(all(np.isfinite(array).all() for array in amounts), "an amount that is not a number")
    for batch in _BATCHES:
        try:
            point = workload.value_at(batch=batch)
        except KeyError as name:
            raise ValueError(f"a symbolic dimension {name} without a size") from None
        for array in amounts:
            with np.errstate(all="ignore"):
                there = array @ point
            _require(((there >= 0) & (there < _COUNT_MAX)).all(), "an invalid amount")
