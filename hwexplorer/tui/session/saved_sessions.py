"""States saved under names, and the state that the last session ended with: a small JSON file, written atomically."""

from datetime import datetime
from pathlib import Path

import msgspec

from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.base.file_access import user_folder
from hwexplorer.state import State, format
from hwexplorer.tui.session.state_changes import Sizes

LAST = "last"
NAME_MAX = 40
FILE_MAX = 1 << 24


def sessions_file() -> Path:
    """Return the path of the saved sessions."""
    return user_folder("state") / "sessions.json"


class SavedSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A state as a string, the date, the figures of the device under its cursor, how the user sized the panes, and the
    last items of the palette."""

    state: str
    date: str = ""
    figures: str = ""
    sizes: Sizes = Sizes()
    recent: tuple[str, ...] = ()


class SavedSessions:
    """Reads and writes the file on each call. An unreadable file raises RequestError and is not overwritten."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, SavedSession]:
        """Return the sessions by name, `last` first; {} without a file. Raises RequestError if it is unreadable."""
        try:
            text = file_access.text(file_access.read(self.path, FILE_MAX))
            saved = msgspec.json.decode(text, type=dict[str, SavedSession])
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())[:100]
            raise RequestError(f"sessions cannot be read, {self.path}: {why}") from None
        return {name: saved[name] for name in sorted(saved, key=lambda name: (name != LAST, name))}

    def save(
        self, name: str, state: State, figures: str = "", sizes: Sizes | None = None, recent: tuple[str, ...] = ()
    ) -> None:
        """Save a state and other fields. Raises RequestError for a bad name, or if the file cannot be used."""
        if not name or len(name) > NAME_MAX or not name.isprintable() or " " in name:
            raise RequestError(f"the name of a session is one word of at most {NAME_MAX} characters")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with file_access.turn(self.path):
                date = datetime.now().isoformat(" ", "minutes")
                kept = self.all() | {name: SavedSession(format(state), date, figures, sizes or Sizes(), recent)}
                file_access.write(self.path, [msgspec.json.format(msgspec.json.encode(kept), indent=2), "\n"])
        except OSError as error:
            raise RequestError(f"sessions cannot be written, {self.path}: {error.strerror or error}") from None

    def state_string(self, name: str = LAST) -> str:
        """Return the state of a session as it was saved. Raises RequestError if the name is unknown."""
        kept = self.all()
        if name not in kept:
            if not kept:
                raise RequestError("no session is saved yet (:save NAME saves one)")
            raise unknown("session", name, kept)
        return kept[name].state
