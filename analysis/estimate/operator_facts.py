"""Facts of the operators and tensors of a workload that its capture does not state, derived from sizes and names; which
operators form a subgraph; and which operator or subgraph needs which.

A tensor has a role for a precision: activation, weight, parameter that stays wide, or key-value cache. Weights are the
parameters that contractions multiply. If only they are quantised, embeddings, head, routers, norms and biases stay
wide, as in the checkpoints that serving programs load; in those of 4 bits also parts that the model names. Convolutions
have windows; experts have tokens, spread over devices, which exchange results over links.

A subgraph is the unit that a compiler joins into one kernel; it depends on the model alone. A contraction, or any
operator without a producer to join, starts one; an element-wise operator joins the one that made its input when nothing
else reads that value. A row-wise reduction does not join a contraction, whose tiles hold no complete rows.

Operators and subgraphs are in execution order, so every edge points forward and one pass finds depths and the heaviest
chain. Building a networkx graph (hwexplorer/reports/show/structure.py) takes ten times as long.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from analysis.model.ir.workload import FIXED_FP32, INPUT, KINDS, WEIGHT, Bools, Floats, Workload
from analysis.model.ir.workload import Ints as Places
from analysis.model.training import step as training_step
from analysis.model.transformer import stored_weights
from hardware.base.records import memoize
from hardware.demand import Ints, OpClass
from hardware.precision import ACTIVATION, CACHE, EXCLUDED, FILE_ROLES, IN_8_BITS, KEPT, QUANTIZED, TABLES, Widths

# The host waits until the device has the value of a mask, then starts two products, its copy, the mask and its sum, a
# softmax and a copy: transformers 4.28, modeling_gpt_neox.py, GPTNeoXAttention._attn.
_AWAITED = 7.0
_BLOCK = 256  # values of a row that the blocks of llama.cpp hold
HEAD = "lm_head"  # the layer that makes logits, in every language model here
# Heights and widths, plain first: the first that fits is taken. If results share no inputs, 1 x 1 fits as well.
_SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 31, 32)
_WINDOWS = np.array([*((side, side) for side in _SIDES), (1, 3), (3, 1), (1, 5), (5, 1), (1, 7), (7, 1)], dtype=float)


@memoize(shared=True)
def roles(workload: Workload) -> Ints:
    """Return the role of each tensor, shape (t,)."""
    ops, tensors = workload.operators, workload.tensors
    role_of = np.full(len(tensors.name), ACTIVATION, dtype=np.int8)
    role_of[tensors.role == WEIGHT] = KEPT
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    multiplies: Bools = np.any(ops.macs != 0, axis=1)
    looked_up = np.array([kind == "embedding" for kind in ops.kind], dtype=np.bool_)
    of_operator: Ints = np.array([_weight_role(path, workload) for path in ops.path], dtype=np.intp)
    weights = np.flatnonzero(multiplies[reader] & (tensors.role[ops.in_tensor] == WEIGHT))
    role_of[ops.in_tensor[weights]] = of_operator[reader[weights]]
    tables = ops.in_tensor[looked_up[reader]]
    role_of[tables[tensors.role[tables] == WEIGHT]] = _stated_roles(workload).get(stored_weights.EMBEDDING, KEPT)
    appends = {i for i, target in enumerate(ops.target) if "cache_append" in target}
    for t, (name, role, producer) in enumerate(
        zip(tensors.name, tensors.role.tolist(), tensors.producer.tolist(), strict=True)
    ):
        if (role == INPUT and name.endswith("_cache")) or producer in appends:
            role_of[t] = CACHE
    return role_of


@memoize(shared=True)
def width_roles(workload: Workload) -> Ints:
    """Return the role of each tensor for its bytes, (t,): in place of weights and tables those of FILE_ROLES."""
    ops, of_tensor = workload.operators, roles(workload).copy()
    leaves = [(path.rpartition(".")[2], kind) for path, kind in zip(ops.path, ops.kind, strict=True)]
    parts = ["embed_tokens" if kind == "embedding" else leaf for leaf, kind in leaves]
    is_odd = (ops.gemm[:, 3].max(axis=1) % _BLOCK).astype(bool).tolist()
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    for place in np.flatnonzero(np.isin(of_tensor[ops.in_tensor], (QUANTIZED, KEPT))).tolist():
        i, t = reader[place], ops.in_tensor[place]
        if roles(workload)[t] == (KEPT if parts[i] in TABLES else QUANTIZED):
            of_tensor[t] = FILE_ROLES.get((parts[i], is_odd[i]), FILE_ROLES["other", is_odd[i]])
    return of_tensor


def _weight_role(path: str, workload: Workload) -> int:
    """Return the role of the weights that an operator multiplies."""
    stated, words = _stated_roles(workload), path.split(".")
    start = words.index("layers") if "layers" in words else len(words) - 1
    for end in range(len(words), start, -1):
        for begin in (start, start + 2):
            if (role := stated.get(".".join(words[begin:end]))) is not None:
                return role
    return KEPT if words[-1] in stored_weights.table()["wide"]["layers"] else QUANTIZED


@memoize(shared=True)
def _stated_roles(workload: Workload) -> dict[str, int]:
    return dict(workload.wide)


@memoize(shared=True)
def right_roles(workload: Workload) -> Ints:
    """Return the role of what each operator multiplies its activations by, shape (n,): weights, or the cache."""
    ops, of_tensor = workload.operators, roles(workload)
    role_of = np.full(workload.n_operators, ACTIVATION, dtype=np.intp)
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    for role in (KEPT, EXCLUDED, IN_8_BITS, QUANTIZED, CACHE):
        role_of[reader[of_tensor[ops.in_tensor] == role]] = role
    return role_of


@memoize(shared=True)
def fixed_weight_bytes(workload: Workload) -> Ints:
    """Return the bytes of a value of the weights of each operator that the model keeps in fp32, else 0, (n,)."""
    ops, tensors, fixed = workload.operators, workload.tensors, np.zeros(workload.n_operators, dtype=np.intp)
    if not tensors.dtype:  # a workload may lack descriptions
        return fixed
    is_fp32 = np.array([dtype == FIXED_FP32 for dtype in tensors.dtype], dtype=np.bool_) & (tensors.role == WEIGHT)
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))[is_fp32[ops.in_tensor]]
    fixed[reader] = tensors.fixed_bytes[ops.in_tensor[is_fp32[ops.in_tensor]]]
    return fixed


class Values(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Values of r tensors. `numel` (r, m) counts them, as coefficients; `fixed_bytes` (r,) is the bytes of one value if
    the model fixes its type, else 0; `precision_role` (r,) is the role of the tensor for a precision."""

    numel: Floats
    fixed_bytes: Ints
    precision_role: Ints

    def size_bytes(self, point: Floats, widths: Widths) -> Floats:
        """Return the bytes of each tensor, (r,), at the monomials `point` (m,)."""
        size: Floats = (self.numel @ point) * _bytes_of_values(self, widths)
        return size


def select_values(workload: Workload, which: Ints | Bools) -> Values:
    """Return the values of some tensors, each once and whole."""
    tensors = workload.tensors
    return Values(
        numel=tensors.numel[which], fixed_bytes=tensors.fixed_bytes[which], precision_role=width_roles(workload)[which]
    )


def value_bytes(fixed_bytes: Ints, role: Ints, widths: Widths) -> Floats:
    """Return the bytes of each value: `fixed_bytes` if the model fixes its type, else the width of its role."""
    return np.where(fixed_bytes > 0, fixed_bytes, np.array(widths.by_role)[role])


@memoize(keep=8)
def _bytes_of_values(values: Values, widths: Widths) -> Floats:
    return value_bytes(values.fixed_bytes, values.precision_role, widths)


def tensor_bytes(workload: Workload, widths: Widths) -> Floats:
    """Return the bytes of one value of each tensor, shape (t,)."""
    return value_bytes(workload.tensors.fixed_bytes, width_roles(workload), widths)


def _point_at(workload: Workload, size: int) -> Floats:
    """Return the point at which all dimensions have a size, the batch in each of its parts, (m,)."""
    step, sizes = workload.training, dict.fromkeys(workload.dims, size)
    return workload.value_at(**sizes | ({"batch": size * step.settings.parts} if step else {}))


@memoize(shared=True)
def windows(workload: Workload) -> Floats:
    """Return for each operator, (7, n): rows and columns of its result, rows and columns of its window, the stride, and
    the part of what windows cover that is input, not padding. These six are 1 for other operators and if no window
    fits. The seventh is the 4 x 4 patches per row of the product for dense 3 x 3 convolutions at stride 1, else 0: nine
    windows share each of their inputs, a few less at the borders of an image without padding.

    An operator reads each input once. Its channels are its depth over the window's area; images are taken as square. So
    a window fits if channels and sides are whole numbers and results are as many as windows have room for. If none
    does, sides are those of the captured shapes."""
    ops, tensors = workload.operators, workload.tensors
    found = np.ones((7, workload.n_operators))
    found[6] = 0.0
    is_image = np.array(
        [kind in ("conv", "depthwise_conv") and "2d" in target
         for kind, target in zip(ops.kind, ops.target, strict=True)], dtype=np.bool_)  # fmt: skip
    has_products = np.all(np.any(ops.gemm > 0, axis=2), axis=1)  # one of unknown cost has none
    which = np.flatnonzero(is_image & has_products)
    if not len(which):
        return found
    one = _point_at(workload, 1)
    groups, rows, _, depth = products = (ops.gemm[which] @ one).T
    edge = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    is_activation = tensors.role[ops.in_tensor] <= INPUT
    read = np.bincount(edge, (ops.in_numel @ one) * is_activation, minlength=workload.n_operators)
    if workload.training is not None:  # the image is what an operator reads last, after gradients
        last = np.flatnonzero(is_activation)
        read[edge[last]] = (ops.in_numel @ one)[last]
    inputs = read[which].astype(np.float64, copy=False)
    found[:6, which] = _fit_windows(products, inputs)
    is_captured = bool(tensors.shape) and workload.training is None
    for i in which[(found[0, which] == 1.0) & (rows > 1.0)].tolist() if is_captured else ():
        touched = *ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i] + 2].tolist(), int(ops.out_tensor[ops.out_ptr[i]])
        sides = [tensors.shape[tensor][-2:] for tensor in touched]
        if all(isinstance(side, int) for each in sides for side in each):
            image, window, result = np.array(sides, dtype=float)
            stride = max(round(image[0] / result[0]), 1.0)
            reached = ((result - 1.0) * stride + window).prod()
            found[:6, i] = *result, *window, stride, min(image.prod() / reached, 1.0)
    is_dense = np.array([ops.kind[i] == "conv" and "conv2d" in ops.target[i] for i in which], dtype=np.bool_)
    is_dense &= (groups == 1) & (8.0 * inputs < depth * rows) & (depth * rows < 10.0 * inputs)
    rows = np.where(is_dense, rows, 1.0)
    found[6, which] = is_dense * (np.ceil(np.sqrt(rows) / 4.0) ** 2 / rows)
    return found


def _fit_windows(products: Floats, inputs: Floats) -> Floats:
    """Return the sides of results and window, the stride and the part of windows that is input, (6, c), of the first
    window of _WINDOWS that fits convolutions with these `products` (4, c) and `inputs`."""
    groups, rows, _, depth = products
    height, width = _WINDOWS.T[:, :, None]
    channels = depth / (height * width)
    side, results = np.sqrt(inputs / (np.maximum(groups, 1.0) * channels)), np.sqrt(rows)
    stride = np.maximum(np.round(side / results), 1.0)
    window = np.maximum(height, width)
    padding = (results - 1.0) * stride + window - side
    fits = (channels % 1.0 == 0) & (side % 1.0 == 0) & (results % 1.0 == 0)
    fits &= (padding > -stride) & (padding <= window - 1.0) & (side > 0)
    first = fits.argmax(axis=0)
    here = np.arange(len(inputs))
    reached = ((results - 1.0) * stride + height) * ((results - 1.0) * stride + width)
    part = np.minimum(side**2 / reached, 1.0)
    columns = [*np.broadcast_arrays(results, results, height, width, stride, part)]
    values = np.stack([np.broadcast_to(column, fits.shape)[first, here] for column in columns])
    return np.where(fits.any(axis=0), values, 1.0)


@memoize(shared=True)
def summed(workload: Workload) -> Floats:
    """Return the elements of which each operator of a training step that sums over images or tokens adds up a few
    results, (n, m), else 0: lanes share its input, not its results."""
    ops, values = workload.operators, np.zeros((workload.n_operators, len(workload.monomials)))
    if workload.training is None:
        return values
    at = _point_at(workload, 2)
    writes = np.bincount(np.repeat(np.arange(workload.n_operators), np.diff(ops.out_ptr)),
                         (workload.tensors.numel @ at)[ops.out_tensor], minlength=workload.n_operators)  # fmt: skip
    for i in range(workload.n_operators):
        read = ops.in_numel[ops.in_ptr[i] : ops.in_ptr[i + 1]].max(axis=0, initial=0.0)
        if ops.kind[i] in ("batch_norm", "layer_norm", "depthwise_conv") and read @ at > 8.0 * writes[i]:
            values[i] = read
    return values


@memoize(shared=True)
def is_expert(workload: Workload) -> Bools:
    """Return True for the operators of experts and those that dispatch tokens to them and combine results, (n,)."""
    inside = np.array([".experts." in f"{path}." for path in workload.operators.path])
    moves: Bools = inside | [target.startswith("hwexplorer.expert_") for target in workload.operators.target]
    return moves


@memoize(shared=True)
def is_interpreted(workload: Workload) -> Bools:
    """Return True for the operators of experts, their routers and latent attention, (n,). Engines of language models
    start these from an interpreter and compile the rest."""
    paths = workload.operators.path
    latent = {path.rpartition(".")[0] for path in paths if path.endswith(".kv_a_proj")}
    inside = [".router" in path or path.rpartition(".")[0] in latent for path in paths]
    return is_expert(workload) | np.array(inside, dtype=np.bool_)


def dispatches(workload: Workload, awaits: bool) -> Floats:
    """Return the operators that a framework starts for each, (n,): none for a bias, nor in training for what runs in
    another's call or node of autograd. If it `awaits` the device, several for the attention of GPT-NeoX, which stands
    beside the FFN and has a norm apart from the FFN's."""
    paths, kinds = workload.operators.path, workload.operators.kind
    started = np.array([float(kind != "bias") for kind in kinds])
    if workload.training is not None:
        started[training_step.is_inside(workload)] = 0.0
    if awaits and {"layers.0.mlp_norm", "layers.0.parallel_add"} <= set(paths):
        started[[kind == "attention" for kind in kinds]] = _AWAITED
    return started


def mean_work(workload: Workload, batch: int, prompts: Floats) -> Floats | None:
    """Return the experts that the mean device reads over the busiest's, 1 for other work, (n,); None on one device."""
    routing = workload.routing
    if routing is None or routing.devices == 1:
        return None
    return np.where(is_expert(workload), _by_phase(workload, batch, prompts, routing.mean_load), 1.0)


def expert_rows(workload: Workload, batch: int, prompts: Floats) -> Floats | None:
    """Return the experts of a device, the rows of tokens that they get, and those of experts of other devices where all
    devices have all tokens, (3, n), zero for other work."""
    routing = workload.routing
    if routing is None:
        return None

    def count_rows(tokens: float) -> Floats:
        """Return the numbers of a step of so many tokens."""
        own = float(np.prod(routing.expert_load(tokens)))
        others = tokens * routing.active - own if workload.attention_copies == 1 else 0.0
        return np.array([[routing.experts / routing.devices], [own], [max(others, 0.0)]])

    rows: Floats = _by_phase(workload, batch, prompts, count_rows) * is_expert(workload)
    return rows


def _by_phase(workload: Workload, batch: int, prompts: Floats, count: Callable[[float], Any]) -> Floats:
    """Return what `count` returns for the tokens of a prompt, and for those of a step of decoding elsewhere."""
    prompt, token = (count(batch * n) for n in (workload.defaults.get("sequence", 1), 1))
    values: Floats = np.where(prompts > 0, prompt, token)
    return values


def collective_links(workload: Workload, result_bytes: Floats) -> Floats | None:
    """Return for each collective the bytes and messages that a device sends, the speed of the links (zero means the
    device's own), and the peers of an exchange, (4, n). Return None for a model on one device."""
    parallel = workload.parallel
    if parallel is None:
        return None
    parts, messages, peers = _collective_traffic(workload)
    return np.stack([result_bytes * parts, messages, np.full(len(parts), parallel.link_bytes_per_s), peers])


@memoize(shared=True)
def _collective_traffic(workload: Workload) -> Floats:
    assert workload.parallel is not None
    return np.array([workload.parallel.sent(kind) for kind in workload.operators.kind], dtype=np.float64).T


# Normalisations that need statistics over a row before the first result.
_ROW_WISE = ("softmax", "layer_norm", "group_norm", "norm")


class Partition(msgspec.Struct, frozen=True):
    """n operators in s subgraphs, numbered in execution order (the order of their last operators).

    `subgraph` (n,) is the subgraph of each operator; `members` are the operators of each subgraph in order; `head` (s,)
    is its first operator, which names it; `id` and `operator_id` are the paths in the tree; `kind` is the fusion
    pattern, e.g. "conv+batch_norm+relu".
    """

    subgraph: Places
    members: tuple[tuple[int, ...], ...]
    head: Places
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
    numel = tensors.numel @ _point_at(workload, 2)
    readers: dict[int, set[int]] = {}
    for i in range(len(ops.path)):
        for t in in_tensor[in_ptr[i] : in_ptr[i + 1]]:
            readers.setdefault(t, set()).add(i)
    outputs = set(np.flatnonzero(tensors.is_output).tolist())

    macs = (ops.macs @ _point_at(workload, 2)).tolist()
    is_update = [workload.training is not None and path.startswith(f"{training_step.UPDATE}.") for path in ops.path]
    groups: list[list[int]] = []
    work: list[float] = []
    group_of: list[int] = []
    for i, kind in enumerate(ops.kind):
        target = -1
        if KINDS[kind].fuses == "epilogue":
            for t in in_tensor[in_ptr[i] : in_ptr[i + 1]]:
                p = producer[t]
                if p < 0 or readers[t] != {i} or t in outputs or is_update[p] != is_update[i]:
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
        module = f"{ops.path[head].rpartition('.')[0]}."
        for j in group:
            operator_ids[j] = f"{ops.path[head]}/{ops.path[j].removeprefix(module)}"
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


def op_classes(workload: Workload) -> Places:
    """Return the hardware class of every operator, shape (n,); OTHER without a cost rule."""
    ops = workload.operators
    ruled = zip(ops.kind, ops.has_rule.tolist(), strict=True)
    classes = [KINDS[kind].op_class if has_rule else OpClass.OTHER for kind, has_rule in ruled]
    return np.array(classes, dtype=np.intp)


class Dependencies(msgspec.Struct, frozen=True):
    """n nodes; edges (e,) from `source` to `target`, each once, source < target; `tensors` carried by each."""

    n: int
    source: Places
    target: Places
    tensors: tuple[tuple[int, ...], ...]


@memoize(shared=True)
def operator_graph(workload: Workload) -> Dependencies:
    """Return the operators joined by the activations they exchange, computed once."""
    return _graph(workload, None)


@memoize(shared=True)
def subgraph_graph(workload: Workload) -> Dependencies:
    """Return the subgraphs joined by the activations they exchange, computed once."""
    return _graph(workload, partition(workload))


def _graph(workload: Workload, parts: Partition | None) -> Dependencies:
    ops, producer = workload.operators, workload.tensors.producer.tolist()
    node = parts.subgraph.tolist() if parts else list(range(workload.n_operators))
    pointers, reads = ops.in_ptr.tolist(), ops.in_tensor.tolist()
    edges: dict[tuple[int, int], list[int]] = {}
    for i in range(workload.n_operators):
        for t in reads[pointers[i] : pointers[i + 1]]:
            if producer[t] < 0 or node[producer[t]] == node[i]:
                continue
            carried = edges.setdefault((node[producer[t]], node[i]), [])
            if t not in carried:
                carried.append(t)
    ordered = sorted(edges)
    return Dependencies(
        len(parts.id) if parts else workload.n_operators,
        np.array([a for a, _ in ordered], dtype=np.int32),
        np.array([b for _, b in ordered], dtype=np.int32),
        tuple(tuple(edges[edge]) for edge in ordered),
    )


@memoize()
def row_lags(workload: Workload) -> Floats:
    """Return how much later than its inputs a frame leaves each operator, where operators stream rows to each other, as
    a part of the time between frames, shape (n,). A convolution or a product with weights lags by one row of its
    result, a product of two activations (attention) by a whole frame. Only what lengthens the longest path so far
    counts, else 0, so the parts of a model add up to its longest path."""
    ops, tensors = workload.operators, workload.tensors
    rows = (ops.gemm @ workload.value_at(batch=1))[:, 1]
    own = np.zeros(workload.n_operators)
    waits = np.isin(op_classes(workload), (OpClass.ATTENTION, OpClass.GEMM))
    image = np.isin(op_classes(workload), (OpClass.CONV, OpClass.DEPTHWISE))
    own[rows > 0] = 1.0 / np.where(image, rows**0.5, rows)[rows > 0]
    end, latest, pointers = np.zeros(workload.n_operators), 0.0, ops.in_ptr
    lags = np.zeros(workload.n_operators)
    for i in range(workload.n_operators):
        reads = ops.in_tensor[pointers[i] : pointers[i + 1]]
        producers = tensors.producer[reads]
        if waits[i] and (producers >= 0).sum() > 1:
            own[i] = 1.0
        end[i] = max((float(end[p]) for p in producers if p >= 0), default=0.0) + own[i]
        lags[i] = max(end[i] - latest, 0.0)
        latest = max(latest, float(end[i]))
    return lags


def levels(graph: Dependencies) -> Places:
    """Return the stage of each node, shape (n,): 0 without predecessors, else one after its latest predecessor."""
    level = [0] * graph.n
    for a, b in _edges(graph):
        level[b] = max(level[b], level[a] + 1)
    return np.array(level, dtype=np.int32)


def heaviest_path(graph: Dependencies, weight: Floats) -> tuple[float, tuple[int, ...]]:
    """Return the chain of nodes with the largest sum of `weight` (n,), and that sum. Weights are 0 or more."""
    if not graph.n:
        return 0.0, ()
    value = weight.tolist()
    best, before = list(value), [-1] * graph.n
    for a, b in _edges(graph):
        if best[a] + value[b] > best[b] or (before[b] < 0 and best[a] + value[b] == best[b]):
            best[b], before[b] = best[a] + value[b], a
    at = max(range(graph.n), key=lambda i: best[i])
    total, path = best[at], []
    while at >= 0:
        path.append(at)
        at = before[at]
    return float(total), tuple(reversed(path))


def _edges(graph: Dependencies) -> list[tuple[int, int]]:
    """Return the edges by target: every edge into a node comes before any that leaves it."""
    order = np.lexsort((graph.source, graph.target))
    return list(zip(graph.source[order].tolist(), graph.target[order].tolist(), strict=True))


def edge_bytes(graph: Dependencies, workload: Workload, batch: int, widths: Widths) -> list[float]:
    """Return the bytes of the activations that each edge carries, (e,)."""
    tensors = workload.tensors
    width = tensor_bytes(workload, widths)
    size = ((tensors.numel @ workload.value_at(batch=batch)) * width).tolist()
    return [sum(size[t] for t in carried) for carried in graph.tensors]


def operand_bytes(workload: Workload, batch: int, widths: Widths) -> Floats:
    """Return the bytes that each operator reads and writes if it is run alone: inputs, weights and results, shape
    (n,)."""
    ops, tensors = workload.operators, workload.tensors
    point = workload.value_at(batch=batch)
    width = tensor_bytes(workload, widths)
    n = workload.n_operators
    reader = np.repeat(np.arange(n), np.diff(ops.in_ptr))
    writer = np.repeat(np.arange(n), np.diff(ops.out_ptr))
    read = np.bincount(reader, (ops.in_numel @ point) * width[ops.in_tensor], minlength=n)
    written = (tensors.numel @ point * width)[ops.out_tensor]
    return (read + np.bincount(writer, written, minlength=n)).astype(np.float64)
