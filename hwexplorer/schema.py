"""The name of the JSON contract (design, section 8), which begins every document."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = "hwexplorer/1"


def stamped(document: Any) -> dict[str, Any]:
    """A document as plain data, the name of the contract first."""
    return {"schema": SCHEMA, **msgspec.to_builtins(document)}
