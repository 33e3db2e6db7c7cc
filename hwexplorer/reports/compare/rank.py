"""Rank models on one device, with their published accuracy."""

from analysis.document import columns
from analysis.estimate.figures import Figures
from analysis.explore.deployment_cost import settings
from analysis.explore.search.candidates import Candidate, Rank, Ranked, rank
from analysis.model import store
from analysis.model.names import zoo
from analysis.model.transformer import transformer_request as transformer_spec
from hardware.base.errors import RequestError, unknown
from hardware.base.text import count_noun
from hwexplorer import engine
from hwexplorer.declare import Report, Rows, Subject
from hwexplorer.options import ON_ONE, OWN_MODEL, SCENARIO, choice, option
from hwexplorer.state import State, replace, with_model
from hwexplorer.views.captions import MARKED, list_names

COLUMNS = (
    *columns(Figures, "model", within="candidate.point", model=0),
    *columns(Ranked, "front"),
    *columns(Candidate, "accuracy metric", within="candidate", accuracy={"title": "Accuracy", "keep": 1}),
    *columns(
        Figures,
        "precision_run energy_per_inference latency throughput edp memory utilization bound",
        within="candidate.point",
    ),
    *columns(Ranked, "parameters macs family"),
)


ORDERS = ("energy", "latency", "throughput", "accuracy", "edp")


def _states(state: State, models: list[str] | None, family: str, order: str) -> tuple[State, ...]:
    transformers = {name: transformer_spec.transformer_info(name).family for name in transformer_spec.names()}
    families = (*zoo.FAMILIES, *dict.fromkeys(transformers.values()))
    if family not in families:
        raise unknown("family", family, families)
    shipped = [info.name for info in zoo.models(family) if state.image_size is not None or store.is_ready(info.name)]
    languages = [name for name, kind in transformers.items() if kind == family]
    names = tuple(dict.fromkeys(models or ())) or (*shipped, *languages)
    if any(not name.strip() for name in names):
        raise RequestError("a model name is empty (hwexplorer models lists them)")
    precision = with_model(state, names[0]).precision  # of the first model, for all
    return tuple(replace(state, model=name, precision=precision) for name in names)


def _document(state: State, models: list[str] | None, family: str, order: str) -> Rank:
    return rank([engine.result(one_state) for one_state in _states(state, models, family, order)], settings(), order)


def _title(ranking: Rank) -> str:
    runtimes = " or ".join(dict.fromkeys(row.candidate.point.runtime for row in ranking.rows))
    return (
        f"{count_noun(len(ranking.rows), 'model')} by {ranking.order}, batch {ranking.batch}, {ranking.precision}, "
        f"{runtimes} on {MARKED[ranking.device]}"
    )


def _front(ranking: Rank, state: State) -> tuple[str, ...]:
    best = [r.candidate.point.model for r in ranking.rows if r.on_front]
    return (f"{len(best)} on the front of energy, latency and accuracy: {list_names(best, 12)}",) if best else ()


VERB = Report(
    subject=Subject(options=(*SCENARIO, *OWN_MODEL, ON_ONE)),
    options=(
        option("models", nargs="*", metavar="MODEL", help="models (default: all shipped ones of the family)"),
        option("--family", default="classification", metavar="F", help="family that is ranked where no model is named"),
        choice("--sort", ORDERS, default="energy", metavar="BY", dest="order"),
    ),
    document=_document,
    parts=(
        Rows(
            "rank",
            _title,
            COLUMNS,
            of="rows",
            kind="family",
            dim=lambda row: not row.candidate.point.fits,
            footer=_front,
            first=25,
        ),
    ),
    states=_states,
    on_screen=False,
    examples={"rank": "--on h100_sxm resnet18 mobilenet_v2"},
)
