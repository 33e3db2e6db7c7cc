"""Plug-ins: verbs, readers, architectures and runtimes that other packages add by entry points (docs/extending.md).

Entry points are read, in about 20 ms, only if a name is not built in or if all names are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hardware.base.errors import RequestError
from hardware.base.text import safe

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

# Names of the annexes, which this package does without, by kind.
EXTRA = {"verbs": ("calibrate", "trace", "tune.design"), "readers": (".onnx", "trace")}
_INSTALL = "pip install 'hwexplorer[all]'"
_CHECKOUT = Path(__file__).parents[2] / "hwexplorer_annexes" / "pyproject.toml"


class Names(Collection[str]):
    """Names of one kind: built-in ones, then those of plug-ins."""

    def __init__(self, kind: str, built_in: Iterable[str] = ()) -> None:
        self.kind, self.built_in = kind, dict.fromkeys(built_in)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in entry_points(self.kind)

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in entry_points(self.kind) if name not in self.built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Records(Names, Mapping[str, T]):
    """Things of one kind by name. `find` returns a built-in one, `convert` checks what a plug-in names. A plug-in that
    fails raises RequestError when it is asked for; in a list it is left out, with a warning."""

    def __init__(
        self, kind: str, built_in: Iterable[str], find: Callable[[str], T], convert: Callable[[str, Any], T]
    ) -> None:
        super().__init__(kind, built_in)
        self._find, self._convert, self._plugged = find, convert, dict[str, T]()

    def __getitem__(self, name: str) -> T:
        if name in self.built_in:
            return self._find(name)
        if name not in entry_points(self.kind):
            raise KeyError(name)
        if name not in self._plugged:
            self._plugged[name] = load(self.kind, name, self._convert)
        return self._plugged[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from self.plugged()

    def plugged(self) -> dict[str, T]:
        """Return those of plug-ins."""
        usable = {}
        for name in entry_points(self.kind):
            try:
                usable[name] = self[name]
            except RequestError as error:
                warn(str(error))
        return usable


@cache
def entry_points(kind: str) -> dict[str, EntryPoint]:
    """Return the entry points of a kind by name. A checkout has its annexes without an installation."""
    from importlib import metadata

    group = f"hwexplorer.{kind}"
    points = {point.name: point for point in metadata.entry_points(group=group)}
    if _CHECKOUT.is_file():
        import tomllib

        rows = tomllib.loads(_CHECKOUT.read_text(encoding="utf-8"))["project"]["entry-points"].get(group, {})
        points |= {name: metadata.EntryPoint(name, value, group) for name, value in rows.items()}
    return dict(sorted(points.items()))


def load(kind: str, name: str, convert: Callable[[str, Any], Any] = lambda name, found: found) -> Any:
    """Return what an entry point names, converted. Raises RequestError, in one line, if it is missing or fails."""
    point = entry_points(kind).get(name)
    if point is None:
        raise RequestError(f"the {kind[:-1]} {name!r} needs an extra: {_INSTALL}")
    try:
        return convert(name, point.load())
    except Exception as error:  # of another package's code
        reason = safe(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        raise RequestError(f"the plug-in {name!r} ({point.value}) cannot be used: {reason}") from error


@cache
def warn(line: str) -> None:
    """Warn once, in one line on standard error."""
    import logging

    logging.getLogger("hwexplorer").warning("hwexplorer: %s", line)
