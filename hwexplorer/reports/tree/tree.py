"""Show the parts of a model with their energy-delay product (EDP), the costliest first."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.estimate.figures import head_fields
from analysis.reports.nodes import node
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Section
from hwexplorer.options import choice
from hwexplorer.state import BYS, State, replace
from hwexplorer.views.heat import subtree
from hwexplorer.views.measured_times import add_measured_fields, measured_times
from hwexplorer.views.plain import Table
from hwexplorer.views.table_tree import fold_rows, open_heaviest_rows
from hwexplorer.views.tables import keep_columns
from hwexplorer.views.tree_view import COLUMNS, MEASURED

_BY_HELP = "rows of the tree (default: module in text and HTML, subgraph in --all, JSON and CSV)"
FOLD, LINES = 1.0, 26  # brief text folds rows below this share in %, and has at most so many rows
DETAILS = ("cumulative", "fused", "utilization", "macs", "dram", "modifier", "benefit")


def _document(state: State) -> dict[str, Any]:
    """Return the nested nodes, from the state's node down. The root also has the fields of the request."""
    result = engine.result(state)
    root = msgspec.to_builtins(node(result, state.at, state.by))
    if times := measured_times(state, result):
        add_measured_fields(root, times, result)
    return {**head_fields(result, on_device=True), **root}


def _by_share(state: State) -> Table:
    """Return the tree of the screen: repeats merged, the heaviest first."""
    by = "module" if state.by == "subgraph" else state.by
    return subtree(replace(state, by=by, sort="share", descending=True))


def _brief(state: State) -> Table:
    """Return the tree of the screen with small rows folded, and without details."""
    shown = _by_share(state)
    if any(" ×" in str(row.cells[0]) for row in shown.rows):
        shown = replace(shown, footer=("×2 and more: the figures are of all of them together", *shown.footer))
    kept = [place for place, column in enumerate(shown.columns) if column.key not in DETAILS]
    return open_heaviest_rows(fold_rows(keep_columns(shown, kept), FOLD), LINES)


VERB = Report(
    subject=NODE,
    options=(choice("--by", BYS, metavar="BY", help=_BY_HELP),),
    document=_document,
    view=subtree,
    brief=_brief,
    html=_by_share,
    view_columns=(*COLUMNS, *MEASURED),
    section=Section(-10, "Subgraphs and operators"),
    examples={
        "tree": "conv2d --on h100_sxm",
        "tree_fused": "conv2d --on tpu_v4",
        "tree_module": "resnet_block --by module",
    },
)
