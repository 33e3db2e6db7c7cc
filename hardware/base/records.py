"""Memoized results, stored in the record they depend on (a frozen struct with `dict=True`, or any object) and freed
with it. Records share (`share_memos`) the `shared` results that do not depend on how they differ. The `large` results
of all records together are at most LARGE_BYTES, and work that needs many is done in slices. And items grouped."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from itertools import count, repeat
from threading import local
from time import thread_time
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar
from weakref import ReferenceType, ref

import msgspec

P = ParamSpec("P")
Record = TypeVar("Record")
Result = TypeVar("Result")
Function = Callable[Concatenate[Record, P], Result]

ABSENT: Any = object()
_MEMOS = ("_remembered", "_shared")

LARGE_BYTES = 6_000_000  # what large models on four devices need
_LATEST = 8  # results that stay however large they are: the present views, as a tree of 5,000 rows
_KEPT_PART = 0.75  # of LARGE_BYTES, which stays when results are dropped: so it happens rarely
_GIVE_BACK_BYTES = 2_000_000  # of new results: making them leaves ten times as much free memory
_APART_BYTES = 32_768
_M_MMAP_THRESHOLD = -3  # of mallopt
_M_ARENA_MAX = -8
_FEW = 8  # longer sequences are measured by their first, middle and last item
_OBJECT_BYTES = 48
_uses = count()


class Large:
    """A large result. The results that were used least recently are dropped, wherever they are stored: then `result` is
    ABSENT."""

    __slots__ = ("__weakref__", "bytes", "result", "used")

    _all: ClassVar[set[ReferenceType[Large]]] = set()
    _total: ClassVar[int] = 0
    _since: ClassVar[int] = 0  # bytes of results made since memory was given back

    def __init__(self, result: Any) -> None:
        self.result, self.used, self.bytes = result, next(_uses), measure_bytes(result)
        Large._all.add(ref(self, Large._all.discard))
        Large._total += self.bytes
        Large._since += self.bytes
        if Large._total > LARGE_BYTES:
            self._drop_others()
        if Large._since > _GIVE_BACK_BYTES:
            Large._since = 0
            give_memory_back()

    def use(self) -> Any:
        """Return the result, which is then the one that was used last."""
        self.used = next(_uses)
        return self.result

    def _drop(self) -> None:
        """Drop the result, and what its parts remember: that refers to them, and would keep them until a collection."""
        for part in self.result if isinstance(self.result, tuple) else (self.result,):
            getattr(part, "__dict__", {}).pop(_MEMOS[False], None)
        Large._total -= self.bytes
        self.result, self.bytes = ABSENT, 0

    __del__ = _drop

    def _drop_others(self) -> None:
        found = {other.used: each for each in [*self._all] if (other := each()) is not None}
        other = None  # what a dropped result held is freed at once, and counts
        for used in sorted(found)[:-_LATEST]:
            if (other := found[used]()) is not None and other is not self:
                other._drop()
            if Large._total <= _KEPT_PART * LARGE_BYTES:
                break


def give_memory_back() -> None:
    """Give free memory back to the system: glibc keeps what is free between other arrays, unless it is asked."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def map_arrays_apart() -> None:
    """Let glibc give back each array of _APART_BYTES when it is freed: among others, it leaves a gap. It is slower.
    Threads that read models have no heap of their own."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _APART_BYTES)
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def measure_bytes(result: Any) -> int:
    """Return about how many bytes a result takes, without parts that keep results of their own: others share them."""
    total, left, arrays = 0, [(result, 1)], dict[int, int]()
    while left:
        value, times = left.pop()
        if hasattr(value, "nbytes"):  # an array; NumPy is not needed to start the screen
            arrays[id(value)] = value.nbytes
        elif isinstance(value, tuple | list):
            if len(value) > _FEW:
                times, value = times * len(value) // 3, (value[0], value[len(value) // 2], value[-1])
            left += zip(value, repeat(times))
        elif isinstance(value, msgspec.Struct) and (value is result or not getattr(value, "__dict__", None)):
            left += zip(map(getattr, repeat(value), value.__struct_fields__), repeat(times))
        total += times * _OBJECT_BYTES
    return total + sum(arrays.values())


class Paused(BaseException):
    """A slice of work is over. Its large results are kept, so that the work goes on from there if it is begun again."""


class _Slice(local):
    """The slice of work of a thread: when it is over, by the clock of the thread; 0 without one."""

    end_s = 0.0


class Slices:
    """A context that pauses work after SLICE_S of processor time, before it computes another large result (`pause`).
    While `is_paused`, it is to be begun again in the same context, whose slices grow: it ends even if results are
    dropped. The first slice takes `length_s`."""

    SLICE_S: ClassVar[float] = 0.03
    now: ClassVar[_Slice] = _Slice()

    def __init__(self, length_s: float | None = None) -> None:
        self.is_paused, self._length_s = False, Slices.SLICE_S if length_s is None else length_s

    def grew(self, factor: float) -> bool:
        """Return True once slices are so many times as long as at first: 1.3 after two, and 5 after about a second."""
        return self._length_s > factor * Slices.SLICE_S

    def __enter__(self) -> None:
        Slices.now.end_s = thread_time() + self._length_s
        self._length_s *= 1.2 if self._length_s < 0.2 else 1.03  # 0.3 s after 4 s

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        Slices.now.end_s, self.is_paused = 0.0, kind is Paused
        return self.is_paused

    @staticmethod
    def pause() -> None:
        """Raise Paused if a slice is over. Called before something long whose result is kept."""
        if Slices.now.end_s and thread_time() > Slices.now.end_s:
            raise Paused


def memoize(
    *, keep: int | None = None, shared: bool = False, large: bool = False
) -> Callable[[Function[Record, P, Result]], Function[Record, P, Result]]:
    """Memoize a function of a record, by positional and hashable arguments. `keep` bounds the results per record; the
    least recently used are dropped first. `large` results are bounded by their bytes instead."""

    def decorate(function: Function[Record, P, Result]) -> Function[Record, P, Result]:
        """Return the function, memoized in the records that it is called with."""
        key, name = _key(function), _MEMOS[shared]

        @wraps(function)
        def call(record: Record, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            """Return the stored result, or compute and store it."""
            if kwargs:
                raise TypeError(f"{function.__name__} is remembered by positional arguments")
            results: dict[Any, Any] = vars(record).setdefault(name, {}).setdefault(key, {})
            stored = results.get(args, ABSENT) if keep is None else results.pop(args, ABSENT)
            result: Result = stored
            if large and stored is not ABSENT:
                result = stored.use()
            if result is ABSENT:
                if large:
                    Slices.pause()
                result = function(record, *args, **kwargs)
                if keep is not None and len(results) >= keep:
                    results.pop(next(iter(results)))
                stored = Large(result) if large else result
            results[args] = stored
            return result

        return call

    return decorate


def share_memos(record: object, other: object) -> None:
    """Give `other` the shared results of `record`: present ones, and those that either adds later."""
    vars(other)[_MEMOS[True]] = _store(record, True)


def has_memo(record: object, function: Callable[..., Any], *args: Any) -> bool:
    """Return True if a record stores the result of a function that is not large, so that nothing must be computed."""
    return args in _store(record, False).get(_key(function), ())


def forget_memos(record: object, *functions: Callable[..., Any]) -> None:
    """Drop the results of these functions that a record stores."""
    for function in functions:
        _store(record, False).pop(_key(function), None)


def _key(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _store(record: object, shared: bool) -> dict[str, dict[Any, Any]]:
    store: dict[str, dict[Any, Any]] = vars(record).setdefault(_MEMOS[shared], {})
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
