"""Memoized results, stored in the record they depend on (a frozen struct with `dict=True`, or any object) and freed
with it. Records share (`share_memos`) the `shared` results that do not depend on how they differ. And items grouped."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
Record = TypeVar("Record")
Result = TypeVar("Result")
Function = Callable[Concatenate[Record, P], Result]

_ABSENT: Any = object()
_STORES = {False: "_remembered", True: "_shared"}


def memoize(
    *, keep: int | None = None, shared: bool = False
) -> Callable[[Function[Record, P, Result]], Function[Record, P, Result]]:
    """Memoize a function of a record, by positional and hashable arguments. `keep` bounds the results per record; the
    least recently used are dropped first."""

    def decorate(function: Function[Record, P, Result]) -> Function[Record, P, Result]:
        """Return the function, memoized in the records that it is called with."""
        key, name = _key(function), _STORES[shared]

        @wraps(function)
        def call(record: Record, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            """Return the stored result, or compute and store it."""
            if kwargs:
                raise TypeError(f"{function.__name__} is remembered by positional arguments")
            results: dict[Any, Result] = vars(record).setdefault(name, {}).setdefault(key, {})
            result: Result = results.get(args, _ABSENT) if keep is None else results.pop(args, _ABSENT)
            if result is _ABSENT:
                result = function(record, *args, **kwargs)
                if keep is not None and len(results) >= keep:
                    results.pop(next(iter(results)))
            results[args] = result
            return result

        return call

    return decorate


def share_memos(record: object, other: object) -> None:
    """Give `other` the shared results of `record`: present ones, and those that either adds later."""
    vars(other)[_STORES[True]] = _store(record, True)


def forget_memos(record: object, *functions: Callable[..., Any]) -> None:
    """Drop the results of these functions that a record stores."""
    for function in functions:
        _store(record, False).pop(_key(function), None)


def _key(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _store(record: object, shared: bool) -> dict[str, dict[Any, Any]]:
    store: dict[str, dict[Any, Any]] = vars(record).setdefault(_STORES[shared], {})
    return store


Item = TypeVar("Item")
Key = TypeVar("Key")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items of each key. Keys, and the items of each, are in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


class SourcedValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value with its spread and source."""

    value: float
    low: float
    high: float
    source: str
    quality: str

    @property
    def all(self) -> tuple[float, float, float]:
        """The value, low and high. Of times, low is the fast end; of rates and shares, low is the slow end."""
        return self.value, self.low, self.high


def exact_value(value: float) -> SourcedValue:
    """Return a number without spread or source, as a default."""
    return SourcedValue(value=value, low=value, high=value, source="", quality="")
