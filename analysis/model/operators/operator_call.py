"""One call of an operator with the shapes of its tensors, and the cost of a call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.model.ir.operator_graph import Meta, Ref, references
from analysis.model.ir.poly import Poly, poly

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
