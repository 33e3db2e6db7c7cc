"""The name of the JSON contract (design, section 8), which begins every document."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = "hwexplorer/1"


def stamped(document: Any, gap: str = "") -> dict[str, Any]:
    """A document as plain data, the name of the contract first, then what its figures lack."""
    lacks = {"incomplete": gap} if gap else {}
    return {"schema": SCHEMA, **lacks, **msgspec.to_builtins(document, enc_hook=_written)}


def _written(value: Any) -> str:
    """What to look at next is a command in JSON."""
    from analysis.decide.next_step import NextStep
    from hwexplorer.shell import command

    if isinstance(value, NextStep):
        return command(value)
    raise NotImplementedError(type(value).__name__)
