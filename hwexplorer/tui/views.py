"""The views of a state, each computed only when a field it reads has changed, the last few of each kept.

So a cursor key recomputes what hangs on the cursor, and going back to a batch or a device costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from hwexplorer.state import State
from hwexplorer.tui.provider import Provider
from hwexplorer.views.plain import Plot, Table, Text

_MODEL = ("model", "image_size", "sequence", "kv")
_RUN = (*_MODEL, "batch", "precision", "execution", "layout")
_AGAINST = ("pin", "baseline", "metric", "devices")
READS: dict[str, tuple[str, ...]] = {
    "models": (*_RUN, "on"),
    "compare": (*_RUN, *_AGAINST),
    "tree": (*_RUN, *_AGAINST, "on", "sort", "descending"),
    "events": (*_RUN, *_AGAINST, "on", "at"),
    "why": (*_RUN, *_AGAINST, "on", "at"),
    "plot": (*_RUN, *_AGAINST, "on", "plot"),
    "status": (*_RUN, *_AGAINST, "on", "at"),
}
KEPT = 160


class Views(msgspec.Struct, frozen=True):
    """All of one state's views."""

    models: Table
    compare: Table
    tree: Table
    events: Table
    why: Text
    plot: Plot
    status: str


class Cache:
    """Views by what they depend on; the oldest are forgotten."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def views(self, state: State) -> Views:
        return Views(**{name: self.view(name, state) for name in READS})

    def view(self, name: str, state: State) -> Any:
        key = (name, *(getattr(state, field) for field in READS[name]))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        view = self._kept[key] = getattr(self.provider, name)(state)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return view
