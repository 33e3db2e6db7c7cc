"""Show how well estimates are known, or compare your measurements with their predictions."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import YES_NO, Column, column, columns, record
from analysis.estimate import trust
from analysis.measured import predictions, services, tables
from analysis.serving.served_load import load_evidence
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent, quantity
from hwexplorer import declare, engine
from hwexplorer.options import option
from hwexplorer.state import State
from hwexplorer.views import plain
from hwexplorer.views.captions import band_words

UNITS = {"latency": "s", "energy": "J", "TTFT": "s", "TPOT": "s", "throughput": "1/s"}
SERVED_NEEDED = ("device", "public_model", "phase_split", "load_kind", "runtime", "source")


class ComparedFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A measured figure in SI units with its prediction and the band in which it is expected."""

    name: Annotated[str, column("Model")]
    asked: Annotated[str, column("Asked", keep=2, help="batch or load")]
    device: Annotated[str, column("Device", keep=1)]
    runtime: Annotated[str, column("Software", keep=3)]
    figure: Annotated[str, column("Figure")]
    unit: str
    measured: float
    predicted: float
    band: tuple[float, float]
    is_inside: Annotated[bool, column("Inside band", shown=YES_NO)]

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1.0

    def __str__(self) -> str:
        wrong = ("slow" if self.error > 0 else "fast") if self.unit == "s" else ("high" if self.error > 0 else "low")
        return (
            f"{self.name}, {self.figure}: {quantity(self.measured, self.unit)} measured, "
            f"{quantity(self.predicted, self.unit)} predicted ({percent(abs(self.error))} too {wrong}, "
            f"{'inside' if self.is_inside else 'outside'} the band)"
        )


class MeasuredComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Measured figures beside their predictions, and the numbers of rows that cannot be predicted by reason."""

    figures: tuple[ComparedFigure, ...]
    rows: int
    skipped: dict[str, int]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """State what is known of each class of work, from measurements that no constant follows from."""

    classes: tuple[trust.ClassEvidence, ...]


def _document(state: State, files: list[Path] | None, base: str | None) -> MeasuredComparison | Evidence:
    if not files:
        return Evidence(classes=(*trust.trust_table().classes, *load_evidence().values()))
    figures, skipped, count = list[ComparedFigure](), Counter[str](), 0
    for path in files:
        read = _served_figures if _is_load(path) else _model_figures
        needed = SERVED_NEEDED if read is _served_figures else ("device", "model")
        rows = tables.read_rows((path,), needed)
        if not base and not all(row["device"] for row in rows):
            raise RequestError("the result of a tool states no device: name it with --on DEV")
        own_figures, left_out = read([row | {"device": row["device"] or str(base)} for row in rows])
        figures, skipped, count = figures + own_figures, skipped + left_out, count + len(rows)
    if not figures:
        reasons = f" ({skipped.most_common(1)[0][0]})" if skipped else ""
        raise RequestError(f"no row of {files[0].name} can be predicted{reasons}")
    return MeasuredComparison(figures=tuple(figures), rows=count, skipped=dict(skipped.most_common()))


def _is_load(path: Path) -> bool:
    """Return True if a file is of services under load: the result of a tool, or a table as the shipped one."""
    try:
        return all("load_kind" in row for row in tables.read_rows((path,), ("load_kind",)))
    except RequestError:  # a table of something else
        return False


def _model_figures(rows: list[dict[str, str]]) -> tuple[list[ComparedFigure], Counter[str]]:
    points, skipped = predictions.predict_rows(rows, engine.folders())
    figures = [
        _figure(point, point.row.model, f"batch {point.row.scenario.batch}, {point.row.scenario.precision}")
        for point in points
    ]
    return figures, skipped


def _served_figures(rows: list[dict[str, str]]) -> tuple[list[ComparedFigure], Counter[str]]:
    loads, skipped = services.predict_served(rows, engine.folders())
    figures = []
    for load in loads:
        clients = load.row.load.concurrency
        asked = count_noun(clients, "client") if clients else count_noun(load.row.load.requests, "request")
        setup = load.row.deployment
        points = (msgspec.structs.replace(point, device=setup.device.id) for point in load.points)
        figures += [_figure(point, setup.model, asked) for point in points]
    return figures, skipped


def _figure(point: predictions.PredictionPoint, name: str, asked: str) -> ComparedFigure:
    return record(
        ComparedFigure, point, name=name, asked=asked, figure=point.quantity,
        unit=UNITS[point.quantity.partition(",")[0]], is_inside=point.band[0] <= point.measured <= point.band[1],
    )  # fmt: skip


def _summary(document: MeasuredComparison | Evidence, state: State) -> Iterator[str]:
    """Yield how far off the predictions are, in words."""
    if isinstance(document, Evidence):
        return
    figures = document.figures
    worst = max(figures, key=lambda each: abs(np.log(each.predicted / each.measured)))
    if len(figures) > 1:
        error = float(np.median([abs(each.error) for each in figures]))
        inside = sum(each.is_inside for each in figures)
        yield (
            f"{len(figures):,} figures of {count_noun(document.rows, 'row')}: predictions are {percent(error)} off in "
            f"the median, {inside:,} of {len(figures):,} are inside their band"
        )
    yield f"{'farthest off: ' if len(figures) > 1 else ''}{worst}"
    yield from (f"{count_noun(rows, 'row')} not predicted: {reason}" for reason, rows in document.skipped.items())


FIGURES = columns(
    ComparedFigure,
    "name asked device runtime figure measured predicted ratio band is_inside",
    Column("measured", "Measured", role="quantity", of=lambda row: plain.Amount(row.measured, row.unit)),
    Column("predicted", "Predicted", role="quantity", of=lambda row: plain.Amount(row.predicted, row.unit)),
    Column(
        "ratio", "Ratio", "x", role="quantity", help="predicted over measured", of=lambda r: r.predicted / r.measured
    ),
    Column(
        "band", "Band", role="text", keep=1, ends=("low", "high"), of=lambda row: band_words(row.band, row.predicted)
    ),
)
CLASSES = columns(
    trust.ClassEvidence,
    "name quantity rows devices median_error error_90 bias band in_band",
    Column("band", "Band", role="text", keep=0, ends=("low", "high"), of=lambda row: band_words(row.band, 1.0)),
    rows=1,
)


VERB = declare.Report(
    subject=declare.CATALOGUE,
    options=(
        option(
            "files", nargs="*", type=Path, metavar="FILE",
            help=f"CSV of your measurements, or a result of {tables.tool_names()}",
        ),
        option("--on", dest="base", metavar="DEV", help="the device of results that state none"),
    ),
    document=_document,
    title=lambda document, state: (
        "Estimates against measurements, by class of work"
        if isinstance(document, Evidence)
        else "Predicted against measured"
    ),
    parts=(
        declare.summary_text(_summary),
        declare.Rows("figures", "Measured beside predicted", FIGURES, key=("name", "figure"), optional=True,
                     of=lambda document: getattr(document, "figures", ())),
        declare.Rows(
            "classes", "", CLASSES, key="name", optional=True,
            of=lambda document: getattr(document, "classes", ()),
            footer=(
                "All rows are of the fifth of measurements that no constant, rule or table follows from",
                "Band: where a measured figure is expected, relative to the estimate",
                "In band: held rows inside the band, which follows from the other rows (aim: 80 to 90 %); a band "
                "without it is that of few devices or rows",
                "`hwexplorer validate FILE` compares your own measurements",
            ),
        ),
    ),
    on_screen=False,
    shown=("", "measured.csv", "vllm.json --on h100_sxm"),
)  # fmt: skip
