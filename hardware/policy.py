"""What may be done on this machine at the word of whoever types: everything, unless it is served to others.

`hwexplorer serve` opens explorers for people in browsers. What each may do travels in one environment variable, which
its own subprocesses inherit, and is asked for at the doors: where a file is read or written, where a capture starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from hardware.errors import RequestError

VARIABLE = "HWEXPLORER_POLICY"
ALLOWANCES = {
    "read": "open model files, configurations and data files of this machine",
    "write": "write files and sessions on this machine, as you",
    "capture": "capture models that are not shipped: a core and some GB of memory for minutes",
    "code": "run model code, as you (read and capture with it)",
}
_INCLUDED = {"code": ("read", "capture")}


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`named` are the files and folders that whoever serves named: they are read in any case."""

    is_served: bool = False
    allowed: frozenset[str] = frozenset(ALLOWANCES)
    named: frozenset[str] = frozenset()


def served(allowed: Iterable[str], named: Iterable[str]) -> Policy:
    """The policy of a served explorer."""
    given = set(allowed)
    given |= {included for word in given for included in _INCLUDED.get(word, ())}
    return Policy(True, frozenset(given), frozenset(named))


def encode(policy: Policy) -> str:
    """For the environment of a process that shall keep to it."""
    return msgspec.json.encode(policy).decode()


@lru_cache(maxsize=1)
def current() -> Policy:
    """The policy of this process. One that cannot be read allows nothing."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return Policy()
    try:
        return msgspec.json.decode(text, type=Policy)
    except (msgspec.MsgspecError, UnicodeError):
        return served((), ())


def require(allowance: str, doing: str, named: str = "") -> None:
    """Raises RequestError where `doing` (as in `reading net.onnx`) is not allowed here."""
    policy = current()
    if allowance not in policy.allowed and (not named or named not in policy.named):
        raise RequestError(
            f"{doing[:80]} is not allowed in an explorer that is served (hwexplorer serve --allow {allowance} lets it)"
        )
