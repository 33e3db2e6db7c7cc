"""The views of a state, each computed only when a field it reads has changed, the last few of each kept.

So a cursor key recomputes what hangs on the cursor, and going back to a batch or a device costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from hwexplorer.state import MORE, State, node, replace
from hwexplorer.tui.folding import folded
from hwexplorer.tui.provider import Provider
from hwexplorer.views.plain import Card, Page, Plot, Table, Text

_MODEL = ("model", "image_size", "sequence", "kv")
_RUN = (*_MODEL, "batch", "precision", "execution", "layout")
_AGAINST = ("pin", "baseline", "metric", "devices")
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
    "rate": (*_RUN, "on"),
    "knobs": (*_RUN, "on", "metric", "fact"),
    "status": (*_RUN, *_AGAINST, "on", "at"),
    "verdict": (*_RUN, *_AGAINST, "on", "diff"),
}
ALWAYS = ("cards", "tree", "status", "verdict")  # what is on screen whatever the panes
# A plot over batches is the same at each of them.
_PLOT_READS = {
    "batch": (*_MODEL, "sequence", "kv", "precision", "execution", "layout", "metric", "devices", "plot"),
    "pareto": (*_MODEL, "sequence", "kv", "precision", "execution", "layout", "devices", "plot"),
}
KEPT = 160  # views; fewer where they are long, so that large models do not fill the memory
FEWEST = 60  # those of the state on screen and of its neighbours
ROWS = 12_000


class Views:
    """A state's views, each made when it is first asked for: those of panes that are out of sight never are. `tree` has
    its small rows folded, `unfolded` has not."""

    def __init__(self, cache: Cache, state: State) -> None:
        self._cache, self._state = cache, state

    def make(self, names: Iterable[str]) -> None:
        """Make some now; RequestError where one cannot be."""
        for name in names:
            getattr(self, name)

    @cached_property
    def tree(self) -> Table:
        return self._cache.folded(self._state, self.unfolded)

    @cached_property
    def unfolded(self) -> Table:
        made: Table = self._cache.view("tree", self._state)
        return made

    @cached_property
    def heat(self) -> Table:
        made: Table = self._cache.view("heat", self._state)
        return made

    @cached_property
    def models(self) -> Table:
        made: Table = self._cache.view("models", self._state)
        return made

    @cached_property
    def compare(self) -> Table:
        made: Table = self._cache.view("compare", self._state)
        return made

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        made: tuple[Card, ...] = self._cache.view("cards", self._state)
        return made

    @cached_property
    def events(self) -> Table:
        made: Table = self._cache.view("events", self._state)
        return made

    @cached_property
    def why(self) -> Text:
        made: Text = self._cache.view("why", self._state)
        return made

    @cached_property
    def plot(self) -> Plot:
        made: Plot = self._cache.view("plot", self._state)
        return made

    @cached_property
    def below(self) -> frozenset[str]:
        """The points that the row under the cursor stands for in a plot of operators."""
        if not node(self._state.at) or self._state.plot in _PLOT_READS:
            return frozenset()
        made: frozenset[str] = self._cache.view("below", self._state)
        return made

    @cached_property
    def knobs(self) -> Page:
        made: Page = self._cache.view("knobs", self._state)
        return made

    @cached_property
    def status(self) -> str:
        made: str = self._cache.view("status", self._state)
        return made

    @cached_property
    def verdict(self) -> str:
        made: str = self._cache.view("verdict", self._state)
        return made


class Cache:
    """Views by what they depend on; the oldest are forgotten."""

    def __init__(self, provider: Provider) -> None:
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
        at = node(state.at) if "at" in READS[name] else ""
        asked = replace(state, at=at)
        return self._keep(key, self._blocks(asked) if name == "heat" else getattr(self.provider, name)(asked))

    def _blocks(self, state: State) -> Table:
        """The parts of the model, heaviest first, with the metric on every device side by side."""
        table = self.provider.tree(replace(state, heat=True, diff=False, sort="share", descending=True, open=()))
        rows = tuple(replace(row, depth=0, has_children=False) for row in table.rows if row.depth == 1)
        return replace(table, rows=rows, columns=table.columns)

    def forget(self, name: str) -> None:
        """More is known than when these were made."""
        for key in [key for key in self._kept if key[0] == name]:
            self._rows -= _rows(self._kept.pop(key))

    def has(self, name: str, state: State) -> bool:
        return self._key(name, state) in self._kept

    def _key(self, name: str, state: State) -> tuple[Any, ...]:
        fields = _PLOT_READS.get(state.plot, READS[name]) if name == "plot" else READS[name]
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


def _rows(view: Any) -> int:
    return len(view.rows) if isinstance(view, Table) else 0


def linked(state: State) -> str:
    """What the cursor of the plot stands on: the node, or in plots over batches the device at its batch."""
    return f"{state.on}@b{state.batch}" if state.plot in _PLOT_READS else node(state.at)
