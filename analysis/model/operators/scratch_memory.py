"""What PyTorch on a CPU takes beside the tensors of a graph to do a call, in elements, where its arguments say it.

Read off the allocator's events (torch 2.13), as workspace.py: recurrent layers keep the gates of all steps
and, where oneDNN runs them (LSTM), weights in its own layout; a linear layer copies rows that are not side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from analysis.model.ir.operator_graph import references
from analysis.model.ir.poly import Poly, product, smaller
from analysis.model.operators.operator_call import ZERO, OperatorCall


def scratch_of(call: OperatorCall) -> Poly:
    """Elements taken while a call runs, its results not among them; nothing where no rule is known or fits."""
    try:
        return _RULES[call.name](call) if call.name in _RULES else ZERO
    except (KeyError, ValueError, IndexError, TypeError):
        return ZERO


def _linear(call: OperatorCall) -> Poly:
    rows = call.tensor("input")
    return ZERO if rows.is_flat else rows.numel


def _largest(*sizes: Poly) -> Poly:
    return reduce(lambda a, b: b if smaller(a, b) == a else a, sizes)


def _recurrent(gates: int) -> Callable[[OperatorCall], Poly]:
    """At the layer that takes most, with the results of the layer before."""

    def rule(call: OperatorCall) -> Poly:
        data, state = call.tensor("input"), call.metas[references(call.args["hx"])[0].name]
        given = [call.metas[ref.name] for ref in references(call.args["params"])]
        matrices = [each for each in given if len(each.shape) == 2]
        if len(matrices) != 2 * state.shape[0].constant():
            return ZERO  # projected: another way
        width, step = matrices[1].shape[1], state.shape[1] * state.shape[2]
        units = product(data.shape[:-1]) * width
        both = bool(call.args.get("bidirectional"))
        copy = data.numel if call.args.get("batch_first") else ZERO  # inside, steps come first
        needed = ZERO
        for layer, weights in enumerate(matrices[:: 4 if both else 2]):
            before = units * (1 + both) if layer else ZERO
            if gates == _LSTM:  # keeps the copy to its end, and both directions beside what is joined of them
                before = before * (1 + both)
                taken = weights.shape[0] * (weights.shape[1] + width + 1) + units * gates + copy
            else:
                taken = _by_steps(gates, units, step, ZERO if layer else copy, both)
            needed = _largest(needed, before + taken)
        return needed

    return rule


def _by_steps(gates: int, units: Poly, step: Poly, copy: Poly, both: bool) -> Poly:
    """A layer of separate operators: gates of the inputs of all steps, a result of each step, then these joined; in two
    directions the gates of one are there while those of the other are made."""
    if both:
        return _largest(units * (2 * gates) + copy, units * (gates + 4))
    return _largest(units * (gates + 1), units * gates + step * (gates + 2), copy + units * gates - units)


_LSTM = 4  # gates
_RULES: dict[str, Callable[[OperatorCall], Poly]] = {
    "linear": _linear,
    "lstm": _recurrent(_LSTM),
    "gru": _recurrent(3),
    "rnn_tanh": _recurrent(1),
    "rnn_relu": _recurrent(1),
}
