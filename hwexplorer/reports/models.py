"""List the models that can be opened; with --on DEVICE rank them there, with their published accuracy."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from analysis.document import Column, column, columns, record
from analysis.estimate.estimate import Estimate
from analysis.explore import grid
from analysis.explore.cost import settings
from analysis.model import store
from analysis.model.names import zoo
from analysis.model.transformer import transformer_request as transformer_spec
from hardware.base.errors import RequestError, matching_places, unknown
from hardware.base.text import count_noun
from hwexplorer import engine
from hwexplorer.declare import Report, Rows, Subject
from hwexplorer.options import OWN_MODEL, SCENARIO, choice, option
from hwexplorer.process import output
from hwexplorer.state import State, replace, with_model
from hwexplorer.views import plain
from hwexplorer.views.tables import list_by_kind, rows


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be opened; `input` is the shape of one input, or the parameters that its name takes."""

    name: Annotated[str, column("Model")]
    family: Annotated[str, column("Family", keep=4)]
    parameters: Annotated[int | None, column("Params", "SI", role="quantity", keep=3, help="trained parameters")] = None
    macs: Annotated[
        float | None,
        column("MACs", "SI", role="quantity", keep=1, help="multiply-accumulates of one inference, as published"),
    ] = None
    input: tuple[int, ...] | dict[str, int]
    image_size: int | UnsetType | None = UNSET
    min_image_size: int | UnsetType = UNSET
    accuracy: dict[str, Any] | UnsetType = UNSET
    source: str | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True):
    """Every model that can be opened."""

    models: tuple[ListedModel, ...]


class RankedModel(grid.Point, frozen=True, kw_only=True):
    """One model on the device, on the front unless another is no worse in accuracy, energy and latency, and better in
    one. `macs` are of one inference."""

    on_front: Annotated[
        bool,
        column("Best trade-off", key="front", shown={True: "yes", False: ""},
               help="yes: no other model has less energy, less latency and more accuracy"),
    ]  # fmt: skip
    family: Annotated[str, column("Family", keep=6)]
    parameters: Annotated[int, column("Params", "SI", role="quantity", keep=5)]
    macs: Annotated[float, column("MACs", "SI", role="quantity", keep=5)]


class ModelRanking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Models on one device, in the order asked for."""

    device: str
    batch: int
    precision: str
    execution: str
    layout: str
    order: str
    prices: str = "own"
    rows: tuple[RankedModel, ...]


def list_models(names: Sequence[str]) -> ModelList:
    """Return the models whose name or family matches one of the words. Raises RequestError if there is none."""
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
    texts = [f"{model.name}\n{model.family}" for model in every]
    patterns = [name.partition(":")[0] for name in names] or [""]  # a name has no phase
    places = {place for pattern in patterns for place in matching_places(pattern, texts)}
    if not places:
        raise unknown("model", patterns[0], [model.name for model in every])
    return ModelList(tuple(every[place] for place in sorted(places)))


def rank_models(results: Sequence[Estimate], order: str = "energy") -> ModelRanking:
    """Rank models on one device. The front is taken among models with accuracies of the same kind."""
    points = grid.Points(grid.make_point(result, settings()) for result in results)
    rivals = points.where(lambda point: bool(point.accuracy_metric) and point.can_win)
    kinds = {point.accuracy_metric for point in rivals}
    alike = (grid.Points(point for point in rivals if point.accuracy_metric == kind) for kind in kinds)
    best = {id(point) for group in alike for point in group.front(("energy", "latency", "accuracy"))}
    pairs = sorted(zip(points, results, strict=True), key=lambda pair: pair[0].sort_key(order))
    rows = tuple(
        record(
            RankedModel, point, result.workload, on_front=id(point) in best,
            macs=float(result.demand.macs.sum()) / point.batch,
        )
        for point, result in pairs
    )  # fmt: skip
    return record(ModelRanking, results[0].scenario, device=results[0].device.key, order=order, rows=rows)


def _input(model: ListedModel) -> str:
    """Write `3x224x224` or `sequence=2048, kv=2048`."""
    if isinstance(model.input, dict):
        return ", ".join(f"{name}={value}" for name, value in model.input.items())
    return "x".join(map(str, model.input))


def _accuracy(model: ListedModel) -> str:
    accuracy = model.accuracy
    return "" if accuracy is UNSET or accuracy["value"] is None else f"{accuracy['value']:.1f} {accuracy['metric']}"


COLUMNS = (
    *columns(ListedModel),
    Column("input", "Input", role="text", keep=5, of=_input),
    Column("accuracy", "Acc", role="text", keep=6, of=_accuracy, help="published accuracy of the default weights"),
)


RANKING = (
    *grid.point_columns("model", model=0),
    *columns(RankedModel, "front"),
    *grid.point_columns(
        "accuracy metric precision_run energy_per_inference latency throughput edp memory utilization bound",
        accuracy={"title": "Accuracy", "keep": 1}, edp=2,
    ),
    *columns(RankedModel, "parameters macs family"),
)  # fmt: skip
ORDERS = ("energy", "latency", "throughput", "accuracy", "edp")


def _states(state: State, names: list[str] | None, device: str | None, family: str, order: str) -> tuple[State, ...]:
    """Return the states of the models that are ranked, none of a list."""
    if device is None:
        return ()
    transformers = {name: transformer_spec.transformer_info(name).family for name in transformer_spec.names()}
    families = (*zoo.FAMILIES, *dict.fromkeys(transformers.values()))
    if family not in families:
        raise unknown("family", family, families)
    shipped = [info.name for info in zoo.models(family) if state.image_size is not None or store.is_ready(info.name)]
    languages = [name for name, kind in transformers.items() if kind == family]
    models = tuple(dict.fromkeys(names or ())) or (*shipped, *languages)
    if any(not name.strip() for name in models):
        raise RequestError("a model name is empty (hwexplorer models lists them)")
    state = replace(state, devices=(device,), on=device)
    precision = with_model(state, models[0]).precision  # of the first model, for all
    return tuple(replace(state, model=name, precision=precision) for name in models)


def _document(
    state: State, names: list[str] | None, device: str | None, family: str, order: str
) -> ModelList | ModelRanking:
    if device is None:
        return list_models(names or ())
    return rank_models([engine.result(one) for one in _states(state, names, device, family, order)], order)


def _title(ranking: ModelRanking) -> str:
    runtimes = " or ".join(dict.fromkeys(row.runtime for row in ranking.rows))
    return (
        f"{count_noun(len(ranking.rows), 'model')} by {ranking.order}, batch {ranking.batch}, {ranking.precision}, "
        f"{runtimes}{f', {ranking.prices} prices' * (ranking.prices != 'own')} on {engine.marked_key(ranking.device)}"
    )


_RANKED = Rows("models", _title, RANKING, of="rows", kind="family", dim=lambda row: not row.fits, first=25)


def _view(state: State, **asked: Any) -> plain.Table:
    answer = _document(state, **asked)
    if isinstance(answer, ModelRanking):
        return _RANKED(answer, state)
    listed = rows(COLUMNS, answer.models, kind="family")
    return plain.Table("models", f"Models ({len(listed)})", COLUMNS, listed)


def _brief(state: State, **asked: Any) -> plain.Table | plain.Text:
    """Return the names by family. With words, or if the output is not a terminal but a program, return all rows."""
    hint = "hwexplorer models --all lists parameters, MACs, input and accuracy of each"
    view = _view(state, **asked)
    return view if asked["device"] or asked["names"] or not output.width() else list_by_kind(view, hint, most=16)


VERB = Report(
    subject=Subject(options=(*SCENARIO, *OWN_MODEL)),
    options=(
        option("names", nargs="*", metavar="NAME",
               help="only models with this in name or family; with --on the models that are ranked"),
        option("--on", dest="device", metavar="DEV",
               help="rank on this device, without a name all shipped ones of --family"),
        option("--family", default="classification", metavar="F", help="family that --on ranks if no model is named"),
        choice("--sort", ORDERS, default="energy", metavar="BY", dest="order", help="the order of --on"),
    ),
    document=_document,
    states=_states,
    view=_view,
    brief=_brief,
    view_columns=(*COLUMNS, *RANKING),
    on_screen=False,
    shown=("", "resnet", "--format csv -o models.csv"),
    examples={"rank": "--on h100_sxm resnet18 mobilenet_v2"},
)  # fmt: skip
