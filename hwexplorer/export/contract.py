"""The name of the JSON contract (design, section 8), which begins every document."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = "hwexplorer/1"


def to_contract(document: Any, gap: str = "", limits: Any = None) -> dict[str, Any]:
    """A document as plain data, the name of the contract first, then what its figures lack, and the limits that its
    devices are held against."""
    lacks = {"incomplete": gap} if gap else {}
    held = {"limits": msgspec.to_builtins(limits)} if limits is not None else {}
    return {"schema": SCHEMA, **lacks, **held, **msgspec.to_builtins(document, enc_hook=_encode_command)}


def _encode_command(value: Any) -> str:
    from analysis.explore.next_step import NextStep
    from hwexplorer.text.next_command import command

    if isinstance(value, NextStep):
        return command(value)
    raise NotImplementedError(type(value).__name__)
