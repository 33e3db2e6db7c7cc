"""An exploration without a screen: the state and its history, views, limits, messages and jobs.

`apply` computes the views of a state before it makes the state present. So all that is shown belongs together, and a
request that fails leaves everything as it was. Subscribers receive an event for each change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from analysis.model.names.model_ref import phases_to_turn
from hardware.base.errors import RequestError
from hardware.base.records import Slices
from hardware.what_if import with_unchanged
from hwexplorer import state as states
from hwexplorer.settings import default_precision
from hwexplorer.tui.session import state_changes, view_cache
from hwexplorer.tui.session.change_summary import summarize_change, summarize_undo
from hwexplorer.tui.session.limit_summary import DeviceLimits
from hwexplorer.views import plain

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet
    from hwexplorer.screen_queries import ScreenQueries
    from hwexplorer.tui.session.jobs import BackgroundJob
    from hwexplorer.tui.session.saved_sessions import SavedSessions


class SessionEvent(msgspec.Struct, frozen=True):
    """An event that a session emits."""


class Changed(SessionEvent, frozen=True):
    """The state (or its views), the message or a job changed, or more devices were checked against the limits."""

    what: Literal["state", "message", "jobs", "limits"]


class TextOpened(SessionEvent, frozen=True):
    """A text is to be shown; `name` is its kind."""

    name: str
    heading: str
    text: plain.Text


class SheetOpened(SessionEvent, frozen=True):
    """A report is to be shown. `state_of` parses the state that a row leads to; without it rows are configurations.
    `words` are those of the `:` line that print the report."""

    name: str
    sheet: Sheet
    state_of: Callable[[str], states.State] | None = None
    words: tuple[str, ...] = ()


class ActionRequested(SessionEvent, frozen=True):
    """An action of the table (keys.py) is to be done. With an `argument` (a theme, or a path to export to)
    the screen calls its own method `do_ACTION`."""

    action: str
    argument: str = ""


Listener = Callable[[SessionEvent], None]
COMPUTING = ("computing: esc stops it", "dim")  # the message while an action waits


class Session:
    """One exploration. A method `do_NAME` does the effect NAME of an action (keys.py); it may raise
    RequestError.

    `views` is None until a model is captured. `failures` lists internal errors; tests require it to be empty."""

    def __init__(
        self,
        state: states.State,
        provider: ScreenQueries,
        saved_sessions: SavedSessions | None = None,
        opens_heaviest: bool = False,
    ) -> None:
        self.provider, self.saved_sessions, self.opens_heaviest = provider, saved_sessions, opens_heaviest
        self.cache = view_cache.ViewCache(provider)
        self.limits = DeviceLimits(self.cache)
        self.history = state_changes.History(present=state)
        self.failures: list[str] = []
        self.size = (0, 0)  # of the screen in cells; it decides which views are visible
        self.message: tuple[str, str] | None = None  # text and role
        self.command_history: list[str] = []
        self.recent: list[str] = []  # titles of the palette's items that were done, the last first
        self.sizes = state_changes.Sizes()
        self.jobs: list[BackgroundJob] = []
        self.views: view_cache.Views | None = None
        self.waiting: Callable[[], Any] | None = None  # an action that `attempt` is to go on with
        self.slices = Slices()  # of the latest action
        self.event_count = 0  # events other than changes of the state
        self._listeners: list[Listener] = []
        self._is_at_start = opens_heaviest and not (state.at or state.open)  # its branches were not asked for
        if provider.ready(state):  # raises before the screen opens if the state cannot be shown
            if self._is_at_start:
                state = self._at_heaviest(states.replace(state, by="module", sort="share"))
            state, self.views = self._reveal_cursor(state, self.cache.views(state))
            self.views.make(view_cache.ALWAYS_SHOWN)
            self.history = state_changes.History(present=state)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every event from now on, before `emit` returns."""
        self._listeners.append(listener)

    def emit(self, event: SessionEvent) -> None:
        """Tell all subscribers of an event. What has told something is not begun again: it goes on without a pause."""
        Slices.now.end_s = 0.0
        self.event_count += event != Changed("state")
        for listener in self._listeners:
            listener(event)

    def request(self, action: str, argument: str = "") -> None:
        """Ask the subscribers to do an action."""
        self.emit(ActionRequested(action, argument))

    @property
    def state(self) -> states.State:
        """The present state."""
        return self.history.present

    @property
    def index(self) -> plain.TreeIndex:
        """The rows of the tree."""
        return plain.index_tree(self.views.tree if self.views else plain.EMPTY_TABLE)

    def visible_boxes(self, state: states.State, size: tuple[int, int] | None = None) -> dict[str, state_changes.Box]:
        """Return the boxes of the panes that a state shows, by default on the screen as it is."""
        return state_changes.arrange(
            *(size or self.size), state.pane, state.zoom, len(with_unchanged(state.devices)), self.sizes, state.heat
        )

    def border_at(self, x: int, y: int) -> str:
        """Return the field of `sizes` that the border at a place of the screen changes; '' if no border is there."""
        boxes = {name: box for name, box in self.visible_boxes(self.state).items() if name in states.PANES}
        if len(boxes) == 1:
            return ""
        left, top, width, _ = boxes["tree"]
        past = {"tree": x - left - width, "above": y - top, "upper": y - max(box[1] for box in boxes.values())}
        return next((name for name, cells in past.items() if cells in (-1, 0) and y >= top - 1), "")

    def visible_views(self, state: states.State) -> tuple[str, ...]:
        """Return the names of the views in the first drawing of a state."""
        boxes = self.visible_boxes(state)
        why = "plot" if states.shown_plot(state) else "why"
        shown = (why if name == "why" else name for name in states.PANES if name in boxes and name != "tree")
        return (*view_cache.ALWAYS_SHOWN, *shown)

    def later_views(self, state: states.State) -> tuple[str, ...]:
        """Return the names of the views that a state shows once the others are drawn."""
        boxes = self.visible_boxes(state)
        return tuple(name for name, places in view_cache.SHOWN_LATER.items() if places & boxes.keys())

    def attempt(self, action: Callable[[], Any]) -> Any:
        """Return what an action returns. If it takes long, return True: it is `waiting`, to be attempted again for
        another slice, until it tells something. An action within another has no slices of its own."""
        if Slices.now.end_s:
            return action()
        slices = self.slices if action is self.waiting else Slices()
        self.waiting, self.slices = None, slices
        with slices:
            result = action()
        if slices.is_paused:
            self.waiting = action
            self.message = COMPUTING if slices.grew(1.3) else self.message  # a line that flashes tells nothing
            self.emit(Changed("message"))
            return True
        if self.message == COMPUTING:
            self.clear_message()
        return result

    def apply(self, state: states.State, history: state_changes.History | None = None) -> bool:
        """Make another state present and return True; else show why not or capture it. Undo and redo pass `history`."""
        return bool(self.attempt(partial(self._apply, state, history)))

    def _apply(self, state: states.State, history: state_changes.History | None) -> bool:
        if state == self.state and history is None:
            return False
        try:
            is_shown = (
                history is None
                and self.views is not None
                and not state_changes.changed_fields(state, self.state) & state_changes.MODEL_FIELDS
            )
            if not is_shown and not self.provider.ready(state):
                self.capture(state)
                return False
            state, views = self._reveal_cursor(state, self.cache.views(state))
            views.make(self.visible_views(state))
        except RequestError as error:
            self.say(str(error), "bad")
            return False
        except Exception as error:  # our own bug: the screen stays as it was and reports it
            self.report_failure(error)
            return False
        is_undo = history is not None and len(history.past) < len(self.history.past)
        summarize = summarize_undo if is_undo else summarize_change
        shown = self.views
        pin = views.pin_card if state.pin == self.state.pin else None
        summary = summarize(self.state, state, shown.cards, views.cards, pin) if shown is not None else ""
        self.history = states.replace(history, present=state) if history else state_changes.push(self.history, state)
        self.views = views
        self.emit(Changed("state"))
        if summary:
            self.say(summary, "dim")
        return True

    def with_model(self, model: str, image_size: int | None = None) -> states.State:
        """Return the state with another model. If it is captured, use a batch that it has and its heaviest part."""
        state = state_changes.change_model(self.state, model, image_size)
        with suppress(RequestError):  # the error is shown when the state is
            if state == self.state or not self.provider.ready(state):
                return state
            state = self.provider.at_its_batch(state)
            return self._at_heaviest(state) if self.opens_heaviest else state
        return state

    def _at_heaviest(self, state: states.State) -> states.State:
        index = plain.index_tree(self.cache.view("tree", state))
        return state_changes.open_heaviest(state, index)

    def fit_to_screen(self, size: tuple[int, int]) -> None:
        """Take the size of the screen, and open as many branches as have room unless a state was asked for."""
        self.size = size
        if self.views is not None and self._is_at_start:
            self.history = state_changes.History(present=self._at_heaviest(self.state))
            self.views = self.cache.views(self.state)

    def say(self, text: str, role: str = "text") -> None:
        """Show a message until the next key or for a few seconds. `role` is its colour in the palette."""
        self.message = (text, role)
        self.emit(Changed("message"))

    def clear_message(self) -> tuple[str, str] | None:
        """Remove the message and return it."""
        message, self.message = self.message, None
        if message is not None:
            self.emit(Changed("message"))
        return message

    def report_failure(self, error: Exception) -> None:
        """Record an internal error and show it."""
        self.failures.append(f"{type(error).__name__}: {error}")
        self.say(f"internal error, the screen is as before: {self.failures[-1]}", "bad")

    def figures(self) -> str:
        """Return `l4 latency 367 µs, energy 108 mJ/inf` for the device under the cursor; '' before a model is ready."""
        card = next((card for card in self.views.cards if card.key == self.state.on), None) if self.views else None
        return "" if card is None else f"{card.key} {', '.join(map(str, card.figures[:3:2]))}"

    # --- actions ------------------------------------------------------------------------------------------

    def do_step(self, verb: str) -> None:
        """Undo the last step, or redo the one that was undone."""
        history = {"undo": state_changes.undo, "redo": state_changes.redo}[verb](self.history)
        if history is self.history:
            self.say(f"nothing to {verb}", "dim")
        else:
            self.apply(history.present, history)

    def formats(self, state: states.State) -> set[str]:
        """Return the formats in which the devices of a state multiply."""
        return {card.format for card in self.cache.view("cards", state)}

    def do_precision(self, step: int) -> None:
        """Go to the next format that a device of the state has, or to the one before."""
        self.apply(state_changes.step_format(self.state, step, self.formats))

    def do_one_format(self) -> None:
        """Compare all devices in the first format in which all of them multiply; if they do, go back to what was asked
        for before."""
        state = state_changes.find_one_format(self.state, self.formats)
        if state == self.state:
            past = (before.precision for before in reversed(self.history.past) if before.precision != state.precision)
            state = states.replace(state, precision=next(past, default_precision(state.model)))
        if state is None:
            self.say("these devices have no format in common", "warn")
        elif not self.apply(state):
            self.say(f"all devices run in {', '.join(self.formats(state))}", "dim")

    def do_phase(self) -> None:
        """Go to the next phase of a language model, a step of training at last; of any other model to that and back."""
        names = phases_to_turn(self.state.model)
        order = [*names]
        following = order[(order.index("serve" if self.state.load else order[0]) + 1) % len(order)]
        state = self.with_model(names[following])
        if self.apply(state) and not state.load:
            lengths = self.provider.length_words(state)
            self.say(f"{following}: {lengths}" if lengths else following)

    def do_try_it(self) -> None:
        """Apply the setting that the why pane offers for the node."""
        step = self.views.next_step if self.views is not None else None
        if step is None:
            self.say("no known setting lifts this limit", "dim")
        elif self.apply(states.with_setting(self.state, step.setting)):
            self.say(f"{step.setting}; u undoes", "good")

    def do_turn(self, by: int) -> None:
        """Turn the knob under the cursor up (1) or down (-1), or put it back (0)."""
        state = self.provider.turn_knob(self.state, by)
        if not self.apply(state) and state == self.state:
            self.say(f"{state.fact} is unchanged", "dim")

    def do_sheet(self, device: str | None = None) -> None:
        """Open the sheet of a device, by default the one under the cursor."""
        text = self.provider.device(device or self.state.on)
        self.emit(TextOpened("sheet", text.title, text))

    # --- the tree -----------------------------------------------------------------------------------------

    def _reveal_cursor(self, state: states.State, views: view_cache.Views) -> tuple[states.State, view_cache.Views]:
        """Return the state with its cursor on a row that exists, and its views. A kernel that is gone gives way to its
        first operator; any other row is looked for in the tree by module, else the cursor goes to the root."""
        places = plain.index_tree(views.tree).place
        if not state.at or state.at in places:
            return state, views
        operator = state.at.partition(":")[2]
        is_operator = operator != "" and operator in places
        other = (
            states.replace(state, at=operator)
            if is_operator or state.by == "module"
            else states.replace(state, by="module")
        )
        return self._reveal_cursor(other, self.cache.views(other))

    def move_to(self, key: str) -> None:
        """Put the tree's cursor on a node and open its ancestors."""
        self.apply(state_changes.move_to(self.state, key, self.index))

    def do_heaviest(self) -> None:
        """Follow the heaviest path down."""
        self.move_to(self.index.heaviest(self.state.at))

    def do_find(self, step: int) -> None:
        """Go to the next match of the state's search, or ask what to search for."""
        state = self.state
        if not state.find:
            self.request("find")
            return
        target = state_changes.next_match(self.index.table, state.find, state.at, step)
        if target is None:
            self.say(f"nothing in the tree matches {state.find!r}", "warn")
        else:
            self.move_to(target)

    # --- jobs ---------------------------------------------------------------------------------------------

    def capture(self, state: states.State) -> None:
        """Capture the model of a state, or read its trace, in the background. The screen stays usable."""
        from hwexplorer.tui.session.jobs import ModelCaptureJob

        is_model = state == state_changes.change_model(self.state, state.model, state.image_size)
        self.start(ModelCaptureJob(state, self.provider, partial(self._show_captured, state, is_model)))

    def _show_captured(self, wanted: states.State, is_model: bool, _: BackgroundJob) -> None:
        """Show a state; if only another model was asked for, with the settings that the screen has by now."""
        if self.views is None:
            self.history = state_changes.History(present=self.provider.at_its_batch(wanted))
            self.apply(self.state, self.history)
        elif wanted.trace != self.state.trace:
            self.apply(self.provider.under_traced_runtime(wanted))
        else:
            state = self.with_model(wanted.model, wanted.image_size) if is_model else wanted
            self.apply(state, self.history if state == self.state else None)  # the same model, captured again

    def start(self, job: BackgroundJob) -> None:
        """Start a job and cancel another of its kind."""
        for other in [other for other in self.jobs if type(other) is type(job)]:
            self._cancel(other)
        self.jobs = sorted([*self.jobs, job], key=lambda each: each.replaces_model)
        job.start()
        self.emit(Changed("jobs"))

    def _cancel(self, job: BackgroundJob) -> None:
        job.cancel()
        self.jobs.remove(job)
        self.emit(Changed("jobs"))

    def stop_job(self) -> bool:
        """Cancel the action that waits, else the job whose progress is shown. Return False if there is none."""
        if self.waiting is not None:
            self.waiting = None
            self.say("stopped", "warn")
            return True
        if not self.jobs:
            return False
        job = self.jobs[0]
        self._cancel(job)
        self.say(job.stop_message, "warn")
        return True

    def poll_jobs(self) -> bool:
        """Finish the jobs that are done. Return True if any job is left."""
        for job in list(self.jobs):
            if self.waiting is not None or not job.is_done():
                continue
            self.jobs.remove(job)
            if error := job.error():
                self.say(error, "bad")
                if self.views is None and self.provider.ready(self.state):  # only the trace cannot be read
                    self.apply(self.state, self.history)
            else:
                self.attempt(partial(job.finish, job))
        self.emit(Changed("jobs"))
        return bool(self.jobs)

    def end(self) -> None:
        """End all jobs and wait until they are gone."""
        for job in self.jobs:
            job.end()
