"""Convolutions, matrix products, attention and recurrent layers as products of (M x K) by (K x N)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import Poly, poly, product

Gemm = tuple[Poly, Poly, Poly, Poly]  # G, M, N, K
Metas = dict[str, Meta]
ZERO = poly(0)

# A convolution with this few channels per group on both sides reduces over the kernel window only: hardware
# runs it like a stencil, not like a matrix product.
DEPTHWISE_CHANNELS = 4

# Softmax inside fused attention, per score: scale 1, then max, subtract, exp, add, multiply.
ATTENTION_FLOPS, ATTENTION_SPECIAL = 6, 1


@dataclass(frozen=True, slots=True)
class Contraction:
    """`flops` is the element-wise work beside the 2 per MAC."""

    kind: str
    macs: Poly
    gemm: Gemm
    flops: Poly = ZERO
    special: Poly = ZERO


Function = Callable[[dict[str, Any], Metas, Meta], Contraction]


def _tensor(args: dict[str, Any], metas: Metas, *names: str) -> Meta:
    for name in names:
        if isinstance(args.get(name), Ref):
            return metas[args[name].name]
    raise ValueError(f"no tensor argument {' or '.join(names)}")


def _one(kind: str, gemm: Gemm) -> Contraction:
    return Contraction(kind, product(gemm), gemm)


def convolution(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    if args.get("transposed"):
        return transposed(args, metas, out)
    c_out, *inner = _tensor(args, metas, "weight").shape  # weights of each sample's own make groups of the batch
    c_in, *kernel = (size.constant() for size in inner)
    groups = poly(args.get("groups", 1))
    each = (c_out // groups).constant()
    few = groups != poly(1) and c_in <= DEPTHWISE_CHANNELS and each <= DEPTHWISE_CHANNELS
    gemm = (groups, out.numel // c_out, poly(each), poly(c_in * prod(kernel)))
    return _one("depthwise_conv" if few else "conv", gemm)


def transposed(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """Every input pixel spreads over the kernel window: input pixels by (channels x window)."""
    tensor, weight = _tensor(args, metas, "input"), _tensor(args, metas, "weight")
    c_in, c_out, *kernel = (size.constant() for size in weight.shape)
    groups = _int(args.get("groups", 1))
    gemm = (poly(groups), tensor.numel // c_in, poly(c_out * prod(kernel)), poly(c_in // groups))
    return _one("conv_transpose", gemm)


def deformable(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """A convolution whose taps are sampled bilinearly (7 flops a tap and input channel)."""
    weight = _tensor(args, metas, "weight")
    c_out, c_in, *kernel = (size.constant() for size in weight.shape)
    groups = _int(args.get("n_weight_grps", args.get("groups", 1)))
    pixels = out.numel // c_out
    gemm = (poly(groups), pixels, poly(c_out // groups), poly(c_in * prod(kernel)))
    return Contraction("deform_conv", product(gemm), gemm, flops=pixels * (7 * c_in * groups * prod(kernel)))


def linear(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    tensor, weight = _tensor(args, metas, "input"), _tensor(args, metas, "weight")
    inner, outer = weight.shape[-1], weight.shape[0] if len(weight.shape) > 1 else poly(1)
    return _one("linear", (poly(1), product(tensor.shape[:-1]), outer, inner))


def addmm(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    left = _tensor(args, metas, "mat1", "batch1", "mat")
    right = _tensor(args, metas, "mat2", "batch2", "vec")
    return _one("linear" if len(left.shape) == 2 else "matmul", _product(left.shape, right.shape))


def matmul(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    left = _tensor(args, metas, "self", "input")
    right = _tensor(args, metas, "other", "mat2", "tensor", "vec")
    return _one("matmul", _product(left.shape, right.shape))


def inner(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    left, right = _tensor(args, metas, "self"), _tensor(args, metas, "other")
    gemm = (poly(1), product(left.shape[:-1]), product(right.shape[:-1]), left.shape[-1])
    return _one("matmul", gemm)


def _product(left: tuple[Poly, ...], right: tuple[Poly, ...]) -> Gemm:
    """Dimensions of a (batched, broadcast) matrix product. A right operand without batch dimensions
    multiplies all rows of the left at once."""
    rows, columns = (poly(1) if len(left) == 1 else left[-2]), (poly(1) if len(right) == 1 else right[-1])
    batch_left, batch_right = left[:-2], right[:-2]
    if not any(size != poly(1) for size in batch_right):
        return poly(1), product(batch_left) * rows, columns, left[-1]
    width = max(len(batch_left), len(batch_right))
    pad_left = (poly(1),) * (width - len(batch_left)) + batch_left
    pad_right = (poly(1),) * (width - len(batch_right)) + batch_right
    batch = product(b if a == poly(1) else a for a, b in zip(pad_left, pad_right, strict=True))
    return batch, rows, columns, left[-1]


def einsum(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """Two operands at a time, left to right; a letter stays until no later operand or result needs it."""
    shapes = [metas[ref.name].shape for ref in references(args["tensors"])]
    sides = str(args["equation"]).replace(" ", "").split("->")
    terms = [_spell(term, len(shape)) for term, shape in zip(sides[0].split(","), shapes, strict=True)]
    letters = "".join(terms)
    result = _spell(sides[1], len(out.shape)) if len(sides) > 1 else _once(letters)
    sizes: dict[str, Poly] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            if sizes.get(letter, poly(1)) == poly(1):
                sizes[letter] = size
    macs, gemm = ZERO, (poly(1), poly(1), poly(1), poly(1))
    current = terms[0]
    for position, term in enumerate(terms[1:], start=1):
        needed = set(result).union(*terms[position + 1 :])
        union = "".join(dict.fromkeys(current + term))
        kept = [x for x in union if x in needed]
        groups = [
            [x for x in kept if x in current and x in term],
            [x for x in kept if x not in term],
            [x for x in kept if x not in current],
            [x for x in union if x not in needed],
        ]
        step = tuple(product(sizes[x] for x in group) for group in groups)
        macs = macs + product(step)
        gemm = (step[0], step[1], step[2], step[3])
        current = "".join(kept)
    return Contraction("matmul", macs, gemm)


def _spell(term: str, rank: int) -> str:
    """An einsum term with its ellipsis written out as capital letters from the end of the alphabet."""
    if "..." not in term:
        return term
    missing = rank - (len(term) - 3)
    return term.replace("...", "".join(chr(0x3B1 + 24 - missing + i) for i in range(missing)))


def _once(letters: str) -> str:
    return "".join(sorted(letter for letter in letters if letters.count(letter) == 1))


def bilinear(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    weight = _tensor(args, metas, "weight")
    rows = out.numel // weight.shape[0]
    first = rows * weight.numel  # x1 W, then times x2
    second = rows * weight.shape[0] * weight.shape[2]
    gemm = (poly(1), rows, weight.shape[0] * weight.shape[2], weight.shape[1])
    return Contraction("matmul", first + second, gemm)


def attention(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """softmax(Q K^T) V. A causal mask leaves row i its first i columns; scores that a mask given as a tensor leaves
    out count, as no kernel can know them."""
    query, key = _tensor(args, metas, "query", "0"), _tensor(args, metas, "key", "1")
    value = _tensor(args, metas, "value", "2")
    heads, rows, columns = product(query.shape[:-2]), query.shape[-2], key.shape[-2]
    if args.get("is_causal") and rows == columns:
        columns = (rows + 1).half
    scores = heads * rows * columns
    macs = scores * (query.shape[-1] + value.shape[-1])
    mask = 1 if isinstance(args.get("attn_mask"), Ref) else 0
    gemm = (heads, rows, columns, query.shape[-1])
    flops = scores * (ATTENTION_FLOPS + mask)
    return Contraction("attention", macs, gemm, flops, scores * ATTENTION_SPECIAL)


def recurrent(gates: int, flops: int, special: int) -> Function:
    """A whole recurrent layer stack from its weights: every weight matrix multiplies every time step.

    `flops` and `special` are the gate arithmetic per hidden unit and step, biases included.
    """

    def function(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
        tensor = _tensor(args, metas, "input", "data")
        weights = [metas[ref.name] for ref in references(args["params"])]
        matrices = [weight for weight in weights if len(weight.shape) == 2]
        steps = product(tensor.shape[:-1])
        macs = product((steps, sum((weight.numel for weight in matrices), ZERO)))
        # Input and hidden matrices of a layer and direction both have gates * hidden rows.
        rows = sum((weight.shape[0] for weight in matrices[::2]), ZERO)
        units = steps * (rows // gates)
        length = tensor.shape[0 if not args.get("batch_first") else 1] if len(tensor.shape) == 3 else steps
        # As a device runs it: one small product per time step; G counts steps and layers.
        inner = matrices[-1].shape[1]
        per_step = steps // length
        gemm = (length * len(matrices), per_step, matrices[0].shape[0], inner)
        return Contraction("recurrent", macs, gemm, units * flops, units * special)

    return function


def cell(gates: int, flops: int, special: int) -> Function:
    """One step of one recurrent layer."""

    def function(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
        tensor, w_ih = _tensor(args, metas, "input"), _tensor(args, metas, "w_ih")
        w_hh = _tensor(args, metas, "w_hh")
        batch = product(tensor.shape[:-1])
        units = batch * (w_ih.shape[0] // gates)
        macs = batch * (w_ih.numel + w_hh.numel)
        gemm = (poly(1), batch, w_ih.shape[0], w_ih.shape[1] + w_hh.shape[1])
        return Contraction("recurrent", macs, gemm, units * flops, units * special)

    return function


def _int(value: Any) -> int:
    return value.constant() if isinstance(value, Poly) else int(value)
