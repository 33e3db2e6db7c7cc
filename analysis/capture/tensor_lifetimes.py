"""Observe how long Python holds the results of a model while PyTorch exports it.

If the exporter has no hook for this, lowering infers lifetimes from the modules that a value is passed into.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.fx.experimental import proxy_tensor


class TensorLifetimes:
    """Records the calls of each traced graph in order and, per call, the newest one when its result was released."""

    def __init__(self) -> None:
        self._order: dict[Any, list[str]] = {}
        self._until: dict[Any, dict[str, str]] = {}
        self.is_open = True

    def record_call(self, result: Any, node: Any) -> None:
        """Record a call now, and the release of its result when it happens."""
        graph, name = node.graph, node.name
        self._order.setdefault(graph, []).append(name)
        weakref.finalize(result, self._record_release, graph, name)

    def _record_release(self, graph: Any, name: str) -> None:
        if self.is_open:
            self._until.setdefault(graph, {})[name] = self._order[graph][-1]

    def last_calls(self, graph: Any) -> dict[str, str]:
        """Return for each call the last call of this graph during which its result is held. Empty if the graph was not
        traced. Traced calls that the graph lacks are skipped."""
        names = [node.name for node in graph.nodes]
        traced = max(self._order, key=lambda each: len({*names} & {*self._order[each]}), default=None)
        if not names or traced is None:
            return {}
        last_kept, newest = {}, ""
        for name in self._order[traced]:
            newest = name if name in names else newest
            last_kept[name] = newest
        until = self._until.get(traced, {})
        held = {name: last_kept[until[name]] if name in until else newest for name in last_kept if name in names}
        return {name: last for name, last in held.items() if last}


@contextmanager
def watch_lifetimes() -> Iterator[TensorLifetimes]:
    """Watch the exports inside the context."""
    held, track = TensorLifetimes(), getattr(proxy_tensor, "track_tensor", None)
    if track is None:
        yield held
        return

    def _track_and_record(tensor: Any, proxy: Any, **options: Any) -> Any:
        done = track(tensor, proxy, **options)
        if hasattr(proxy, "node"):
            held.record_call(tensor, proxy.node)
        return done

    with patch.object(proxy_tensor, "track_tensor", _track_and_record):
        yield held
    held.is_open = False
