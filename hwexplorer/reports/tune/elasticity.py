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
    if names := [row.name for row in document.elasticities if not _does_something(row)]:
        yield f"No effect: {', '.join(names)}"
    yield "Each is evaluated 5 % above and below its value, sides of arrays doubled and halved."
    yield "Idle power, clock power and the power limit follow the silicon."


VERB = Report(
    subject=NODE,
    document=document_of_estimate(elasticities),
    parts=(
        Rows(
            "elasticities",
            "Change in % for 1 % more of each fact or price",
            COLUMNS,
            of=lambda document: filter(_does_something, document.elasticities),
            key="name",
            footer=_footer,
            first=20,
        ),
    ),
    title=lambda document, state: node_title("What matters to the EDP", state),
    on_screen=False,
    examples={"elasticity": "conv2d --on kpu_t256"},
)
