"""The one error a wrong request raises, and how it names the nearest right one."""

from __future__ import annotations

from collections.abc import Iterable

from hardware.names import hint

MOST = 14  # names that are listed beside a near one


class RequestError(ValueError):
    """The request was wrong. The message is one line: what, what is allowed, the nearest match."""


def unknown(what: str, given: object, allowed: Iterable[str], *, listing: str = "") -> RequestError:
    """Return `unknown device 'h10_sxm': did you mean h100_sxm? (hwexplorer devices lists them)`; without `listing` the
    allowed values are spelt out, the first of many where one is near."""
    names = [*dict.fromkeys(name for name in allowed if name)]  # the root of a tree has none
    text = str(given)[:80]
    near = hint(text, names)
    shown = names[:MOST] if near else names
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    listed = listing or f"allowed: {', '.join(shown)}{more}"
    return RequestError(f"unknown {what} {text!r}{': ' if near else ''}{near} ({listed})")
