"""Pure functions from state to state, which keys apply, with what they need: the layout of the panes on a screen of a
given size, queries that find rows (`conv kind:conv share>5 bound:memory latency>1ms`), and the history for undo.

Words of a query are searched in names and keys. If no row contains all of them, their letters are matched in order
(`l3c2` finds layer3.0.conv2). Conditions compare a column by its key or title; percentages and SI prefixes are
understood.
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache

import msgspec

from analysis.document import Column
from analysis.explore.outcome import COMPARISONS
from analysis.model.names.model_ref import phases
from hardware.base import errors
from hardware.base.records import memoize
from hardware.base.text import parse_amount, percent
from hardware.precision import KEYS, runs_wider
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, replace
from hwexplorer.views import plain

_CONDITION = r"([A-Za-z_][\w%]*)(:|>=|<=|!=|>|<|=)(.+)"
Test = Callable[[plain.Row], bool]
HINT = "words · kind:conv share>5 bound:memory latency>1ms"


def plain_words(text: str) -> list[str]:
    """Return the words of a query that are not conditions, for marking them in names."""
    return [word for word in text.split() if not re.fullmatch(_CONDITION, word)]


def ends_in_condition(text: str) -> bool:
    """Return True if the last word of a text is a condition."""
    return re.fullmatch(_CONDITION, text.rpartition(" ")[2].rpartition(",")[2]) is not None


def parse_value(text: str, unit: str) -> float:
    """Return an amount in SI units: `5` in a percentage column is 0.05, `1ms` is 0.001. Raises RequestError."""
    amount = parse_amount(text.removesuffix("%"), "") / 100 if unit == "%" else parse_amount(text, unit)
    return float(f"{amount:.15g}")  # rounded, so that 100us is exactly 1e-4


def _column(table: plain.Table, name: str) -> int:
    wanted = name.casefold()
    for index, column in enumerate(table.columns):
        if wanted in (column.key.casefold(), column.title.casefold()):
            return index
    for index, column in enumerate(table.columns):
        if (wanted == "share" and column.role == "bar") or column.key == f"{wanted}_per_inference":
            return index
    shares = ["share"] * any(column.role == "bar" for column in table.columns)
    known = [column.key for column in table.columns[1:] if column.role != "bar"]
    raise errors.unknown("column", name, ["kind", *shares, *known])


def _condition(table: plain.Table, name: str, sign: str, wanted: str) -> Test:
    is_kind = name.casefold() in ("kind", "type")
    index = 0 if is_kind else _column(table, name)
    column: Column = table.columns[index]
    if column.role == "text" or (sign == ":" and not re.match(r"[-.0-9]", wanted)):
        if sign not in (":", "=", "!="):
            raise errors.RequestError(f"{name}{sign}{wanted}: {name} holds words, ask {name}:{wanted}")
        sought = wanted.casefold()
        if column.key == "bound":  # legends name the memory
            sought = sought.replace("dram", "memory")
        return lambda row: (
            (sought in str((row.kind if is_kind else row.cells[index]) or "").casefold()) != (sign == "!=")
        )
    compare = COMPARISONS["=" if sign == ":" else sign]
    least = parse_value(wanted, "%" if column.role == "bar" else column.unit)

    def test(row: plain.Row) -> bool:
        """Return True if the row's cell meets the condition."""
        cell = row.cells[index]
        return isinstance(cell, int | float) and compare(float(cell), least)

    return test


@memoize(keep=4)
def matching_rows(table: plain.Table, text: str) -> tuple[int, ...]:
    """Return the indices of the matching rows, in order. Raises RequestError for a wrong condition."""
    words = " ".join(plain_words(text))
    parts = (re.fullmatch(_CONDITION, word) for word in text.split())
    tests = [_condition(table, part[1], part[2], part[3]) for part in parts if part is not None]
    if not words and not tests:
        return ()
    places = [place for place, row in enumerate(table.rows) if (not tests or place) and all(t(row) for t in tests)]
    names = [f"{table.rows[place].cells[0]}\n{table.rows[place].key}" for place in places]
    return tuple(places[match] for match in errors.matching_places(words, names))


@memoize(keep=4)
def narrow_tree(table: plain.Table, text: str) -> tuple[plain.Table, str]:
    """Return the rows of a tree that match with all branches above them, and how many match with their share of the
    whole: `14 of 49, 23 %`. Raises RequestError for a wrong condition."""
    index, places = plain.index_tree(table), matching_rows(table, text)
    found = {table.rows[place].key for place in places}
    above = set[str]().union(*map(index.ancestors, found))
    share = sum(index.share(key) for key in found if not index.ancestors(key) & found)
    rows = tuple(
        msgspec.structs.replace(row, has_children=row.key in above) for row in table.rows if row.key in found | above
    )
    return msgspec.structs.replace(table, rows=rows), f"{len(found)} of {len(table.rows)}, {percent(share)}"


Box = tuple[int, int, int, int]  # x, y, width, height


class Sizes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Cells that the user added to the width of the tree, to the height of the upper pane beside it, and above both."""

    tree: int = 0
    upper: int = 0
    above: int = 0


_MAIN = ("compare", "tree")  # the tree, and panes that are never to the right of it
KNOBS_HEIGHT = 18  # a screen this high has a line for the device above its knobs, which name it too
CARD_WIDTH = 40  # a screen this wide has room for a device and two of its figures in a line
ANSWER_LINES = 3  # above the devices; one device leaves no choice
GAP_HEIGHT = 30  # a narrow screen this high has room for all devices
EVENTS_LINES = 11  # lines that show all families of events


def strip_lines(height: int, devices: int) -> int:
    """Return the height of the strip: the answer, the heads, a line for each device."""
    return min(ANSWER_LINES * (devices > 1) + 1 + devices, height // 3 + 2)


def arrange(
    width: int, height: int, pane: str, zoom: bool, devices: int, sizes: Sizes, heat: bool = False
) -> dict[str, Box]:
    """Return the boxes of the visible panes and of `head`, `cards`, `tabs` and `foot`. From 80x20 on, cards are
    above the tree and the panes that explain it. A smaller or zoomed screen has one pane under tabs and cards or
    figures; below 40x16 it has nothing else. The table of devices is visible only with focus. `sizes` are added."""
    if width < CARD_WIDTH or height < 16:
        return {pane: (0, 0, width, max(1, height - 1))} | ({"foot": (0, height - 1, width, 1)} if height > 1 else {})
    around: dict[str, Box] = {"head": (0, 0, width, 1), "foot": (0, height - 1, width, 1)}
    if width < 80 or height < 20 or zoom:
        has_line = pane != "knobs" or height >= KNOBS_HEIGHT
        lines = 3 if height >= 20 and devices > 1 and not zoom else int(has_line)
        lines = strip_lines(height, devices) if height >= GAP_HEIGHT and not zoom else lines
        above = 2 + lines
        around |= {"tabs": (0, 1, width, 1)} | ({"cards": (0, 2, width, lines)} if lines else {})
        return {**around, pane: (0, above, width, height - above - 1)}
    top = strip_lines(height, devices)
    if pane == "compare":  # all devices, and as many lines about them as there is room for
        top = min(devices + 10, (height - 2) // 2)
    top = _resized(top, sizes.above, height - 2)
    around["compare" if pane == "compare" else "cards"] = (0, 1, width, top)
    body = (0, 1 + top, width, height - 2 - top)
    is_grid = body[2] >= 76 and body[3] >= (20 if width >= 100 else 40)
    is_alone = width < 60 or (heat and pane == "tree")  # the devices of a heat map take the width of both
    return around | (_grid(body, pane, sizes) if is_grid else {"tree": body} if is_alone else _small(body, pane, sizes))


def _resized(usual: int, by: int, room: int) -> int:
    """Return a size that the user changed: half of the usual one at least, three quarters of the room at most."""
    return max(usual // 2, min(usual + by, max(usual, room * 3 // 4)))


def _small(body: Box, pane: str, sizes: Sizes) -> dict[str, Box]:
    """Return the tree, and one pane next to it: the focused one, else why. The focused one is wider."""
    x, y, width, height = body
    is_side = pane not in _MAIN
    left = _resized(width * 2 // 5 if is_side else width * 3 // 5, sizes.tree, width)
    side = pane if is_side else "why"
    return {"tree": (x, y, left, height), side: (x + left, y, width - left, height)}


def _grid(body: Box, pane: str, sizes: Sizes) -> dict[str, Box]:
    """Return the tree on the left and, on the right, why above events, of which the focused one has more. Any other
    focused pane is shown above why."""
    x, y, width, height = body
    left = _resized(max(40, width * (64 if pane in _MAIN or width >= 100 else 40) // 100), sizes.tree, width)
    names, upper = (pane, "why"), height * 7 // 10
    if pane in (*_MAIN, "why", "events"):
        lower = height * 9 // 20 if pane == "events" else min(EVENTS_LINES, height // 2)
        names, upper = ("why", "events"), height - lower
    upper = _resized(upper, sizes.upper, height)
    places = (y, upper), (y + upper, height - upper)
    right = {name: (x + left, top, width - left, tall) for name, (top, tall) in zip(names, places, strict=True)}
    return {"tree": (x, y, left, height), **right}


Change = Callable[[State], State]


@lru_cache(maxsize=8)  # called with every key
def current_phase(model: str, load: str = "") -> str:
    """Return the phase that a language model runs: that of its name, `serve` under a load; '' for any other model."""
    return "serve" if load else next(iter(phases(model)), "")


def cycle(field: str, values: tuple[str, ...], step: int = 1, **others: object) -> Change:
    """Return a change that moves a field `step` places on in `values`, cyclically, and sets the fields in `others`."""

    def change(state: State) -> State:
        """Change the field."""
        value = getattr(state, field)
        # A value set by name may not be in `values`: then the next is the first, the previous the last.
        index = values.index(value) + step if value in values else min(step, 0)
        return replace(state, **{field: values[index % len(values)]}, **others)

    return change


def next_order(state: State) -> State:
    """Sort the tree, or devices in their pane, by the same key reversed, then by the next key."""
    field, keys, way, usual = (
        ("rank", states.RANKS, "rank_reverse", False)
        if state.pane == "compare"
        else ("sort", states.PREDICTED_SORTS, "descending", True)
    )
    if getattr(state, way) == usual:
        return replace(state, **{way: not usual})
    return cycle(field, keys, **{way: usual})(state)


def scale_batch(state: State, double: bool) -> State:
    """Double or halve the batch within its limits. For a load, scale its clients or take the next rate instead."""
    if state.load:
        from analysis.model.transformer.transformer_request import read_load  # not needed to start the screen

        return replace(state, load=",".join(read_load(state.load).scaled(double).words))
    batch = min(settings.BATCH_MAX, state.batch * 2) if double else max(1, state.batch // 2)
    return replace(state, batch=batch)


def step_format(state: State, step: int, formats: Callable[[State], set[str]]) -> State:
    """Return the state in the next format that a device has, or in the one before. `formats` returns what runs."""
    start = KEYS.index(state.precision) if state.precision in KEYS else min(step, 0) - step
    for count in range(1, len(KEYS) + 1):
        candidate = replace(state, precision=KEYS[(start + step * count) % len(KEYS)])
        if not all(runs_wider(candidate.precision, run) for run in formats(candidate)):
            return candidate
    return state


def find_one_format(state: State, formats: Callable[[State], set[str]]) -> State | None:
    """Return the state in the first format, its own before all others, that all devices run; None without one."""
    candidates = (replace(state, precision=precision) for precision in (state.precision, *KEYS))
    return next((candidate for candidate in candidates if len(formats(candidate)) == 1), None)


def change_model(state: State, model: str, image_size: int | None = None) -> State:
    """Return the state with another model, without cursor, open branches, search and trace of the old one."""
    if model == state.model and image_size == state.image_size:
        return state
    return replace(states.with_model(state, model, image_size), at="", open=(), find="", trace="")


def show_pane(name: str, **others: object) -> Change:
    """Return a change that goes to a pane, and sets the fields in `others`."""
    return lambda state: replace(state, pane=name, **others)


def flip(field: str) -> Change:
    """Return a change that inverts a flag."""
    return lambda state: replace(state, **{field: not getattr(state, field)})


def toggle_pin(state: State) -> State:
    """Pin what is on screen, or unpin it if it is pinned."""
    pin = states.pin_string(state)
    return replace(state, pin="" if state.pin == pin else pin)


def remove_device(state: State) -> State:
    """Remove the device under the cursor; the cursor goes to the next one. The last device stays."""
    place = state.devices.index(state.on)
    rest = state.devices[:place] + state.devices[place + 1 :]
    return replace(state, devices=rest, on=rest[min(place, len(rest) - 1)]) if rest else state


def open_branches(index: plain.TreeIndex, opened: Collection[str], at: str) -> set[str]:
    """Return the open branches: those in `opened`, and the ancestors of `at`, which keep the cursor in sight."""
    return set(opened) | index.ancestors(at)


def next_match(table: plain.Table, text: str, start: str, step: int) -> str | None:
    """Return the key of the next row after `start`, cyclically, that matches `text` ; None if none does.

    Step 0 may stay at `start`. Raises RequestError for a wrong condition."""
    matches = matching_rows(table, text)
    if not matches:
        return None
    here = next((place for place, row in enumerate(table.rows) if row.key == start), 0)
    after = [m for m in matches if m > here or (step == 0 and m == here)]
    return table.rows[(after or matches)[0]].key


def move_to(state: State, key: str, tree: plain.TreeIndex) -> State:
    """Put the cursor on a node and open its ancestors."""
    return replace(state, at=key, open=(*state.open, *sorted(tree.ancestors(key) - set(state.open) - {""})))


def open_heaviest(state: State, index: plain.TreeIndex) -> State:
    """Go to the block or kernel at the end of the heaviest path. Nothing below it is open."""
    at = index.heaviest("")
    while (above := index.parent[at]) and index.table.rows[index.place[above]].kind != "group":
        at = above
    return replace(state, at=at, open=tuple(sorted(index.ancestors(at) - {""})))


NAVIGATION = frozenset({"at", "on", "pane", "zoom", "open", "find", "fact"})


MODEL_FIELDS = frozenset({"model", "image_size", "load", "trace"})  # what may have to be captured or read first


HISTORY_MAX = 500


class History(msgspec.Struct, frozen=True):
    """The present state with its past and future. Navigation is not a step: undo goes back over decisions."""

    present: State = State()
    past: tuple[State, ...] = ()
    future: tuple[State, ...] = ()


def changed_fields(old: State, new: State) -> frozenset[str]:
    """Return the names of the fields in which two states differ."""
    return frozenset(n for n in State.__struct_fields__ if getattr(old, n) != getattr(new, n))


def push(history: History, state: State) -> History:
    """Return the history with another present state. Navigation alone adds no step."""
    changed = changed_fields(history.present, state)
    if not changed:
        return history
    if changed <= NAVIGATION:
        return replace(history, present=state)
    return History(present=state, past=(*history.past, history.present)[-HISTORY_MAX:])


def undo(history: History) -> History:
    """Return the history a step back, or itself at its beginning."""
    if not history.past:
        return history
    *past, previous = history.past
    return History(_keep_pane(previous, history.present), tuple(past), (history.present, *history.future)[:HISTORY_MAX])


def redo(history: History) -> History:
    """Return the history a step forward, or itself at its end."""
    if not history.future:
        return history
    following, *future = history.future
    return History(_keep_pane(following, history.present), (*history.past, history.present), tuple(future))


def _keep_pane(state: State, now: State) -> State:
    """Keep the present pane and zoom in a state that undo or redo brings back."""
    return replace(state, pane=now.pane, zoom=now.zoom)
