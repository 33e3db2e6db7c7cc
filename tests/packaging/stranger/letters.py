"""Count the letters of the names of operators."""

from __future__ import annotations

import msgspec

from hwexplorer.extend import declare, engine, state


class Letters(msgspec.Struct, frozen=True):
    model: str
    letters: int


def _document(here: state.State) -> Letters:
    workload = engine.workload(here)
    return Letters(workload.name, sum(map(len, workload.operators.kind)))


VERB = declare.Report(
    subject=declare.MODEL,
    document=_document,
    title="Letters",
    parts=(declare.summary_text(lambda document, here: (f"{document.letters} letters",)),),
    shown=("resnet50",),
)
