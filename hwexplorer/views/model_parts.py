"""A picture of a model: its parts in the order in which they run, and the share of each in the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.document import Column
from analysis.estimate.outline import Branch, modules
from analysis.model.ir.workload import Floats
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Row, Table

TOO_LARGE = 0.5  # of the whole: what is more is told by its parts
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
    root = modules(workload)
    parts = list(_parts(root, macs / (macs.sum() or 1.0)))
    rows = tuple(
        Row(branch.key, (branch.name + f" ×{branch.count}" * (branch.count > 1), share)) for branch, share in parts
    )
    return Table("picture", workload.name, COLUMNS, rows)


def _parts(branch: Branch, share: Floats) -> Iterator[tuple[Branch, float]]:
    """Yield the parts that compute anything, divided until none is too large."""
    for child in branch.children:
        part = float(share[child.members].sum())
        if part > TOO_LARGE and any(below.kind != "part" for below in child.children):
            yield from _parts(child, share)
        elif part > 0:
            yield child, part
