"""The models one can open: torchvision's, transformers and the building blocks, with their published figures."""

from __future__ import annotations

from analysis.workload import zoo
from analysis.workload.sources.transformer import spec as transformer_spec
from hwexplorer.state import State
from hwexplorer.views.plain import Column, Row, Table

COLUMNS = (
    Column("name", "Model", role="text", keep=0),
    Column("family", "Family", role="text", keep=4),
    Column("parameters", "Params", "SI", role="quantity", keep=3, help="trained parameters"),
    Column("macs", "MACs", "SI", role="quantity", keep=1, help="multiply-accumulates of one inference, as published"),
    Column("input", "Input", role="text", keep=5),
    Column("accuracy", "Acc", role="text", keep=6, help="published accuracy of the default weights"),
)


def models(state: State | None = None) -> Table:
    """All models; with a state, those whose name or family contains its filter, in order."""
    wanted = state.filter.lower() if state else ""
    rows = tuple(row for row in _all() if all(word in f"{row.key} {row.kind}" for word in wanted.split()))
    return Table("models", f"Models ({len(rows)})", COLUMNS, rows)


def _all() -> tuple[Row, ...]:
    blocks = tuple(
        Row(name, (name, "block", None, None, ", ".join(f"{k}={v}" for k, v in parameters.items()), ""), kind="block")
        for name, parameters in zoo.BLOCKS.items()
    )
    named = [_row(info) for info in zoo.table().values()] + [_transformer(n) for n in transformer_spec.names()]
    return (*sorted(named, key=lambda row: row.key), *blocks)


def _transformer(name: str) -> Row:
    """One step at its default lengths."""
    listed = transformer_spec.listed(name)
    lengths = ", ".join(f"{key}={value}" for key, value in listed.input.items())
    return Row(name, (name, listed.family, listed.parameters, listed.macs, lengths, ""), kind=listed.family)


def _row(info: zoo.ModelInfo) -> Row:
    shape = "x".join(str(size) for size in info.input)
    accuracy = f"{info.value:.1f} {info.metric}" if info.value is not None else ""
    cells = (info.name, info.family, info.parameters, info.macs, shape, accuracy)
    return Row(info.name, cells, kind=info.family)
