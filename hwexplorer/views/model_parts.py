"""A picture of a model: its parts in the order in which they run, and the share of each in the arithmetic."""

from __future__ import annotations

from analysis.document import Column
from analysis.estimate.outline import Branch, modules
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Row, Table

COLUMNS = (
    Column("name", "Part", role="text", keep=0),
    Column("bar", "MACs", "%", role="bar", keep=0, help="of the multiply-accumulates of the model"),
)


def picture(state: State) -> Table:
    """Return the picture of a model. Raises RequestError where the model is not captured."""
    workload = engine.captured_model(state)
    at = workload.value_at(**(dict.fromkeys(workload.dims, 1) | workload.defaults))
    macs = workload.operators.macs @ at
    if workload.repeats is not None:
        macs = macs * (workload.repeats @ at)
    share = macs / (macs.sum() or 1.0)

    def share_of(branch: Branch) -> float:
        """Return the share of a part in the arithmetic."""
        return float(share[branch.members].sum())

    parts = modules(workload).divide(share_of, lambda branch: any(below.kind != "part" for below in branch.children))
    rows = (Row(part.key, (part.counted_name, share_of(part))) for part in parts)
    return Table("picture", workload.name, COLUMNS, tuple(row for row in rows if row.cells[1]))
