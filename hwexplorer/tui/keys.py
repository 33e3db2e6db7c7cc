"""Every action of the screen in one table: keys, help, footer hints, palette and docs come from it.

An action is a pure change `State -> State` or an effect, which needs the rows on screen or the world outside. An effect
is the method `do_EFFECT` of the focused pane, the session, the screen or the app. A keymap binds keys to actions: the
default keys, or those of the user's settings. Keys also edit a line that is typed. Textual's Input is not used for it:
it edits when its own queue is read, so the second of two keys in one read would find the line as it was.
"""

from collections.abc import Iterable, Mapping

import msgspec

from hardware import precision as formats
from hardware.base.records import group_by, memoize
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import replace
from hwexplorer.tui.session import state_changes as changes


class Action(msgspec.Struct, frozen=True):
    """An action with `panes` works only there, where its keys precede those of actions that work everywhere."""

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


def _action(
    id: str,
    keys: str,
    title: str,
    help: str,
    does: changes.Change | str = "",
    argument: int | str | None = None,
    panes: str = "",
    hint: str = "",
) -> Action:
    change, effect = (None, does or id) if isinstance(does, str) else (does, "")
    return Action(id, tuple(keys.split()), title, help, change, effect, argument, tuple(panes.split()), hint)


_FAR = 10**9
_TABLES = "tree compare events knobs"
PANE_KEYS = {name: str(number) for number, name in enumerate(states.PANES, 2)}  # 1 lists the models
_GROUPS: dict[str, tuple[Action, ...]] = {
    "Panes": (
        _action("models", "1", "Models", "Choose a model", "palette", True, hint="models"),
        *(
            _action(f"pane_{name}", key, name.title(), f"Go to the {name} pane", changes.show_pane(name),
                hint=name if name == "knobs" else "")
            for name, key in PANE_KEYS.items()
        ),
        _action("plot", "v", "Plot", "Show a plot in the why pane: " + ", ".join((*states.PLOTS, "then none")),
            changes.cycle("plot", ("", *states.PLOTS), pane="why")),
        _action("next_pane", "tab", "Next pane", "Go to the next pane", changes.cycle("pane", states.PANES)),
        _action("previous_pane", "shift+tab", "Pane before", "Go to the previous pane",
            changes.cycle("pane", states.PANES, -1)),
        _action("zoom", "z", "Zoom", "Show one pane alone, or all panes again", changes.flip("zoom"), hint="zoom"),
        _action("wider", "ctrl+right", "Wider tree", "Make the tree wider; or drag a border between panes", "split", 4),
        _action("narrower", "ctrl+left", "Narrower tree", "Make the tree narrower", "split", -4),
        _action("back", "escape", "Back", "Cancel a capture, clear the find, leave zoom, return to the tree"),
    ),
    "Move": (
        _action("down", "j down", "Down", "Move down a row", "move", 1),
        _action("up", "k up", "Up", "Move up a row", "move", -1),
        _action("page_down", "pagedown", "Page down", "Move down a page", "page", 1),
        _action("page_up", "pageup", "Page up", "Move up a page", "page", -1),
        _action("first", "g home", "First", "Go to the first row", "move", -_FAR),
        _action("last", "G end", "Last", "Go to the last row", "move", _FAR),
    ),
    "Tree": (
        _action("close", "h left", "Close", "Close the branch, or go to its parent", panes="tree events"),
        _action("open", "l right", "Open", "Open the branch, or go to its first child", panes="tree events"),
        _action("toggle", "space", "Open or close", "Open or close the branch, or what is folded",
            panes="tree events why", hint="unfold"),
        _action("open_all", "+", "Open subtree", "Open everything below the cursor", "subtree", 1, panes="tree events"),
        _action("close_all", "-", "Close subtree", "Close everything below the cursor", "subtree", 0,
            panes="tree events"),
        _action("heat", "H", "Devices in tree", "Show the metric of every device side by side, and the winner",
            changes.flip("heat")),
        _action("heaviest", ".", "Heaviest path", "Follow the heaviest path down", hint="heaviest"),
        _action("sort", "s", "Sort", "Sort the tree, or devices in their pane: each key as usual, then reversed",
            changes.next_order, hint="sort"),
    ),
    "Knobs": (
        _action("turn_down", "h left", "Turn down", "Turn the fact down a step", "turn", -1, panes="knobs"),
        _action("turn_up", "l right", "Turn up", "Turn the fact up a step", "turn", 1, panes="knobs", hint="turn"),
        _action("turn_back", "backspace", "As it was", "Put the fact back as it was", "turn", 0, panes="knobs",
            hint="as it was"),
    ),
    "Find": (
        _action("find", "/", "Find", "Show only rows that match: words, kind:conv share>5 bound:memory latency>1ms",
            "prompt", "find", hint="find"),
        _action("find_next", "n", "Next match", "Go to the next match", "find", 1),
    ),
    "Estimate": (
        _action("batch_down", "[", "Halve batch", "Halve the batch, or take the previous load",
            lambda s: changes.scale_batch(s, False)),
        _action("batch_up", "]", "Double batch", "Double the batch, up to 4096, or take the next load",
            lambda s: changes.scale_batch(s, True), hint="batch"),
        _action("precision_down", "{", "Precision before", "The previous precision that a device has", "precision", -1),
        _action("precision_up", "}", "Next precision", "The next precision that a device has, of "
            + ", ".join(formats.KEYS), "precision", 1, hint="precision"),
        _action("one_format", "f", "One format", "Compare all devices in one number format, or go back",
            hint="one format"),
        _action("execution", "x", "Execution",
            "Runtime: operators one by one (eager), fused, or the usual one (auto)",
            changes.cycle("execution", settings.EXECUTIONS), hint="execution"),
        _action("phase", "r", "Phase", "Inference or training; of a language model prefill, decode, the whole request",
            hint="phase"),
        _action("undo", "u", "Undo", "Undo the last change of the state", "step", "undo", hint="undo"),
        _action("redo", "U", "Redo", "Redo the last undone change", "step", "redo"),
    ),
    "Compare": (
        _action("pin", "p", "Pin", "Pin this device and its settings: deltas are against them", changes.toggle_pin,
            hint="pin"),
        _action("baseline", "b", "Baseline", "Compare the others with the device under the cursor",
            lambda s: replace(s, baseline=s.on), panes="compare", hint="baseline"),
        _action("devices", "a", "Devices", "Choose devices; limits such as L<5ms E<1J P<30W M<8GB grey out the rest",
            hint="devices"),
        _action("remove", "d delete backspace", "Remove device", "Remove the device under the cursor",
            changes.remove_device, panes="compare", hint="remove"),
        _action("column_before", "<", "Column before", "Explain the column to the left", "column", -1, panes=_TABLES),
        _action("column_after", ">", "Next column", "Explain the column to the right", "column", 1, panes=_TABLES),
        _action("sheet", "i", "Device sheet", "Show the device under the cursor with the source of every fact"),
    ),
    "View": (
        _action("advise", "A", "Advise", "Show what to change, each estimated: enter applies one", "report", "advise",
            hint="advise"),
        _action("to_tree", "enter", "Tree", "Go to its tree", changes.show_pane("tree"), panes="compare", hint="tree"),
        _action("try_it", "enter", "Try it", "Apply what lifts the limit of this node", panes="why", hint="try it"),
        _action("why", "w", "Why", "Explain the row under the cursor", changes.show_pane("why", plot=""), hint="why"),
        _action("explain", "enter", "Why", "Explain the row under the cursor", changes.show_pane("why", plot=""),
            panes="tree events"),
        _action("wavefront", "W", "Wavefront", "Play the wavefront of the operator under the cursor on every device"),
    ),
    "Take away": (
        _action("copy_name", "y", "Copy name", "Copy the name in the row under the cursor", "copy", "name"),
        _action("copy_command", "c", "Copy command", "Copy the command that prints this view, with its state",
            "copy", "command"),
        _action("export", "e", "Export", "Write this view, or the screen (.svg)", "prompt", "export",
            hint="export"),
    ),
    "Program": (
        _action("help", "? f1", "Help", "Show the keys of this pane, all keys, then all terms", hint="help"),
        _action("command", ":", "Command", "Type a command: any verb, or batch 32, on tpu, at fc", "prompt", "command"),
        _action("palette", "ctrl+p", "Palette", "Find anything: a model, device, verb, plot, node, setting, term",
            hint="commands"),
        _action("sessions", "R", "Restore", "Show saved sessions, the last first: enter restores",
            "report", "sessions", hint="sessions"),
        _action("quit", "q ctrl+c ctrl+q", "Quit", "Leave; q closes an overlay first, ctrl+c a prompt", "leave",
            hint="quit"),
    ),
}  # fmt: skip
ACTIONS: tuple[Action, ...] = tuple(replace(a, group=group) for group, actions in _GROUPS.items() for a in actions)
BY_ID = {action.id: action for action in ACTIONS}
_SIGNS = {"escape": "esc", "pagedown": "pgdn", "pageup": "pgup"}


def key_sign(key: str) -> str:
    """Return the key as printed on a keyboard."""
    return _SIGNS.get(key, key)


def keys_text(action: Action) -> str:
    """Return the keys of an action, separated by spaces."""
    return " ".join(key_sign(key) for key in action.keys)


def help_lines(actions: Iterable[Action], pane: str = "") -> tuple[str, ...]:
    """Return a line `key<tab>help` for each action, which names the action's panes if `pane` is not one of them."""
    return tuple(
        f"{keys_text(a)}\t{a.help}" + (f" ({', '.join(a.panes)})" if a.panes and pane not in a.panes else "")
        for a in actions
    )


Hint = tuple[str, str, str]  # id of the action, its keys, its word in the footer
# The action that goes up -> the one that goes down.
PAIRS = {"batch_up": "batch_down", "precision_up": "precision_down", "turn_up": "turn_down"}
_ORDER = (
    *("help", "palette", "turn_up", "turn_back", "to_tree", "try_it", "remove", "baseline"),
    *("devices", "phase", "toggle", "batch_up", "quit", "find", "pin", "models", "export", "sessions"),
    *("one_format", "pane_knobs", "zoom", "precision_up", "advise", "undo", "heaviest", "why", "sort", "metric"),
    *("execution",),
)


class Keymap:
    """Finds actions by key, and lists them for the footer and the help."""

    def __init__(self, actions: tuple[Action, ...] = ACTIONS) -> None:
        self.actions = actions
        self.by_id = {action.id: action for action in actions}
        self._own: dict[tuple[str, str], Action] = {}
        self._everywhere: dict[str, Action] = {}
        for action in actions:
            for key in action.keys:
                for pane in action.panes:
                    self._own.setdefault((key, pane), action)
                if not action.panes:
                    self._everywhere.setdefault(key, action)

    def find(self, key: str, pane: str) -> Action | None:
        """Return the action of a key in a pane; the pane's own actions come first."""
        return self._own.get((key, pane)) or self._everywhere.get(key)

    def action_of(self, key: str, character: str | None, pane: str) -> Action | None:
        """Return the action of a key event: first by the character that the key types, then by the key's name."""
        return self.find(character or key, pane) or self.find(key, pane)

    @memoize(keep=16)
    def hints(self, pane: str, idle: tuple[str, ...] = ()) -> tuple[Hint, ...]:
        """Return the footer hints of a pane, the most useful first, without the actions in `idle`."""
        idle = (*idle, f"pane_{pane}")
        shown = [a for a in self.actions if a.hint and a.keys and (not a.panes or pane in a.panes) and a.id not in idle]
        shown = [a for a in shown if self.find(a.keys[0], pane) is a and not (a.id == "why" and pane == "why")]
        rank = {name: place for place, name in enumerate(_ORDER)}
        shown.sort(key=lambda a: rank.get(a.id, 99))
        return tuple([(a.id, self._sign(a), a.hint) for a in shown])

    def _sign(self, action: Action) -> str:
        other = self.by_id.get(PAIRS.get(action.id, ""))
        keys = (*(other.keys[:1] if other else ()), action.keys[0])
        return " ".join(key_sign(key).replace("ctrl+", "^") for key in keys)

    def groups(self, pane: str = "") -> list[tuple[str, list[Action]]]:
        """Return (group, actions) pairs; with a pane, its own actions come first."""
        own = [action for action in self.actions if pane in action.panes]
        others = group_by((action for action in self.actions if pane not in action.panes), lambda action: action.group)
        grouped = {f"In {pane}": own, pane.title(): [], **others}  # the group of the pane's name comes next
        return [(name, actions) for name, actions in grouped.items() if actions]


DEFAULT = Keymap()


def remap(keys: Mapping[str, Iterable[str]]) -> tuple[Keymap, list[str]]:
    """Return a keymap with the given keys, which other actions lose, and a list of what is wrong."""
    wrong = [f"no action {name!r}" for name in keys if name not in BY_ID]
    wanted = {name: tuple(those) for name, those in keys.items() if name in BY_ID}
    placed = []
    for action in ACTIONS:
        rivals = [
            name for name in wanted if BY_ID[name].panes == action.panes or {*BY_ID[name].panes} & {*action.panes}
        ]
        taken = {key for name in rivals for key in wanted[name]}
        left = tuple(key for key in action.keys if key not in taken)
        placed.append(replace(action, keys=wanted.get(action.id, left)))
    keymap = Keymap(tuple(placed))
    for name in ("help", "quit"):  # help and quit must stay reachable
        if not keymap.by_id[name].keys:
            return DEFAULT, [*wrong, f"{name} would have no key left"]
    return keymap, wrong


LENGTH_MAX = 500


class EditedLine(msgspec.Struct, frozen=True):
    """A line being typed. `place` is the cursor, `stem` what completion began with. Typing replaces `selected` text."""

    text: str = ""
    place: int = 0
    stem: str | None = None
    selected: bool = False


def insert_text(line: EditedLine, text: str) -> EditedLine:
    """Return the line with text inserted at the cursor, without characters that cannot be printed."""
    if line.selected:
        line = EditedLine()
    text = "".join(c for c in text if c.isprintable())[: max(0, LENGTH_MAX - len(line.text))]
    return EditedLine(line.text[: line.place] + text + line.text[line.place :], line.place + len(text))


def edit_line(line: EditedLine, key: str, character: str | None) -> EditedLine:
    """Return the line after a key; unknown keys do nothing."""
    text, place = line.text, line.place
    if line.selected and key in ("backspace", "delete"):
        text, place = "", 0
    elif key == "backspace" and place:
        text, place = text[: place - 1] + text[place:], place - 1
    elif key == "delete":
        text = text[:place] + text[place + 1 :]
    elif key in ("left", "ctrl+b"):
        place = max(0, place - 1)
    elif key in ("right", "ctrl+f"):
        place = min(len(text), place + 1)
    elif key in ("home", "ctrl+a"):
        place = 0
    elif key in ("end", "ctrl+e"):
        place = len(text)
    elif key == "ctrl+u":
        text, place = text[place:], 0
    elif key == "ctrl+w":
        start = len(text[:place].rstrip().rpartition(" ")[0])
        text, place = text[:start] + text[place:], start
    elif character and character.isprintable():
        return insert_text(line, character)
    return EditedLine(text, place)
