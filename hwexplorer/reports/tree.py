"""Model, subgraphs and operators with their energy-delay product."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.run.figures import about
from analysis.run.nodes import node
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Section
from hwexplorer.state import State
from hwexplorer.views.heat import subtree
from hwexplorer.views.tree import COLUMNS


def _document(state: State) -> dict[str, Any]:
    """The nested nodes; with a node in the state, the part below it. The root says what was asked."""
    result = engine.result(state)
    return {**about(result, on_device=True), **msgspec.to_builtins(node(result, state.at))}


VERB = Report(
    subject=NODE,
    document=_document,
    view=subtree,
    view_columns=COLUMNS,
    section=Section(-10, "Subgraphs and operators"),
    examples={"tree": "conv2d --on h100_sxm", "tree_fused": "conv2d --on tpu_v4"},
)
