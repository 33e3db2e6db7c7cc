"""The views of states. Each is computed once for the values of the fields that it reads, and the latest are kept.

The fields that a view reads are recorded while it is computed (TracedState). So a cursor key recomputes only views that
read the cursor, and going back to a batch or a device costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from hardware.base.records import ABSENT, Large
from hwexplorer import state as states
from hwexplorer.tui.session.change_summary import summarize_pin
from hwexplorer.views import plain

if TYPE_CHECKING:
    from hwexplorer.reports.why import NodeGain
    from hwexplorer.screen_queries import ScreenQueries

ALWAYS_SHOWN = ("cards", "tree", "status", "verdict")  # whatever panes are visible
# Views that are drawn after the others, and the parts of the screen that each adds to.
SHOWN_LATER = {"answer": {"cards"}, "next_step": {"why", "cards"}}
VIEWS_MAX = 160


class Views:
    """The views of one state. Each is computed when it is first asked for, so views of hidden panes never are."""

    tree: plain.Table
    compare: plain.Table
    cards: tuple[plain.Card, ...]
    answer: tuple[str, ...]
    events: plain.Table
    why: plain.Text
    next_step: NodeGain | None
    plot: plain.Plot
    knobs: plain.Page
    status: str
    verdict: str

    def __init__(self, cache: ViewCache, state: states.State) -> None:
        self._cache, self._state = cache, state

    def make(self, names: Iterable[str]) -> None:
        """Compute some views now. Raises RequestError if one cannot be computed."""
        for name in names:
            getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        view = self._cache.view(name, self._state)
        setattr(self, name, view)
        return view

    @cached_property
    def marked_points(self) -> frozenset[str]:
        """The operators below the row under the cursor, in a plot of operators."""
        if not self._state.at or states.shown_plot(self._state) == "batch":
            return frozenset()
        return cast("frozenset[str]", self._cache.view("operators_below", self._state))

    @cached_property
    def pin_card(self) -> plain.Card | None:
        """The card of the pinned state; None without a pin."""
        pin = states.pinned(self._state)
        return self._find_card(pin) if pin is not None else None

    @cached_property
    def pin_sentence(self) -> str:
        """One sentence that compares the state with its pin; '' without a pin, or if both cost the same."""
        here, there = self._find_card(self._state), self.pin_card
        return summarize_pin(self.verdict, here, there) if self.verdict and here and there and here != there else ""

    def _find_card(self, state: states.State) -> plain.Card | None:
        return next((card for card in self._cache.view("cards", state) if card.key == state.on), None)

    def device_name(self, key: str) -> str:
        """Return the short name of a device."""
        return next((card.short for card in self.cards if card.key == key), key)


class TracedState:
    """Stand in for a State and add each field or property that is read to `reads`.

    A field that `replace` has given another value is not recorded: that value follows from what was read before. Use of
    the state as a whole either counts as reading all of it (==, hash) or fails (msgspec).
    """

    __slots__ = ("_reads", "_replaced", "_state")

    def __init__(self, state: states.State, reads: set[str], replaced: frozenset[str] = frozenset()) -> None:
        self._state, self._reads, self._replaced = state, reads, replaced

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._state, name)
        if name not in self._replaced:
            self._reads.add(name)
        return value

    def __replace__(self, **changes: Any) -> TracedState:
        return TracedState(self._state.__replace__(**changes), self._reads, self._replaced | changes.keys())

    def __eq__(self, other: object) -> bool:
        self._reads.update(states.State.__struct_fields__)
        return self._state == (other._state if isinstance(other, TracedState) else other)

    def __hash__(self) -> int:
        self._reads.update(states.State.__struct_fields__)
        return hash(self._state)


class ViewCache:
    """Views by name, revision of the models, and the values of the fields that they read."""

    def __init__(self, provider: ScreenQueries) -> None:
        self.provider = provider
        self._kept: OrderedDict[tuple[Any, ...], Large] = OrderedDict()
        self._reads: dict[str, list[tuple[str, ...]]] = {}  # by view: the sets of fields that it was seen to read

    def views(self, state: states.State) -> Views:
        """Return the views of a state; none is computed yet."""
        return Views(self, state)

    def view(self, name: str, state: states.State) -> Any:
        """Return a view of a state, computed now if it is not kept."""
        key = self._find(name, state)
        if key is not None:
            self._kept.move_to_end(key)
            return self._kept[key].use()
        reads: set[str] = set()
        view = self._make(name, cast("states.State", TracedState(state, reads)))
        fields = tuple(sorted(reads))
        if fields not in self._reads.setdefault(name, []):
            self._reads[name].append(fields)
        self._kept[self._key(name, state, fields)] = Large(view)
        if len(self._kept) > VIEWS_MAX:
            self._kept.popitem(last=False)
        return view

    def _make(self, name: str, state: states.State) -> Any:
        if name == "plot":
            state = states.replace(state, at="")  # the plot is drawn without its cursor
        make = getattr(self.provider, name, None)
        return make(state) if make is not None else self.provider.report(name, state)

    def has(self, name: str, state: states.State) -> bool:
        """Return True if the view is kept, so that nothing must be computed."""
        return self._find(name, state) is not None

    def _find(self, name: str, state: states.State) -> tuple[Any, ...] | None:
        keys = (self._key(name, state, fields) for fields in self._reads.get(name, ()))
        return next((key for key in keys if key in self._kept and self._kept[key].result is not ABSENT), None)

    def _key(self, name: str, state: states.State, fields: tuple[str, ...]) -> tuple[Any, ...]:
        return (name, self.provider.revision(), fields, attrgetter("model", *fields)(state))
