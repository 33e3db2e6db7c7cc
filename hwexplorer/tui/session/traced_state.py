"""A state that records what is read of it, so that a view hangs on exactly that."""

from __future__ import annotations

from typing import Any

from hwexplorer.state import State


class TracedState:
    """Stand in for a State and add each field or property that is read to `reads`.

    A field that `replace` has given another value is not recorded: that value follows from what was read before. What
    takes a state as a whole either counts as reading all of it (==, hash) or fails (msgspec).
    """

    __slots__ = ("_reads", "_replaced", "_state")

    def __init__(self, state: State, reads: set[str], replaced: frozenset[str] = frozenset()) -> None:
        self._state, self._reads, self._replaced = state, reads, replaced

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._state, name)
        if name not in self._replaced:
            self._reads.add(name)
        return value

    def __replace__(self, **changes: Any) -> TracedState:
        return TracedState(self._state.__replace__(**changes), self._reads, self._replaced | changes.keys())

    def __eq__(self, other: object) -> bool:
        self._reads.update(State.__struct_fields__)
        return self._state == (other._state if isinstance(other, TracedState) else other)

    def __hash__(self) -> int:
        self._reads.update(State.__struct_fields__)
        return hash(self._state)
