"""The error that a wrong request raises. It suggests the nearest allowed name."""

from collections.abc import Iterable

from hardware.names import hint

MOST = 14  # names that are listed in addition to a suggestion


class RequestError(ValueError):
    """The request was wrong. The message is one line: what, what is allowed, the nearest match."""


def unknown(what: str, given: object, allowed: Iterable[str], *, listing: str = "") -> RequestError:
    """Return an error such as `unknown device 'h10_sxm': did you mean h100_sxm? (hwexplorer devices lists them)`.
    Without `listing`, list the allowed values: all, or the first MOST if one is near."""
    names = [*dict.fromkeys(name for name in allowed if name)]  # the root of a tree has no name
    text = str(given)[:80]
    near = hint(text, names)
    shown = names[:MOST] if near else names
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    listed = listing or f"allowed: {', '.join(shown)}{more}"
    return RequestError(f"unknown {what} {text!r}{': ' if near else ''}{near} ({listed})")
