"""One call of an operator with the shapes of its tensors, and what it costs.

Convolutions, matrix products, attention and recurrent layers are products of (M x K) by (K x N). All else has a cost
per element by its ATen base name, from operators.toml, which documents the values.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import Poly, poly, product, smaller
from hardware.base import file_access

_TABLE = file_access.table(Path(__file__).with_name("operators.toml"))


class PerElement(NamedTuple):
    """Flops and special functions per element of the output (element-wise) or of the input (reductions)."""

    kind: str
    flops: int
    special: int = 0


def _rows(rows: Iterable[tuple[str, int, int, str]]) -> dict[str, PerElement]:
    return {name: PerElement(kind, flops, special) for kind, flops, special, names in rows for name in names.split()}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: value for value, names in table.items() for name in names.split()}


ELEMENTWISE = _rows(_TABLE["elementwise"])
REDUCTIONS = _rows(_TABLE["reductions"])
POOLS, MOVEMENT, GATHERS = (_by_name(_TABLE[name]) for name in ("pools", "movement", "gathers"))
RESAMPLE = {name: int(flops) for name, flops in _by_name(_TABLE["resample"]).items()}
FACTORISATIONS, SOLVES = _by_name(_TABLE["factorisations"]), _by_name(_TABLE["solves"])
DECOMPOSITIONS = {name: float(Fraction(cubes)) for name, cubes in _by_name(_TABLE["decompositions"]).items()}
ALIASES = _by_name(_TABLE["aliases"])
SORTS, FACTORIES, RANDOM, IDENTITIES, OVERWRITES, ATTENTIONS, BIASED = (
    frozenset(_TABLE["sets"][name].split())
    for name in ("sorts", "factories", "random", "identities", "overwrites", "attentions", "biased")
)

# Flops per element of a normalisation over a group: mean (1), variance (subtract, square, add: 3), subtract and
# multiply by the reciprocal root (2), affine (2). The root is one special function per group.
NORM_FLOPS = 8
RMS_NORM_FLOPS = 4  # square, add, two multiplications

# 0.5 * x * (1 + tanh(c * (x + d * x^3))): three products, add, product, tanh, add, two products.
GELU_TANH = PerElement("gelu", 9, 1)

LIVE_LENGTH = 1 << 16  # assumed length of a sort along a symbolic dimension; the work grows with its log2, 16


ZERO = poly(0)
Gemm = tuple[Poly, Poly, Poly, Poly]  # groups, rows, columns, inner dimension


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """`flops` excludes the 2 per MAC. `first_read` is the number of elements read of the first tensor, None for all."""

    kind: str
    flops: Poly = ZERO
    special: Poly = ZERO
    macs: Poly = ZERO
    gemm: Gemm | None = None
    has_rule: bool = True
    first_read: Poly | None = None


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call by its ATen base name. `metas` describes every tensor among the arguments."""

    name: str
    args: dict[str, Any]
    metas: dict[str, Meta]
    outputs: tuple[Meta, ...]

    def tensor(self, *names: str) -> Meta:
        """Return the first of the named arguments that is a tensor. Raises ValueError if there is none."""
        for name in names:
            value = self.args.get(name)
            if isinstance(value, Ref):
                return self.metas[value.name]
        raise ValueError(f"{self.name} has no tensor argument {' or '.join(names)}")

    def tensors(self) -> list[Meta]:
        """Return the tensors among the arguments, those in lists included, in order."""
        return [self.metas[ref.name] for value in self.args.values() for ref in references(value)]

    @property
    def result(self) -> Meta:
        """The first result."""
        return self.outputs[0]


Rule = Callable[[OperatorCall], OperatorCost]


def whole_numbers(value: Any) -> list[int]:
    """Return an argument, a number or a list of them, as a list of whole numbers."""
    items = value if isinstance(value, list) else [value]
    return [item.constant() if isinstance(item, Poly) else int(item) for item in items]


ONE = poly(1)

# Up to this many input and output channels per group, a convolution reduces over little more than the kernel window:
# hardware runs it like a stencil, not like a matrix product.
DEPTHWISE_CHANNELS = 4

# Softmax inside fused attention, per score: scale 1, then max, subtract, exp, add, multiply.
ATTENTION_FLOPS, ATTENTION_SPECIAL = 6, 1


def _gemm_cost(kind: str, gemm: Gemm, flops: Poly = ZERO, special: Poly = ZERO) -> OperatorCost:
    return OperatorCost(kind, flops, special, product(gemm), gemm)


def _convolution(call: OperatorCall) -> OperatorCost:
    if call.args.get("transposed"):
        return _transposed_convolution(call)
    c_out, *inner = call.tensor("weight").shape  # weights per sample make the batch a dimension of the groups
    c_in, *kernel = (size.constant() for size in inner)
    groups = poly(call.args.get("groups", 1))
    group_out = (c_out // groups).constant()
    is_filter = groups != ONE or c_in == group_out == 1  # as one channel of an image or a signal
    is_depthwise = is_filter and c_in <= DEPTHWISE_CHANNELS and group_out <= DEPTHWISE_CHANNELS
    gemm = (groups, call.result.numel // c_out, poly(group_out), poly(c_in * prod(kernel)))
    return _gemm_cost("depthwise_conv" if is_depthwise else "conv", gemm)


def _transposed_convolution(call: OperatorCall) -> OperatorCost:
    """Count a product of input pixels by (channels x window): each input pixel contributes to a whole window."""
    tensor = call.tensor("input")
    c_in, c_out, *kernel = (size.constant() for size in call.tensor("weight").shape)
    groups = whole_numbers(call.args.get("groups", 1))[0]
    gemm = (poly(groups), tensor.numel // c_in, poly(c_out * prod(kernel)), poly(c_in // groups))
    return _gemm_cost("conv_transpose", gemm)


def _deformable_convolution(call: OperatorCall) -> OperatorCost:
    """Count a convolution whose taps are sampled bilinearly, with 7 flops per tap and input channel."""
    c_out, c_in, *kernel = (size.constant() for size in call.tensor("weight").shape)
    groups = whole_numbers(call.args.get("n_weight_grps", call.args.get("groups", 1)))[0]
    pixels = call.result.numel // c_out
    gemm = (poly(groups), pixels, poly(c_out // groups), poly(c_in * prod(kernel)))
    return _gemm_cost("deform_conv", gemm, flops=pixels * (7 * c_in * groups * prod(kernel)))


def _sequence_convolution(call: OperatorCall) -> OperatorCost:
    window, inner, outer = call.tensor("weight").shape
    return _gemm_cost("conv", (ONE, call.result.numel // outer, outer, window * inner))


def _linear(call: OperatorCall) -> OperatorCost:
    tensor, weight = call.tensor("input"), call.tensor("weight")
    columns = weight.shape[0] if len(weight.shape) > 1 else ONE
    return _gemm_cost("linear", (ONE, product(tensor.shape[:-1]), columns, weight.shape[-1]))


def _product_of_two(call: OperatorCall) -> OperatorCost:
    """Count the product of two operands, with or without an addend (`self` of addmm)."""
    left = call.tensor("mat1", "batch1", "mat", "self", "input")
    right = call.tensor("mat2", "batch2", "vec", "other", "tensor")
    return _gemm_cost(
        "linear" if call.name in ("addmm", "addmv") else "matmul", _gemm_of_shapes(left.shape, right.shape)
    )


def _chained_product(call: OperatorCall) -> OperatorCost:
    """Count a product of several matrices in the order of fewest multiplications, as torch chooses it."""
    chain = [tensor.shape for tensor in call.tensors()]
    first = chain[0][0] if len(chain[0]) > 1 else ONE
    sizes = [first, chain[0][-1], *(shape[-1] for shape in chain[1:-1])]
    sizes.append(chain[-1][-1] if len(chain[-1]) > 1 else ONE)
    return OperatorCost("matmul", macs=_fewest(tuple(sizes)), gemm=(ONE, sizes[0], sizes[-1], sizes[-2]))


def _matrix_power(call: OperatorCall) -> OperatorCost:
    """Count the products of a power by repeated squaring."""
    shape, power = call.tensors()[0].shape, abs(int(whole_numbers(call.args["n"])[0]))
    products = max(power.bit_length() + power.bit_count() - 2, 0)
    gemm = (product(shape[:-2]) * products, shape[-1], shape[-1], shape[-1])
    return OperatorCost("matmul", macs=product(gemm), gemm=gemm)


@cache
def _fewest(sizes: tuple[Poly, ...]) -> Poly:
    """Return the multiplications of a chain of matrices with these numbers of rows and, last, of columns."""
    splits = [
        _fewest(sizes[: i + 1]) + _fewest(sizes[i:]) + sizes[0] * sizes[i] * sizes[-1] for i in range(1, len(sizes) - 1)
    ]
    return reduce(smaller, splits) if splits else poly(0)


def _inner_product(call: OperatorCall) -> OperatorCost:
    left, right = call.tensor("self").shape, call.tensor("other").shape
    return _gemm_cost("matmul", (ONE, product(left[:-1]), product(right[:-1]), left[-1]))


def _gemm_of_shapes(left: tuple[Poly, ...], right: tuple[Poly, ...]) -> Gemm:
    """Return the dimensions of a (batched) product. A right operand without batch multiplies all rows at once."""
    rows, columns = (ONE if len(left) == 1 else left[-2]), (ONE if len(right) == 1 else right[-1])
    batch_left, batch_right = left[:-2], right[:-2]
    if all(size == ONE for size in batch_right):
        return ONE, product(batch_left) * rows, columns, left[-1]
    pairs = zip_longest(reversed(batch_left), reversed(batch_right), fillvalue=ONE)
    return product(b if a == ONE else a for a, b in pairs), rows, columns, left[-1]


def _einsum(call: OperatorCall) -> OperatorCost:
    """Count contractions of two operands at a time, in the order of `path` or else left to right. An index is summed
    once neither a later operand nor the result has it."""
    shapes = [call.metas[ref.name].shape for ref in references(call.args["tensors"])]
    sides = str(call.args["equation"]).replace(" ", "").split("->")
    terms = [_spell_ellipsis(term, len(shape)) for term, shape in zip(sides[0].split(","), shapes, strict=True)]
    letters = "".join(terms)
    if len(sides) > 1:
        result = _spell_ellipsis(sides[1], len(call.result.shape))
    else:
        result = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    sizes: dict[str, Poly] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.get(letter, ONE) == ONE:
                sizes[letter] = size
    macs, flops, gemm = ZERO, ZERO, None
    path = whole_numbers(call.args.get("path") or [])
    pairs = list(zip(path[::2], path[1::2], strict=True)) or [(0, 1)] * (len(terms) - 1)
    for pair in pairs:
        current, term = (terms[i] for i in sorted(pair))
        terms = [other for i, other in enumerate(terms) if i not in pair]
        needed = set(result).union(*terms)
        union = "".join(dict.fromkeys(current + term))
        kept = [x for x in union if x in needed]
        summed = [x for x in union if x in current and x in term and x not in needed]
        for one, other in ((current, term), (term, current)):
            if not needed.union(other).issuperset(one):
                flops = flops + product(sizes[x] for x in one)
        groups = [
            [x for x in kept if x in current and x in term],
            [x for x in kept if x not in term],
            [x for x in kept if x not in current],
            summed,
        ]
        step = [product(sizes[x] for x in group) for group in groups]
        if summed:
            macs, gemm = macs + product(step), (step[0], step[1], step[2], step[3])
        else:
            flops = flops + product(step)
        terms.insert(len(terms) if path else 0, "".join(kept))
    return OperatorCost("matmul" if gemm else "elementwise", macs=macs, flops=flops, gemm=gemm)


def _spell_ellipsis(term: str, rank: int) -> str:
    if "..." not in term:
        return term
    missing = rank - (len(term) - 3)
    return term.replace("...", "".join(chr(0x3B1 + 24 - missing + i) for i in range(missing)))


def _bilinear(call: OperatorCall) -> OperatorCost:
    weight = call.tensor("weight")
    rows = call.result.numel // weight.shape[0]
    first = rows * weight.numel  # x1 W, then times x2
    second = rows * weight.shape[0] * weight.shape[2]
    gemm = (ONE, rows, weight.shape[0] * weight.shape[2], weight.shape[1])
    return OperatorCost("matmul", macs=first + second, gemm=gemm)


def _tensordot(call: OperatorCall) -> OperatorCost:
    left, right = call.tensor("self"), call.tensor("other")
    shared = product(left.shape[axis] for axis in whole_numbers(call.args["dims_self"]))
    return _gemm_cost("matmul", (ONE, left.numel // shared, right.numel // shared, shared))


def _summed_product(call: OperatorCall) -> OperatorCost:
    """Count addbmm: the sum of products over the batch is one product with batch x inner as inner dimension."""
    left, out = call.tensor("batch1"), call.result
    return _gemm_cost("matmul", (ONE, out.shape[-2], out.shape[-1], left.shape[0] * left.shape[2]))


def _grouped_product(call: OperatorCall) -> OperatorCost:
    """Count the product of each row with the weights of its group."""
    left, right = call.tensors()[:2]
    return _gemm_cost("matmul", (ONE, product(left.shape[:-1]), right.shape[-1], left.shape[-1]))


def _distances(call: OperatorCall) -> OperatorCost:
    """Count Euclidean distances: a matrix product, and per distance 4 flops and a root."""
    out = call.result
    gemm = (product(out.shape[:-2]), out.shape[-2], out.shape[-1], call.tensors()[0].shape[-1])
    return _gemm_cost("matmul", gemm, out.numel * 4, out.numel)


def _attention(call: OperatorCall) -> OperatorCost:
    """Count softmax(Q K^T) V. With a causal mask row i has i columns, with one of blocks its share of them; any other
    mask saves no work."""
    query, key, value = call.tensor("query", "0"), call.tensor("key", "1"), call.tensor("value", "2")
    heads, rows, columns = product(query.shape[:-2]), query.shape[-2], key.shape[-2]
    if call.args.get("is_causal") and rows == columns:
        columns = (rows + 1) / 2
    columns = columns * Poly({(): Fraction(call.args.get("share", 1))})
    scores = heads * rows * columns
    mask = 1 if isinstance(call.args.get("attn_mask"), Ref) else 0
    flops, special = scores * (ATTENTION_FLOPS + mask), scores * ATTENTION_SPECIAL
    macs = scores * (query.shape[-1] + value.shape[-1])
    return OperatorCost("attention", flops, special, macs, (heads, rows, columns, query.shape[-1]))


def _flash_attention(call: OperatorCall) -> OperatorCost:
    query, key, value = (call.tensor(name).shape for name in ("query", "key", "value"))
    groups = query[0] * query[2]
    scores = groups * query[1] * key[1]
    gemm = (groups, query[1], key[1], query[3])
    return OperatorCost("attention", scores * ATTENTION_FLOPS, scores, scores * (query[3] + value[3]), gemm)


def _recurrent_layers(gates: int, flops: int, special: int, call: OperatorCall) -> OperatorCost:
    """Count a recurrent stack: each step multiplies every matrix. `flops` and `special` are per unit and step."""
    tensor = call.tensor("input", "data")
    weights = [call.metas[ref.name] for ref in references(call.args["params"])]
    matrices = [weight for weight in weights if len(weight.shape) == 2]
    steps = product(tensor.shape[:-1])
    macs = product((steps, sum((weight.numel for weight in matrices), ZERO)))
    # The input and the hidden matrix of a layer and direction both have gates * hidden rows, a projection has fewer.
    rows = matrices[0].shape[0]
    units = steps * (rows // gates) * (sum(weight.shape[0] == rows for weight in matrices) // 2)
    length = tensor.shape[0 if not call.args.get("batch_first") else 1] if len(tensor.shape) == 3 else steps
    # A device runs one small product per time step and matrix, which are the groups.
    gemm = (length * len(matrices), steps // length, matrices[0].shape[0], matrices[-1].shape[1])
    return OperatorCost("recurrent", units * flops, units * special, macs, gemm)


def _recurrent_cell(gates: int, flops: int, special: int, call: OperatorCall) -> OperatorCost:
    tensor, w_ih, w_hh = call.tensor("input"), call.tensor("w_ih"), call.tensor("w_hh")
    batch = product(tensor.shape[:-1])
    units = batch * (w_ih.shape[0] // gates)
    gemm = (ONE, batch, w_ih.shape[0], w_ih.shape[1] + w_hh.shape[1])
    macs = batch * (w_ih.numel + w_hh.numel)
    return OperatorCost("recurrent", units * flops, units * special, macs, gemm)


_NAMES: dict[Rule, str] = {
    _convolution: "conv1d conv2d conv3d convolution _convolution mkldnn_convolution",
    _transposed_convolution: "conv_transpose1d conv_transpose2d conv_transpose3d",
    _deformable_convolution: "torchvision.deform_conv2d",
    _sequence_convolution: "conv_tbc",
    _linear: "linear",
    _summed_product: "addbmm",
    _product_of_two: "mm bmm mv dot vdot matmul linalg_matmul addmm baddbmm addmv",
    _inner_product: "inner",
    _chained_product: "linalg_multi_dot chain_matmul",
    _matrix_power: "matrix_power linalg_matrix_power",
    _tensordot: "tensordot",
    _grouped_product: "_grouped_mm transformers.grouped_mm_fallback _scaled_grouped_mm",
    _distances: "cdist _cdist_forward _euclidean_dist",
    _einsum: "einsum",
    _bilinear: "bilinear",
    _attention: " ".join(ATTENTIONS),
    _flash_attention: "_flash_attention_forward _efficient_attention_forward",
    partial(_recurrent_layers, 4, 14, 5): "lstm",
    partial(_recurrent_layers, 3, 13, 3): "gru",
    partial(_recurrent_layers, 1, 3, 1): "rnn_tanh",
    partial(_recurrent_layers, 1, 3, 0): "rnn_relu",
    partial(_recurrent_cell, 4, 14, 5): "lstm_cell",
    partial(_recurrent_cell, 3, 13, 3): "gru_cell",
    partial(_recurrent_cell, 1, 3, 1): "rnn_tanh_cell",
    partial(_recurrent_cell, 1, 3, 0): "rnn_relu_cell",
}
CONTRACTIONS: dict[str, Rule] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
