"""List the models that can be opened."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from analysis.document import Column, record
from analysis.model.names import zoo
from analysis.model.transformer import transformer_request as transformer_spec
from hardware.base.errors import matching_places, unknown
from hwexplorer.declare import CATALOGUE, Report
from hwexplorer.options import option
from hwexplorer.process import output
from hwexplorer.state import State, replace
from hwexplorer.views.digest import list_by_kind
from hwexplorer.views.plain import Table, Text
from hwexplorer.views.tables import rows


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be opened; `input` is the shape of one input, or the parameters that its name takes."""

    name: str
    family: str
    parameters: int | None = None
    macs: float | None = None
    input: tuple[int, ...] | dict[str, int]
    image_size: int | UnsetType | None = UNSET
    min_image_size: int | UnsetType = UNSET
    accuracy: dict[str, Any] | UnsetType = UNSET
    source: str | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True):
    """Every model that can be opened."""

    models: tuple[ListedModel, ...]


def _document(state: State) -> ModelList:
    """Return the models whose name or family matches the filter. Raises RequestError if there is none."""
    published = [
        record(ListedModel, info, min_image_size=info.min_size, accuracy={"metric": info.metric, "value": info.value})
        for info in zoo.table().values()
    ]
    transformers = [record(ListedModel, transformer_spec.transformer_info(name)) for name in transformer_spec.names()]
    libraries = [
        ListedModel(
            name=f"{library}:{name}",
            family=row["family"],
            parameters=row["parameters"],
            macs=row["macs"],
            input=tuple(next(iter(row["inputs"].values()))[1:]),
            source=row["source"],
        )
        for library, rows in zoo.libraries().items()
        for name, row in rows.items()
    ]
    blocks = [ListedModel(name=name, family="block", input=parameters) for name, parameters in zoo.BLOCKS.items()]
    every = (*sorted((*published, *transformers, *libraries), key=lambda model: model.name), *blocks)
    pattern = state.filter.partition(":")[0]  # a name has no phase
    places = matching_places(pattern, [f"{model.name}\n{model.family}" for model in every])
    if not places:
        raise unknown("model", pattern, [model.name for model in every])
    return ModelList(tuple(every[place] for place in places))


def _input(model: ListedModel) -> str:
    """Write `3x224x224` or `sequence=2048, kv=2048`."""
    if isinstance(model.input, dict):
        return ", ".join(f"{name}={value}" for name, value in model.input.items())
    return "x".join(map(str, model.input))


def _accuracy(model: ListedModel) -> str:
    accuracy = model.accuracy
    return "" if accuracy is UNSET or accuracy["value"] is None else f"{accuracy['value']:.1f} {accuracy['metric']}"


COLUMNS = (
    Column("name", "Model", role="text", keep=0),
    Column("family", "Family", role="text", keep=4),
    Column("parameters", "Params", "SI", role="quantity", keep=3, help="trained parameters"),
    Column("macs", "MACs", "SI", role="quantity", keep=1, help="multiply-accumulates of one inference, as published"),
    Column("input", "Input", role="text", keep=5, of=_input),
    Column("accuracy", "Acc", role="text", keep=6, of=_accuracy, help="published accuracy of the default weights"),
)


def _view(state: State) -> Table:
    models = _document(state).models
    return Table("models", f"Models ({len(models)})", COLUMNS, rows(COLUMNS, models, kind="family"))


def _brief(state: State) -> Table | Text:
    """Return the names by family. With a filter, or if the output is not a terminal but a program, return all rows."""
    hint = "hwexplorer models --all lists parameters, MACs, input and accuracy of each"
    return _view(state) if state.filter or not output.width() else list_by_kind(_view(state), hint, most=16)


VERB = Report(
    subject=CATALOGUE,
    options=(option("filter", nargs="?", default="", metavar="TEXT", help="only models with this in name or family"),),
    document=_document,
    view=_view,
    brief=_brief,
    view_columns=COLUMNS,
    pane=lambda state: _view(replace(state, filter="")),  # the pane filters by itself
    shown=("", "resnet", "--format csv -o models.csv"),
)
