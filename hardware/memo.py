"""Results kept with the record they follow from, a frozen struct with `dict=True` or any object; they live and die with
it. Records that differ only in what some results do not depend on `share_memos` of the `shared` kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Record = TypeVar("Record")
Result = TypeVar("Result")
Function = Callable[Concatenate[Record, P], Result]

_STORES = {False: "_remembered", True: "_shared"}


def memoize(
    *, keep: int | None = None, shared: bool = False
) -> Callable[[Function[Record, P, Result]], Function[Record, P, Result]]:
    """Remember what a function of a record finds, by positional and hashable arguments; `keep` bounds the results of a
    record, the least recently used go first."""

    def decorate(function: Function[Record, P, Result]) -> Function[Record, P, Result]:
        """Return the function with a memory in the records that it is given."""
        key = _key(function)

        @wraps(function)
        def call(record: Record, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            """Return what is remembered, else find it."""
            if kwargs:
                raise TypeError(f"{function.__name__} is remembered by positional arguments")
            results: dict[Any, Result] = _store(record, shared).setdefault(key, {})
            if args in results:
                if keep is not None:
                    results[args] = results.pop(args)
                return results[args]
            result = function(record, *args, **kwargs)
            if keep is not None and len(results) >= keep:
                results.pop(next(iter(results)))
            results[args] = result
            return result

        return call

    return decorate


def share_memos(record: object, other: object) -> None:
    """Give `other` the shared results of `record`: those there are, and those that either finds later."""
    vars(other)[_STORES[True]] = _store(record, True)


def forget_memos(record: object, *functions: Callable[..., Any]) -> None:
    """Drop what is remembered of a record: what these functions found."""
    for function in functions:
        _store(record, False).pop(_key(function), None)


def _key(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _store(record: object, shared: bool) -> dict[str, dict[Any, Any]]:
    store: dict[str, dict[Any, Any]] = vars(record).setdefault(_STORES[shared], {})
    return store
