"""What matters: per cent of latency, energy and EDP per per cent of each fact of the chip."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.document import Column, columns
from analysis.explore.tuning.elasticities import Elasticities, Elasticity, elasticities
from hardware.quantity import of_fact
from hwexplorer.declare import NODE, Report, Rows, document_of_estimate
from hwexplorer.state import State
from hwexplorer.views.captions import node_title

LEAST = 0.0005  # what would print as less than .001


def _does_something(row: Elasticity) -> bool:
    return bool(row.says) or max(abs(row.latency), abs(row.energy)) >= LEAST


COLUMNS = (
    *columns(Elasticity, "name"),
    Column("value", "Now", role="text", keep=2, of=lambda row: of_fact(row.value, row.unit)),
    *columns(Elasticity, "latency energy edp says"),
)


def _footer(document: Elasticities, state: State) -> Iterable[str]:
    nothing = [row.name for row in document.elasticities if not _does_something(row)]
    if nothing:
        yield f"do nothing here: {', '.join(nothing)}"
    yield "by re-evaluation, 5 % to either side (sides of arrays doubled and halved); power at rest, of the clock and"
    yield "its limit follow the silicon"


VERB = Report(
    subject=NODE,
    document=document_of_estimate(elasticities),
    parts=(
        Rows(
            "elasticities",
            "",
            COLUMNS,
            of=lambda document: filter(_does_something, document.elasticities),
            key="name",
            footer=_footer,
        ),
    ),
    title=lambda document, state: node_title("What matters to the EDP", state),
    on_screen=False,
    examples={"elasticity": "conv2d --on kpu_t256"},
)
