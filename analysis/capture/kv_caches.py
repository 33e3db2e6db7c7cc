"""Key-value caches of transformers as trees of tensors, so that they may go into a capture and come out of it."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

_LIBRARY = "transformers."


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor was."""

    index: int


@dataclass(eq=False, slots=True)
class _Form:
    """What a cache is without its tensors; one is as good as another."""

    of: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Form)

    __hash__ = None  # type: ignore[assignment]


def register() -> None:
    """Every kind of cache there is becomes a tree; nothing where transformers is not in use."""
    module = sys.modules.get(f"{_LIBRARY}cache_utils")
    kinds = [getattr(module, "Cache", None)]
    for kind in kinds:
        if kind is not None and kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                _flatten,
                _unflatten,
                serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
                flatten_with_keys_fn=_with_keys,
            )
        kinds += kind.__subclasses__() if kind is not None else []


def in_use() -> bool:
    """Whether transformers is."""
    return f"{_LIBRARY}cache_utils" in sys.modules


def masked(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs with an attention mask for their tokens: transformers makes none while a model is exported, and some of
    its models (LongT5, Switch) go on to read it."""
    signature = inspect.signature(module.forward)
    given = signature.bind_partial(*arguments, **keywords).arguments
    if "input_ids" in given and "attention_mask" in signature.parameters.keys() - given.keys():
        keywords = keywords | {"attention_mask": torch.ones_like(given["input_ids"])}
    return arguments, keywords


def _flatten(cache: Any) -> tuple[list[Any], _Form]:
    leaves: list[Any] = []
    return leaves, _Form((type(cache), _emptied(vars(cache), leaves)))


def _with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], _Form]:
    leaves, form = _flatten(cache)
    return [(pytree.SequenceKey(place), leaf) for place, leaf in enumerate(leaves)], form


def _unflatten(leaves: Any, form: _Form) -> Any:
    kind, parts = form.of
    cache = kind.__new__(kind)
    vars(cache).update(_filled(parts, list(leaves)))
    return cache


def _emptied(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return _Place(len(leaves) - 1)
    if isinstance(value, dict):
        return {key: _emptied(item, leaves) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_emptied(item, leaves) for item in value]
    if _is_part(value):
        return _Form((type(value), _emptied(vars(value), leaves)))
    return value


def _filled(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, _Place):
        return leaves[value.index]
    if isinstance(value, dict):
        return {key: _filled(item, leaves) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, leaves) for item in value]
    if isinstance(value, _Form):
        kind, parts = value.of
        part = kind.__new__(kind)
        vars(part).update(_filled(parts, leaves))
        return part
    return value


def _is_part(value: Any) -> bool:
    """A layer of a cache, or a cache in a cache."""
    return type(value).__module__.startswith(f"{_LIBRARY}cache_utils") and hasattr(value, "__dict__")
