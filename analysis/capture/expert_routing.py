"""Give a size to the rows that a router sends to an expert, which depend on values: experts share tokens evenly."""

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from analysis.capture.exporter import ExportError
from hardware.known_architectures import TORCH_HOST

NOTE = "experts are taken to share the tokens evenly: which of them a router chooses depends on values"
_CHOICES = {"topk": 2, "max": 1, "argmax": 1}  # functions that choose an expert -> position of their dimension
_SAME = frozenset((  # functions whose result has the mark of their first argument
    "view", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "transpose", "permute", "t", "T", "expand",
    "contiguous", "clone", "detach", "unbind", "gt", "ne", "greater", "to", "type", "bool", "int",
    "long", "float", "cuda", "get", "set", TORCH_HOST,
))  # fmt: skip
_COMPARISONS = ("eq", "gt", "ne", "lt", "ge", "le")
# A patched __bool__ has the name "_method".
_NUMBERS: dict[str, Any] = {"bool": bool, "method": bool, "item": operator.pos, "int": int, "index": int}


@dataclass(frozen=True, slots=True)
class _Routed:
    """Marks a mask of which `part / experts` are true, or counts that are `part / experts`; without `part`, numbers of
    experts. `expert` is the number of the one expert that it is about."""

    experts: int
    part: Any = None
    expert: int | None = None

    def count(self, size: Any = 1, expert: int | None = None) -> Any:
        """Return how many of `size` elements are true, or the number of the expert. If tokens remain, the first experts
        have one more."""
        if self.part is None:
            return self.expert
        total = size * self.part
        if isinstance(total, int):
            return (total + self.experts - 1 - (expert or self.expert or 0)) // self.experts
        if statically_known_true(total % self.experts == 0):
            return total // self.experts
        raise ExportError(f"its {self.experts} experts share the tokens evenly only at a fixed batch")


class ExpertRouting(TorchFunctionMode):  # type: ignore[misc]
    """Marks the choices of a router and the masks made from them, and gives each mask a fixed number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self._marks = WeakTensorKeyDictionary()
        self.is_used = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "").strip("_")
        if not any(self._mark(value) for value in tree_leaves((args, kwargs))):
            result = func(*args, **kwargs)
            axis = kwargs.get("dim", (*args, -1, -1)[_CHOICES[name]]) if name in _CHOICES else None
            if isinstance(axis, int) and args[0].dim() and isinstance(experts := args[0].shape[axis], int):
                self._marks[result[1] if isinstance(result, tuple) else result] = _Routed(experts)
            return result
        if (mark := self._mark(args[0])) and (fixed := self._fixed(name, mark, args, kwargs)) is not None:
            self.is_used = True
            return fixed
        if name in ("getitem", "setitem"):
            args = (args[0], self._places(args[1]), *args[2:])
        result = func(*args, **kwargs)
        for number, part in enumerate(result if name == "unbind" else [result]):
            if isinstance(part, torch.Tensor) and (after := self._mark_of(name, args, part)):
                self._marks[part] = replace(after, expert=number) if name == "unbind" else after
        return result

    def _mark(self, value: Any) -> Any:
        return self._marks.get(value) if isinstance(value, torch.Tensor) else None

    def _fixed(self, name: str, mark: _Routed, args: Any, options: Any) -> Any:
        """Return the result of a call whose size or value depends on the choices, None for other calls."""
        value = args[0]
        if name in _NUMBERS and value.numel() == 1 and mark.count() is not None:
            return _NUMBERS[name](mark.count())
        if name in _COMPARISONS and value.numel() == 1 and isinstance(args[1], int) and mark.count() is not None:
            return getattr(operator, name)(mark.count(), args[1])
        if mark.part is None and name == "bincount":
            with self:
                return torch.nn.functional.one_hot(value, mark.experts).view(-1, mark.experts).sum(0)
        if mark.part is None:
            return None
        if name in ("nonzero", "nonzero_numpy", "argwhere") or (name == "where" and len(args) == 1):
            places = self._nonzero(value, mark)
            return places if name in ("nonzero", "argwhere") and not options.get("as_tuple") else places.unbind(1)
        if name == "numpy" and value.dim() == 1 and mark.expert is None:
            return np.array([mark.count(expert=expert) for expert in range(mark.experts)])
        return None

    def _mark_of(self, name: str, args: Any, result: Any) -> _Routed | None:
        """Return the mark of the result of a call on a marked tensor."""
        mark: _Routed | None = self._mark(args[0])
        other = args[1] if len(args) > 1 else None
        if name == "scatter" and (chosen := self._mark(args[2])):
            return _Routed(chosen.experts, args[2].shape[args[1]])
        if mark is None or name in _SAME:
            return mark
        if name in ("eq", "one_hot") and mark.part is None:
            return _Routed(mark.experts, 1, self._number(other) if name == "eq" else None)
        if name in ("sum", "any") and mark.part is not None:
            return replace(mark, part=mark.part * (args[0].numel() // result.numel()))
        if name in ("getitem", "select") and mark.part is not None and mark.expert is None:
            chosen = args[-1:] if name == "select" else other if isinstance(other, tuple) else (other,)
            return replace(
                mark, expert=next((number for number in map(self._number, chosen) if number is not None), None)
            )
        return mark if name in ("getitem", "select") else None

    def _number(self, value: Any) -> int | None:
        """Return the number of an expert, None if the value is not one."""
        return value if isinstance(value, int) else getattr(self._mark(value), "expert", None)

    def _nonzero(self, mask: Any, mark: _Routed) -> Any:
        """Return where a mask is true, a row for each place."""
        size = mark.count(mask.numel())
        places = torch.nonzero_static(mask, size=size if size < mask.numel() else mask.numel())
        if mask.dim() == 1 and mark.expert is None:  # the experts that have tokens
            self._marks[places] = _Routed(mark.experts)
        return places

    def _places(self, index: Any) -> Any:
        """Return an index with the places of a mask instead of the mask."""
        places: list[Any] = []
        for one in index if isinstance(index, tuple) else (index,):
            mark = self._mark(one)
            is_mask = mark is not None and one.dtype == torch.bool
            self.is_used |= is_mask
            places += self._nonzero(one, mark).unbind(1) if is_mask else [one]
        return tuple(places) if isinstance(index, tuple) or len(places) > 1 else places[0]
