"""Print the points of a plot: roofline or batch."""

from typing import Any

import msgspec

from analysis.estimate.figures import head_fields
from hwexplorer import declare, engine
from hwexplorer.options import choice
from hwexplorer.plots import plot
from hwexplorer.state import PLOTS, State
from hwexplorer.state import format as format_state


def _document(state: State) -> dict[str, Any]:
    return {"state": format_state(state), **head_fields(engine.result(state)), **msgspec.to_builtins(plot(state))}


VERB = declare.Report(
    subject=declare.DEVICES,
    options=(choice("--plot", PLOTS, metavar="NAME", help="kind of plot (default roofline)"),),
    document=_document,
    view=plot,
    examples={"plot": "conv2d --plot roofline"},
)
