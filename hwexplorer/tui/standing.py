"""What stands in the foot before the keys: the limits and how many devices are within them, and what a joule buys over
the batch. Both are computed a little at a time while nothing is typed, and shown as far as they are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hwexplorer.format import quantity
from hwexplorer.state import State, replace
from hwexplorer.tui.cell_text import shorten
from hwexplorer.tui.palette import Palette

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session

Part = tuple[str, str, str]  # role, text, the action of a click on it
Standing = list[Part]
BATCHES = tuple(2**power for power in range(11))
LEVELS, ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
LIMITS_MOST = 44  # cells
RATE_FROM = 100  # cells of a screen that has room for it


def standing(session: Session, width: int, palette: Palette) -> list[Standing]:
    told: list[Standing] = []
    if session.views is None:
        return told
    if session.state.limits:
        told.append([("text", f" {shorten(session.limits.said(session), LIMITS_MOST)} ", "devices")])
    if width >= RATE_FROM and (parts := _rates(session, palette)):
        told.append(parts)
    return told


def batches(state: State) -> Iterator[State]:
    """The states whose rates make the line."""
    return (replace(state, batch=batch) for batch in BATCHES)


def _rates(session: Session, palette: Palette) -> Standing:
    """`batch 1 ▁▂▃▅▇ 1024  128 inf/J`, the batch on screen standing out, a click on another goes there; nothing before
    all of them are known."""
    states = [*batches(session.state)]
    if not all(session.cache.has("rate", each) for each in states):
        return []
    rates = {each.batch: session.cache.view("rate", each) for each in states}
    known = {batch: rate for batch, rate in rates.items() if rate}
    if len(known) < 2:  # a model of one batch, or one that fits with no other
        return []
    levels = ASCII_LEVELS if palette.ascii else LEVELS
    full = max(known.values())
    drawn = []
    for batch, rate in known.items():
        level = levels[round(rate / full * (len(levels) - 1))]
        drawn.append(("strong" if batch == session.state.batch else "bar", level, f":batch {batch}"))
    best = max(known, key=lambda batch: known[batch])
    told = f"{quantity(full, 'SI').strip()} inf/J" if full >= 1 else f"{quantity(1 / full, 'J')}/inf"
    return [
        ("dim", f" batch {min(known)} ", f":batch {min(known)}"),
        *drawn,
        ("dim", f" {max(known)} ", f":batch {max(known)}"),
        ("dim", f" {told} at {best} ", f":batch {best}"),
    ]
