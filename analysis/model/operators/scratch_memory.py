"""Scratch memory of a PyTorch call on a CPU in elements, beyond its tensors; measured at the allocator (torch 2.13).

Recurrent layers keep the gates of all steps. The LSTM of oneDNN also keeps a copy of the weights in another layout.
"""

from collections.abc import Callable
from functools import partial, reduce

from analysis.model.ir.operator_graph import references
from analysis.model.ir.poly import Poly, product, smaller
from analysis.model.operators.operator_call import ZERO, OperatorCall


def scratch_of(call: OperatorCall) -> Poly:
    """Return the elements that a call allocates in addition to its arguments and results; 0 without a rule."""
    try:
        return _RULES[call.name](call) if call.name in _RULES else ZERO
    except (KeyError, ValueError, IndexError, TypeError):
        return ZERO


def _linear(call: OperatorCall) -> Poly:
    rows = call.tensor("input")
    return ZERO if rows.is_flat else rows.numel


def _maximum(*sizes: Poly) -> Poly:
    return reduce(lambda a, b: b if smaller(a, b) == a else a, sizes)


def _recurrent(gates: int, call: OperatorCall) -> Poly:
    data, state = call.tensor("input"), call.metas[references(call.args["hx"])[0].name]
    given = [call.metas[ref.name] for ref in references(call.args["params"])]
    matrices = [each for each in given if len(each.shape) == 2]
    if len(matrices) != 2 * state.shape[0].constant():
        return ZERO  # projections take another code path
    width, step = matrices[1].shape[1], state.shape[1] * state.shape[2]
    units = product(data.shape[:-1]) * width
    both = bool(call.args.get("bidirectional"))
    copy = data.numel if call.args.get("batch_first") else ZERO  # the kernel needs the steps first
    needed = ZERO
    for layer, weights in enumerate(matrices[:: 4 if both else 2]):
        before = units * (1 + both) if layer else ZERO
        if gates == _LSTM:  # keeps the copy to its end, and both directions with their concatenation
            before = before * (1 + both)
            taken = weights.shape[0] * (weights.shape[1] + width + 1) + units * gates + copy
        else:
            taken = _by_steps(gates, units, step, ZERO if layer else copy, both)
        needed = _maximum(needed, before + taken)
    return needed


def _by_steps(gates: int, units: Poly, step: Poly, copy: Poly, both: bool) -> Poly:
    """Return the scratch memory of a layer of separate operators: gates of all steps, step results and their join."""
    if both:
        return _maximum(units * (2 * gates) + copy, units * (gates + 4))
    return _maximum(units * (gates + 1), units * gates + step * (gates + 2), copy + units * gates - units)


_LSTM = 4  # gates
_RULES: dict[str, Callable[[OperatorCall], Poly]] = {
    "linear": _linear,
    "lstm": partial(_recurrent, _LSTM),
    "gru": partial(_recurrent, 3),
    "rnn_tanh": partial(_recurrent, 1),
    "rnn_relu": partial(_recurrent, 1),
}
