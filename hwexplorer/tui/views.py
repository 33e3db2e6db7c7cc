"""The views of a state, each computed only when a field it reads has changed, the last few of each kept.

So a cursor key recomputes what hangs on the cursor, and going back to a batch or a device costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hwexplorer.plots import reads as plot_reads
from hwexplorer.settings import NAMES
from hwexplorer.state import MORE, State, node, replace
from hwexplorer.tui.folding import folded
from hwexplorer.views.plain import Card, Page, Plot, Row, Table, Text

if TYPE_CHECKING:
    from hwexplorer.provider import EngineProvider

_ALL = State.__struct_fields__
_RUN = ("model", *NAMES)
_AGAINST = ("pin", "baseline", "metric", "devices")
# What views hang on; a view that is not here, on everything.
READS: dict[str, tuple[str, ...]] = {
    "models": (*_RUN, "on"),
    "compare": (*_RUN, *_AGAINST, "diff", "rank", "rank_reverse", "limits"),
    "cards": (*_RUN, "metric", "devices", "baseline", "limits"),
    "tree": (*_RUN, *_AGAINST, "on", "diff", "sort", "descending", "heat", "by", "apart", "trace"),
    "heat": (*_RUN, "metric", "devices", "on", "by"),
    "events": (*_RUN, *_AGAINST, "on", "at", "diff", "dynamic"),
    "why": (*_RUN, *_AGAINST, "on", "at", "diff"),
    "plot": (*_RUN, *_AGAINST, "on", "plot"),
    "devices": ("devices",),
    "below": (*_RUN, "on", "at"),
    "knobs": (*_RUN, "on", "metric", "fact"),
    "status": (*_RUN, *_AGAINST, "on", "at"),
    "verdict": (*_RUN, *_AGAINST, "on", "diff"),
}
ALWAYS = ("cards", "tree", "status", "verdict")  # what is on screen whatever the panes
KEPT = 160  # views; fewer where they are long, so that large models do not fill the memory
FEWEST = 60  # those of the state on screen and of its neighbours
ROWS = 12_000
TOO_LARGE = 0.5  # of the model: what is more says little as one block


class Views:
    """A state's views, each made when it is first asked for: those of panes that are out of sight never are. `tree` has
    its small rows folded, `unfolded` has not."""

    unfolded: Table
    heat: Table
    models: Table
    compare: Table
    cards: tuple[Card, ...]
    events: Table
    why: Text
    plot: Plot
    knobs: Page
    status: str
    verdict: str

    def __init__(self, cache: Cache, state: State) -> None:
        self._cache, self._state = cache, state

    def make(self, names: Iterable[str]) -> None:
        """Make some now; RequestError where one cannot be."""
        for name in names:
            getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        view = self._cache.view("tree" if name == "unfolded" else name, self._state)
        setattr(self, name, view)
        return view

    @cached_property
    def tree(self) -> Table:
        return self._cache.folded(self._state, self.unfolded)

    @cached_property
    def below(self) -> frozenset[str]:
        """The points that the row under the cursor stands for in a plot of operators."""
        if not node(self._state.at) or plot_reads(self._state.plot):
            return frozenset()
        made: frozenset[str] = self._cache.view("below", self._state)
        return made

    def device(self, key: str) -> str:
        """What a device is called."""
        return next((card.name for card in self.cards if card.key == key), key)


class Cache:
    """Views by what they depend on; the oldest are forgotten."""

    def __init__(self, provider: EngineProvider) -> None:
        self.provider = provider
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._rows = 0

    def views(self, state: State) -> Views:
        return Views(self, state)

    def folded(self, state: State, unfolded: Table) -> Table:
        """The tree with its small rows folded as the state has it."""
        if not state.fold:
            return unfolded
        opened = tuple(key for key in state.open if key.endswith(MORE))
        key = ("folded", id(unfolded), state.fold, opened)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not unfolded:
            kept = self._keep(key, (unfolded, folded(unfolded, state.fold, opened)))
        table: Table = kept[1]
        return table

    def view(self, name: str, state: State) -> Any:
        key = self._key(name, state)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        at = node(state.at) if "at" in READS.get(name, _ALL) else ""
        asked = replace(state, at=at)
        if name == "heat":
            return self._keep(key, self._blocks(asked))
        made = getattr(self.provider, name, None)
        return self._keep(key, made(asked) if made is not None else self.provider.report(name, asked))

    def _blocks(self, state: State) -> Table:
        """The parts of the model, none of them most of it, with the metric on every device side by side."""
        table = self.provider.tree(replace(state, heat=True, diff=False, sort="share", descending=True, open=()))
        shown = sorted(_parts(table.rows, 0), key=_share, reverse=True)
        return replace(table, rows=tuple(replace(row, depth=0, has_children=False) for row in shown), footer=())

    def forget(self, name: str) -> None:
        """More is known than when these were made."""
        for key in [key for key in self._kept if key[0] == name]:
            self._rows -= _rows(self._kept.pop(key))

    def has(self, name: str, state: State) -> bool:
        return self._key(name, state) in self._kept

    def _key(self, name: str, state: State) -> tuple[Any, ...]:
        fields = (plot_reads(state.plot) if name == "plot" else ()) or READS.get(name, _ALL)
        return (
            name,
            self.provider.revision(),
            *(node(state.at) if field == "at" else getattr(state, field) for field in fields),
        )

    def _keep(self, key: tuple[Any, ...], view: Any) -> Any:
        self._kept[key] = view
        self._rows += _rows(view)
        while len(self._kept) > KEPT or (self._rows > ROWS and len(self._kept) > FEWEST):
            self._rows -= _rows(self._kept.popitem(last=False)[1])
        return view


def _share(row: Row) -> float:
    return float(row.cells[1] or 0.0)


def _parts(rows: Sequence[Row], at: int) -> Iterator[Row]:
    """What a row is made of, down to where no part is too large."""
    depth = rows[at].depth
    end = next((i for i in range(at + 1, len(rows)) if rows[i].depth <= depth), len(rows))
    for i in range(at + 1, end):
        if rows[i].depth == depth + 1:
            yield from _parts(rows, i) if rows[i].has_children and _share(rows[i]) > TOO_LARGE else (rows[i],)


def _rows(view: Any) -> int:
    return len(view.rows) if isinstance(view, Table) else 0


def linked(state: State) -> str:
    """What the cursor of the plot stands on: the node, or in plots over batches the device at its batch."""
    return f"{state.on}@b{state.batch}" if plot_reads(state.plot) else node(state.at)
