"""Register the key-value caches of transformers as pytrees: inputs and outputs of a capture may then hold them."""

import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from analysis.capture.torch_settings import add_class

_LIBRARY = "transformers."


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a tensor among the leaves of a cache."""

    index: int


@dataclass(slots=True)
class _Form:
    """A cache without its tensors. All forms are equal, so that a capture accepts any."""

    of: Any = field(compare=False)


def register() -> None:
    """Register every cache class of transformers as a pytree, if transformers is loaded."""
    module = sys.modules.get(f"{_LIBRARY}cache_utils")
    kinds = [getattr(module, "Cache", None)]
    for kind in kinds:
        if kind is not None:
            add_class(kind, _flatten, lambda leaves, form: _restore_tensors(form, list(leaves)), _with_keys)
        kinds += kind.__subclasses__() if kind is not None else []


def _flatten(cache: Any) -> tuple[list[Any], _Form]:
    leaves: list[Any] = []
    return leaves, _Form((type(cache), _remove_tensors(vars(cache), leaves)))


def _with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], _Form]:
    leaves, form = _flatten(cache)
    return [(pytree.SequenceKey(place), leaf) for place, leaf in enumerate(leaves)], form


def _remove_tensors(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return _Place(len(leaves) - 1)
    if isinstance(value, dict):
        return {key: _remove_tensors(item, leaves) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_remove_tensors(item, leaves) for item in value]
    is_of_library = type(value).__module__.startswith(f"{_LIBRARY}cache_utils")  # a layer, or a cache
    if is_of_library and hasattr(value, "__dict__"):
        return _Form((type(value), _remove_tensors(vars(value), leaves)))
    return value


def _restore_tensors(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, _Place):
        return leaves[value.index]
    if isinstance(value, dict):
        return {key: _restore_tensors(item, leaves) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_tensors(item, leaves) for item in value]
    if isinstance(value, _Form):
        kind, parts = value.of
        part = kind.__new__(kind)
        vars(part).update(_restore_tensors(parts, leaves))
        return part
    return value
