"""Every action of the screen in one table: keys, help, footer hints, palette and docs come from it.

An action is either a pure change `State -> State` or the name of an effect, for what needs the rows on screen or the
world outside: the method `do_EFFECT` of the pane that has the keys, of the session or of the screen.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hardware import precision as formats
from hardware.runtime import AUTO, LAYOUTS, LIKE_FOR_LIKE
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import replace
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.session import state_changes as changes


class Action(msgspec.Struct, frozen=True):
    """`panes` empty: everywhere; else only there, before any action that is everywhere."""

    id: str
    keys: tuple[str, ...]
    title: str
    help: str
    change: changes.Change | None = None
    effect: str = ""
    argument: int | str | None = None
    panes: tuple[str, ...] = ()
    hint: str = ""
    group: str = "View"


def _change(
    id: str, keys: str, title: str, help: str, change: changes.Change, panes: str = "", hint: str = ""
) -> Action:
    return Action(id, tuple(keys.split()), title, help, change=change, panes=tuple(panes.split()), hint=hint)


def _effect(
    id: str,
    keys: str,
    title: str,
    help: str,
    effect: str = "",
    argument: int | str | None = None,
    panes: str = "",
    hint: str = "",
) -> Action:
    keys_and_panes = tuple(keys.split()), tuple(panes.split())
    return Action(id, keys_and_panes[0], title, help, None, effect or id, argument, keys_and_panes[1], hint)


_FAR = 10**9
_GROUPS: dict[str, tuple[Action, ...]] = {
    "Panes": (
        *(
            _change(f"pane_{name}", str(n), name.title(), f"Go to the {name} pane", changes.show_pane(name))
            for n, name in enumerate(states.PANES, 1)
        ),
        _change("next_pane", "tab", "Next pane", "Go to the next pane", changes.cycle("pane", states.PANES)),
        _change(
            "previous_pane",
            "shift+tab",
            "Pane before",
            "Go to the pane before",
            changes.cycle("pane", states.PANES, -1),
        ),
        _change("zoom", "z", "Zoom", "Show one pane alone, or all of them again", changes.flip("zoom"), hint="zoom"),
        _effect("back", "escape", "Back", "Cancel a capture, clear the find, leave zoom, return to the tree"),
    ),
    "Move": (
        _effect("down", "j down", "Down", "Move down a row", "move", 1),
        _effect("up", "k up", "Up", "Move up a row", "move", -1),
        _effect("page_down", "pagedown ctrl+d", "Page down", "Move down a page", "page", 1),
        _effect("page_up", "pageup ctrl+u", "Page up", "Move up a page", "page", -1),
        _effect("first", "g home", "First", "Go to the first row", "move", -_FAR),
        _effect("last", "G end", "Last", "Go to the last row", "move", _FAR),
    ),
    "Tree": (
        _effect("close", "h left", "Close", "Close the branch, or go to its parent", panes="tree events"),
        _effect("open", "l right", "Open", "Open the branch, or go to its first child", panes="tree events"),
        _effect(
            "toggle",
            "space",
            "Open or close",
            "Open or close the branch, or what is folded",
            panes="tree events why",
            hint="open",
        ),
        _effect("open_all", "+", "Open subtree", "Open everything below the cursor", "subtree", 1, "tree events"),
        _effect("close_all", "-", "Close subtree", "Close everything below the cursor", "subtree", 0, "tree events"),
        _effect("expand", "o", "Expand all", "Open every branch of the tree", "every", 1),
        _effect("collapse", "O", "Collapse all", "Close every branch of the tree", "every", 0),
        _effect(
            "fold",
            "f",
            "Fold small",
            "Fold rows below 0.5, 1, 2, 5 % of the share into one row, or none",
            hint="fold",
        ),
        _change(
            "heat",
            "H",
            "Devices in tree",
            "The metric on every device side by side, and which wins",
            changes.flip("heat"),
        ),
        _effect("heaviest", ".", "Heaviest path", "Follow the heaviest path down", hint="heaviest"),
        _change(
            "by",
            "t",
            "Tree by",
            "Divide the tree by: " + ", ".join(states.BYS),
            lambda s: replace(changes.cycle("by", states.BYS)(s), at="", open=()),
            hint="tree by",
        ),
        _effect("each", "*", "One by one", "The blocks of a merged branch one by one, or merged again"),
        _change("sort", "s", "Sort", "Sort the tree by: " + ", ".join(states.SORTS), changes.cycle_sort, hint="sort"),
        _change("reverse", "S", "Reverse", "Reverse the order of the tree", changes.flip("descending")),
    ),
    "Knobs": (
        _effect("turn_down", "h left", "Turn down", "Turn the fact down a step", "turn", -1, "knobs"),
        _effect("turn_up", "l right", "Turn up", "Turn the fact up a step", "turn", 1, "knobs", "turn"),
        _effect("turn_back", "backspace", "As it was", "Put the fact back as it was", "turn", 0, "knobs", "as it was"),
    ),
    "Find": (
        _effect(
            "find",
            "/",
            "Find",
            "Find rows: words, kind:conv share>5 bound:memory latency>1ms",
            "prompt",
            "find",
            hint="find",
        ),
        _effect("find_next", "n", "Next match", "Go to the next match", "find", 1),
        _effect("find_previous", "N", "Match before", "Go to the match before", "find", -1),
        _effect("filter", "/", "Filter", "Type to narrow the list of models", "prompt", "filter", "models", "filter"),
        _effect("choose", "enter", "Load", "Load the model under the cursor", panes="models", hint="load"),
    ),
    "Estimate": (
        _change(
            "batch_down",
            "[",
            "Halve batch",
            "Halve the batch, down to 1",
            lambda s: changes.scale_batch(s, False),
        ),
        _change(
            "batch_up",
            "]",
            "Double batch",
            "Double the batch, up to 4096",
            lambda s: changes.scale_batch(s, True),
            hint="batch",
        ),
        _change(
            "precision_down",
            "{",
            "Precision before",
            "The precision before, of " + ", ".join(formats.KEYS),
            changes.cycle("precision", formats.KEYS, -1),
        ),
        _change(
            "precision_up",
            "}",
            "Next precision",
            "The next precision, of " + ", ".join(formats.KEYS),
            changes.cycle("precision", formats.KEYS),
            hint="precision",
        ),
        _change(
            "execution",
            "x",
            "Execution",
            "Operators one by one (eager), fused, or as one would deploy them (auto)",
            changes.cycle("execution", settings.EXECUTIONS),
            hint="execution",
        ),
        _change(
            "like_for_like",
            "=",
            "Like for like",
            "Every device by its ahead-of-time compiler, or again what one would deploy on each",
            lambda s: replace(s, execution=AUTO if s.execution == LIKE_FOR_LIKE else LIKE_FOR_LIKE),
        ),
        _effect("phase", "r", "Phase", "Of a language model: prefill, decode, or the whole request"),
        _change("layout", "X", "Layout", "Memory layout: nchw or channels last", changes.cycle("layout", LAYOUTS)),
        _change(
            "metric",
            "m",
            "Metric",
            "What shares are of: EDP, energy or latency",
            changes.cycle("metric", states.METRICS),
            hint="metric",
        ),
        _effect("undo", "u", "Undo", "Undo the last change of the state", hint="undo"),
        _effect("redo", "U", "Redo", "Redo what was undone"),
    ),
    "Compare": (
        _change(
            "pin",
            "p",
            "Pin",
            "Take this device and its settings as what deltas are against",
            changes.toggle_pin,
            hint="pin",
        ),
        _change(
            "diff",
            "D",
            "Diff",
            "Deltas on or off; with nothing pinned, against the baseline",
            changes.toggle_diff,
        ),
        _effect("swap", "P", "Swap", "Swap what is pinned and what is shown"),
        _change(
            "baseline",
            "b",
            "Baseline",
            "Compare the others with the device under the cursor",
            lambda s: replace(s, baseline=s.on),
            "compare",
            "baseline",
        ),
        _effect(
            "devices",
            "a",
            "Devices",
            "Choose devices; limits as L<5ms E<1J P<30W M<8GB grey out the rest",
            hint="devices",
        ),
        _change(
            "remove",
            "d",
            "Remove device",
            "Take the device under the cursor away",
            changes.remove_device,
            "compare",
        ),
        _change(
            "rank",
            "s",
            "Order",
            "Order the devices by: " + ", ".join(states.RANKS),
            changes.cycle_rank,
            "compare",
            "order",
        ),
        _change(
            "rank_reverse",
            "S",
            "Order reversed",
            "Reverse the order of the devices",
            changes.flip("rank_reverse"),
            "compare",
        ),
        _effect("sheet", "i", "Device sheet", "The device under the cursor with the source of every fact"),
    ),
    "View": (
        _change(
            "dynamic",
            "d",
            "Dynamic only",
            "Events without clocks and static power, rescaled, or all",
            lambda s: replace(s, dynamic=not s.dynamic),
            "events",
        ),
        _effect("column_before", "<", "Column before", "To the column before: the foot says what it is", "column", -1),
        _effect("column_after", ">", "Next column", "To the next column: the foot says what it is", "column", 1),
        _effect(
            "advise",
            "A",
            "Advise",
            "What to change, each change run: enter applies one",
            "report",
            "advise",
            hint="advise",
        ),
        _change(
            "to_tree",
            "enter",
            "Tree",
            "Go to the tree of this device",
            changes.show_pane("tree"),
            "compare plot",
            "tree",
        ),
        _effect("lift", "enter", "Try it", "Set what would lift the limit of this node", panes="why", hint="try it"),
        _change("why", "w", "Why", "Explain the row under the cursor", changes.show_pane("why"), hint="why"),
        _change("explain", "enter", "Why", "Explain the row under the cursor", changes.show_pane("why"), "tree events"),
        _effect("plot", "v", "Plot", "Go to the plot; there, the next of: " + ", ".join(states.PLOTS), "plot", 1),
        _effect("plot_before", "V", "Plot before", "Go to the plot; there, the kind of plot before", "plot", -1),
    ),
    "Take away": (
        _effect("copy_name", "y", "Copy name", "Copy the name in the row under the cursor", "copy", "name"),
        _effect("copy_row", "Y", "Copy row", "Copy the row under the cursor, tabs between cells", "copy", "row"),
        _effect("copy_command", "c", "Copy command", "Copy the command that prints this view", "copy", "command"),
        _effect("copy_state", "L", "Copy state", "Copy this screen as one string for hwexplorer", "copy", "state"),
        _effect(
            "export",
            "e",
            "Export",
            "Write this view, the screen (.svg) or all (a folder)",
            "prompt",
            "export",
            hint="export",
        ),
    ),
    "Program": (
        _effect("help", "? f1", "Terms and keys", "What everything is called, then all keys", hint="terms"),
        _effect("command", ":", "Command", "Type a command: any verb, or batch 32, on tpu, at fc", "prompt", "command"),
        _effect(
            "palette",
            "ctrl+p",
            "Palette",
            "Find anything: a model, device, verb, plot, node, setting, term",
            hint="all",
        ),
        _effect("sessions", "R", "Restore", "Kept states, the last session first: enter restores one"),
        _effect("theme", "T", "Theme", "The next of: " + ", ".join(THEMES)),
        _effect("quit", "q ctrl+c", "Quit", "Leave", "leave", hint="quit"),
    ),
}
ACTIONS: tuple[Action, ...] = tuple(replace(a, group=group) for group, actions in _GROUPS.items() for a in actions)
BY_ID = {action.id: action for action in ACTIONS}
_SIGNS = {"escape": "esc", "pagedown": "pgdn", "pageup": "pgup"}


def key_sign(key: str) -> str:
    """Return the key as printed on a keyboard."""
    return _SIGNS.get(key, key)


def keys_text(action: Action) -> str:
    """Return the keys of an action in words."""
    return " ".join(key_sign(key) for key in action.keys)


def help_lines(actions: Iterable[Action], pane: str = "") -> tuple[str, ...]:
    """Return `key<tab>what it does` of each, and where, for actions of panes other than this one."""
    return tuple(
        f"{keys_text(a)}\t{a.help}" + (f" ({', '.join(a.panes)})" if a.panes and pane not in a.panes else "")
        for a in actions
    )
