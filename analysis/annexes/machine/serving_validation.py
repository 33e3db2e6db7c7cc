"""Services under load against published runs: time to first token, time per token, joules per token and throughput."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.annexes.machine.measured_rows import SHIPPED, Unpredictable, family_of, read_rows
from analysis.annexes.machine.prediction_errors import PredictionErrors, measure_errors
from analysis.annexes.machine.row_validation import PredictionPoint, SkippedRows
from analysis.annexes.machine.serving_rows import TABLE, ServedRow, interpret_served_row, make_server
from analysis.annexes.machine.trust_bands import class_factors, encode_rows, make_residual
from analysis.document import column
from analysis.estimate.trust import ClassEvidence
from analysis.serving.served_load import EVIDENCE, load_evidence
from analysis.serving.serving_report import find_knee
from hardware import file_access

NAME = "served at load"
WITHIN_KNEE = 2.0  # one doubling of load
LEAST_CURVE = 4  # least loads of a curve to have a knee
APART, OLDER = ", prefill apart", "2024"
FIGURES = ("TTFT", "TPOT", "energy", "throughput")
LABELS = (*FIGURES, *(figure + APART for figure in FIGURES))


class ServedErrors(PredictionErrors, frozen=True, kw_only=True):
    """Errors of a figure over a group of rows: all rows, or those of an engine, a device or a model."""

    figure: Annotated[str, column("Figure")]
    group: Annotated[str, column("Rows of")]


class ServedGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of services under load. `knees_found` is the share of curves whose knee is predicted within one doubling
    of the load. Regrets are of choosing among three or more measured systems by prediction, as fractions."""

    served: tuple[ServedErrors, ...]
    evidence: tuple[ClassEvidence, ...]
    curves: int
    knees_found: float
    choices: int
    best_chosen: float
    median_regret: float
    worst_regret: float
    skipped: tuple[SkippedRows, ...]


class _Predicted(msgspec.Struct, frozen=True):
    row: ServedRow
    figures: dict[str, float]

    @property
    def output_per_s(self) -> tuple[float, float]:
        """Output tokens per second of a closed load, measured and predicted, from the times of requests."""
        outputs = float(self.row.load.output.mean()) - 1.0

        def rate(figures: dict[str, float]) -> float:
            """Return requests in flight over the time of a request, times its tokens."""
            time_s = figures.get("TTFT", 0.0) + outputs * figures["TPOT"]
            return self.row.load.concurrency * outputs / time_s

        return rate(self.row.measured), rate(self.figures)


def predict_served(
    table: Iterable[dict[str, str]], folders: tuple[Path, ...] = (), progress: Callable[[int], None] = lambda _: None
) -> tuple[list[_Predicted], Counter[str]]:
    """Simulate every row of a table of services. Return the predictions, and counts of skipped rows by reason."""
    deployments: dict[object, list[ServedRow]] = defaultdict(list)
    skipped: Counter[str] = Counter()
    for row in table:
        try:
            served = interpret_served_row(row, folders)
        except Unpredictable as reason:
            skipped[str(reason)] += 1
        else:
            deployments[served.deployment.key].append(served)
    predicted: list[_Predicted] = []
    for rows in deployments.values():
        try:
            serve = make_server(rows)
        except Unpredictable as reason:
            skipped[str(reason)] += len(rows)
            continue
        for each in rows:
            predicted.append(_Predicted(each, each.predict(serve(each))))
            progress(len(predicted) + sum(skipped.values()))
    return predicted, skipped


def validate_served(predicted: Sequence[_Predicted], skipped: Counter[str]) -> ServedGroups:
    """Return the errors of predictions by figure and group, and the quality of choices based on them."""
    groups: dict[tuple[str, int, str], list[_Predicted]] = defaultdict(list)
    for each in predicted:
        setup = each.row.deployment
        for figure in each.row.measured:
            for kind, group in enumerate(("all", setup.scheduler, setup.device.name, setup.model)):
                groups[_label(figure, each), kind, group].append(each)
    knees = [found for curve in _curves(predicted) if (found := _finds_knee(curve)) is not None]
    regrets = [_regret(group) for group in _choices(predicted)]
    return ServedGroups(
        served=tuple(
            _errors(label, group, groups[label, kind, group])
            for label, kind, group in sorted(groups, key=lambda key: (LABELS.index(key[0]), *key[1:]))
        ),
        evidence=tuple(load_evidence().values()),
        curves=len(knees),
        knees_found=float(np.mean(knees)) if knees else 0.0,
        choices=len(regrets),
        best_chosen=float(np.mean([regret == 0.0 for regret in regrets])) if regrets else 0.0,
        median_regret=float(np.median(regrets)) if regrets else 0.0,
        worst_regret=max(regrets, default=0.0),
        skipped=tuple(SkippedRows(reason, n) for reason, n in skipped.most_common()),
    )


def _label(figure: str, each: _Predicted) -> str:
    """Return the name of a figure. Services that prefill on separate devices have separate bands."""
    return figure + APART * (each.row.deployment.layout.prefill > 0)


def _errors(label: str, group: str, members: Sequence[_Predicted]) -> ServedErrors:
    figure = label.removesuffix(APART)
    low, high = load_evidence()[label].band
    pairs = [(each.row.measured[figure], each.figures[figure]) for each in members]
    rows = [(measured, predicted, (predicted * low, predicted * high)) for measured, predicted in pairs]
    return measure_errors(ServedErrors, rows, figure=label, group=group)


def _closed(predicted: Sequence[_Predicted]) -> list[_Predicted]:
    return [each for each in predicted if each.row.load.concurrency and {"TTFT", "TPOT"} <= each.row.measured.keys()]


def _curves(predicted: Sequence[_Predicted]) -> list[list[_Predicted]]:
    """Return groups of rows that differ only in the number of clients."""
    curves: dict[object, dict[int, _Predicted]] = defaultdict(dict)
    for each in _closed(predicted):
        curves[each.row.source, each.row.deployment.key, each.row.lengths][each.row.load.concurrency] = each
    return [list(curve.values()) for curve in curves.values() if len(curve) >= LEAST_CURVE]


def _finds_knee(curve: Sequence[_Predicted]) -> bool | None:
    """Return True if the load at the knee is predicted within a factor of two."""
    ordered = sorted(curve, key=lambda each: each.row.load.concurrency)
    measured_and_predicted = zip(*(each.output_per_s for each in ordered), strict=True)
    knees = [ordered[find_knee(rates)].row.load.concurrency for rates in measured_and_predicted]
    return bool(max(knees) <= WITHIN_KNEE * min(knees))


def _choices(predicted: Sequence[_Predicted]) -> list[list[_Predicted]]:
    """Return groups of rows, of three or more systems that serve the same model at the same load."""
    groups: dict[object, dict[object, _Predicted]] = defaultdict(dict)
    for each in _closed(predicted):
        load = each.row.load
        groups[each.row.source, each.row.deployment.model, each.row.lengths, load.concurrency][
            each.row.deployment.key
        ] = each
    return [list(group.values()) for group in groups.values() if len(group) >= 3]


def _regret(group: Sequence[_Predicted]) -> float:
    """Return the fraction of output per device that is lost by choosing the system that is predicted best."""
    rates = [[rate / each.row.deployment.devices for rate in each.output_per_s] for each in group]
    chosen = max(rates, key=lambda pair: pair[1])
    return 1.0 - chosen[0] / max(measured for measured, _ in rates)


def served_evidence(predicted: Sequence[_Predicted]) -> list[ClassEvidence]:
    """Return the errors of each figure, and the narrowest band that contains enough of the devices and models left out.
    Only software since 2025 counts, which one would deploy; throughput counts all, because few rows state it."""
    evidence = []
    for label in LABELS:
        figure = label.removesuffix(APART)
        residuals = [
            make_residual(
                PredictionPoint(
                    name=NAME,
                    quantity=label,
                    device=each.row.deployment.device.id,
                    family=family_of(each.row.deployment.model),
                    runtime=each.row.deployment.runtime,
                    mode="",
                    work_class=NAME,
                    measured=each.row.measured[figure],
                    predicted=each.figures[figure],
                    band=(0.0, 0.0),
                )
            )
            for each in predicted
            if figure in each.row.measured and _label(figure, each) == label
            if figure == "throughput" or OLDER not in each.row.deployment.scheduler
        ]
        if residuals:
            evidence.append(class_factors(f"{NAME}, {label}", label, residuals))
    return evidence


def main() -> None:
    """Write load_trust.json."""
    predicted, _ = predict_served(read_rows([SHIPPED / TABLE]))
    file_access.write(EVIDENCE, ["[\n", encode_rows(served_evidence(predicted)), "\n]\n"])


if __name__ == "__main__":
    main()
