"""The views of a state, each computed only when a field it reads has changed, the last few of each kept.

So a cursor key recomputes what hangs on the cursor, and going back to a batch or a device costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from hwexplorer.state import MORE, State, node, replace
from hwexplorer.tui.folding import folded
from hwexplorer.tui.provider import Provider
from hwexplorer.views.plain import Plot, Table, Text

_MODEL = ("model", "image_size", "sequence", "kv")
_RUN = (*_MODEL, "batch", "precision", "execution", "layout")
_AGAINST = ("pin", "baseline", "metric", "devices")
READS: dict[str, tuple[str, ...]] = {
    "models": (*_RUN, "on"),
    "compare": (*_RUN, *_AGAINST, "diff", "rank", "rank_reverse"),
    "tree": (*_RUN, *_AGAINST, "on", "diff", "sort", "descending", "heat"),
    "events": (*_RUN, *_AGAINST, "on", "at", "diff"),
    "why": (*_RUN, *_AGAINST, "on", "at", "diff"),
    "plot": (*_RUN, *_AGAINST, "on", "plot"),
    "status": (*_RUN, *_AGAINST, "on", "at"),
    "verdict": (*_RUN, *_AGAINST, "on", "diff"),
}
# A plot over batches is the same at each of them.
_PLOT_READS = {
    "batch": (*_MODEL, "sequence", "kv", "precision", "execution", "layout", "metric", "devices", "plot"),
    "pareto": (*_MODEL, "sequence", "kv", "precision", "execution", "layout", "devices", "plot"),
}
KEPT = 160  # views; fewer where they are long, so that large models do not fill the memory
FEWEST = 60  # those of the state on screen and of its neighbours
ROWS = 12_000


class Views(msgspec.Struct, frozen=True):
    """All of one state's views. `tree` has its small rows folded, `whole` has not."""

    models: Table
    compare: Table
    tree: Table
    unfolded: Table
    events: Table
    why: Text
    plot: Plot
    status: str
    verdict: str


class Cache:
    """Views by what they depend on; the oldest are forgotten."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._rows = 0

    def views(self, state: State) -> Views:
        each = {name: self.view(name, state) for name in READS}
        return self._folded(state, each) if state.fold else Views(**each, unfolded=each["tree"])

    def _folded(self, state: State, views: dict[str, Any]) -> Views:
        unfolded: Table = views.pop("tree")
        opened = tuple(key for key in state.open if key.endswith(MORE))
        key = ("folded", id(unfolded), state.fold, opened)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not unfolded:
            kept = self._keep(key, (unfolded, folded(unfolded, state.fold, opened)))
        return Views(**views, tree=kept[1], unfolded=unfolded)

    def view(self, name: str, state: State) -> Any:
        key = self._key(name, state)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        at = node(state.at) if "at" in READS[name] else ""
        return self._keep(key, getattr(self.provider, name)(replace(state, at=at)))

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
