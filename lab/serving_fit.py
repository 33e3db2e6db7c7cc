"""Services under load against published runs: time to first token, time per token, joules per token and throughput.

The times that hosts of servers spend are fitted to these runs: factors on the shipped times of each scheduler and each
runtime. Fits without a device, a family of models or an engine show how well these times transfer."""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from analysis.document import column
from analysis.estimate.trust import ClassEvidence
from analysis.measured.predictions import PredictionPoint
from analysis.measured.services import (
    APART,
    NAME,
    TABLE,
    Deployment,
    PredictedLoad,
    ServedRow,
    make_server,
    predict_served,
)
from analysis.measured.tables import SHIPPED, family_of, read_rows
from analysis.model.ir.workload import Bools, Floats
from analysis.serving.served_load import EVIDENCE, find_knee, load_evidence
from hardware.base import file_access
from hardware.base.records import SourcedValue, group_by
from hardware.engines.runtime import Runtime, Scheduler, runtimes, schedulers
from hwexplorer_annexes.calibration.rate_fit import FittedRate, Progress
from lab import load_superseded_runtimes
from lab.errors import PredictionErrors, SkippedRows, measure_errors
from lab.factor_fit import FactorFit, Factors, Key
from lab.trust_bands import Residual, class_factors, encode_rows, make_residual

WITHIN_KNEE = 2.0  # one doubling of load
LEAST_CURVE, LEAST_CHOICE = 4, 3  # least loads of a curve with a knee, least systems of a choice
OLDER = "2024"
FIGURES = ("TTFT", "TPOT", "energy", "throughput")
LABELS = (*FIGURES, *(figure + APART for figure in FIGURES))
# Times of hosts: of a scheduler, then of a runtime.
SCHEDULED, STEPPED = ("request_s", "prompt_token_s", "intake_s", "chunk_s"), ("call_s", "sequence_s", "prompt_dispatch")
STEP = 0.2  # of the logarithm of a time, for derivatives: simulated steps are whole
PULL = 0.03  # of the weight of all figures, to the middles of ranges
FITTED = ("TTFT", "TPOT")
ENGINE = "runtime"
AXES: dict[str, Callable[[Deployment], str]] = {
    "device": lambda setup: setup.device.id,
    "family": lambda setup: family_of(setup.model),
    ENGINE: lambda setup: setup.scheduler,
}

Figures = list[dict[str, float]]
Timed = TypeVar("Timed", Scheduler, Runtime)


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


def validate_served(predicted: Sequence[PredictedLoad], skipped: Counter[str]) -> ServedGroups:
    """Return the errors of predictions by figure and group, and the quality of choices based on them."""
    groups: dict[tuple[str, int, str], list[PredictionPoint]] = defaultdict(list)
    for point in (point for load in predicted for point in load.points):
        for kind, group in enumerate(("all", point.runtime, point.device, point.name)):
            groups[point.quantity, kind, group].append(point)
    curves = _group_closed(
        predicted,
        LEAST_CURVE,
        lambda row: (row.source, row.deployment.key, row.lengths),
        lambda row: row.load.concurrency,
    )
    choices = _group_closed(
        predicted,
        LEAST_CHOICE,
        lambda row: (row.source, row.deployment.model, row.lengths, row.load.concurrency),
        lambda row: row.deployment.key,
    )
    knees, regrets = [_finds_knee(curve) for curve in curves], [_regret(group) for group in choices]
    return ServedGroups(
        served=tuple(
            measure_errors(ServedErrors, groups[label, kind, group], figure=label, group=group)
            for label, kind, group in sorted(groups, key=lambda key: (LABELS.index(key[0]), *key[1:]))
        ),
        evidence=tuple(load_evidence().values()),
        curves=len(knees),
        knees_found=float(np.mean(knees)) if knees else 0.0,
        choices=len(regrets),
        best_chosen=float(np.mean([regret == 0.0 for regret in regrets])) if regrets else 0.0,
        median_regret=float(np.median(regrets)) if regrets else 0.0,
        worst_regret=max(regrets, default=0.0),
        skipped=SkippedRows.count(skipped),
    )


def _group_closed(
    predicted: Sequence[PredictedLoad],
    least: int,
    key: Callable[[ServedRow], Any],
    member: Callable[[ServedRow], Any],
) -> list[list[PredictedLoad]]:
    """Return groups of `least` or more closed loads that share a `key`, one for each `member`."""
    groups: dict[object, dict[object, PredictedLoad]] = defaultdict(dict)
    for load in predicted:
        if load.row.load.concurrency and {"TTFT", "TPOT"} <= load.row.measured.keys():
            groups[key(load.row)][member(load.row)] = load
    return [list(group.values()) for group in groups.values() if len(group) >= least]


def is_fitted(load: PredictedLoad) -> bool:
    """Return True if the times of hosts are fitted to a row: software since 2025 that prefills and decodes in one
    engine."""
    return not load.row.deployment.layout.prefill and OLDER not in load.row.deployment.scheduler


def output_per_s(load: PredictedLoad) -> tuple[float, float]:
    """Return output tokens per second of a closed load, measured and predicted, from the times of requests."""
    row, outputs = load.row, float(load.row.load.output.mean()) - 1.0
    times_s = [figures.get("TTFT", 0.0) + outputs * figures["TPOT"] for figures in (row.measured, load.figures)]
    return row.load.concurrency * outputs / times_s[0], row.load.concurrency * outputs / times_s[1]


def _finds_knee(curve: Sequence[PredictedLoad]) -> bool:
    """Return True if the load at the knee is predicted within a factor of two."""
    ordered = sorted(curve, key=lambda each: each.row.load.concurrency)
    measured_and_predicted = zip(*(output_per_s(load) for load in ordered), strict=True)
    knees = [ordered[find_knee(rates)].row.load.concurrency for rates in measured_and_predicted]
    return bool(max(knees) <= WITHIN_KNEE * min(knees))


def _regret(group: Sequence[PredictedLoad]) -> float:
    """Return the fraction of output per device that is lost by choosing the system that is predicted best."""
    rates = [[rate / load.row.deployment.devices for rate in output_per_s(load)] for load in group]
    best = max(rates, key=lambda pair: pair[1])
    return 1.0 - best[0] / max(rate for rate, _ in rates)


class HostFit:
    """Rows of services, those of a deployment together, and `factors` on the shipped times of their hosts, fitted."""

    def __init__(self, rows: Iterable[ServedRow], progress: Progress) -> None:
        self.deployments = list(group_by(rows, lambda row: row.deployment.key).values())
        self.rows = [row for rows in self.deployments for row in rows]
        self.setups = [row.deployment for row in self.rows for name in FITTED if name in row.measured]
        owned = [{key: time for key, time in host_times(setup).items() if time.value} for setup in self.setups]
        self.times = {key: time for times in owned for key, time in times.items()}
        self.fit = FactorFit(owned, self._errors, STEP, progress)
        self.factors = self._solve(np.ones(len(self.setups), dtype=np.bool_))

    def predict(self, find_factors: Callable[[Deployment], Factors]) -> Figures:
        """Return the figures of each row with the times of its host."""
        figures: Figures = []
        for rows in self.deployments:
            setup, factors = rows[0].deployment, find_factors(rows[0].deployment)
            by_name = {key[1]: factors.get(key, 1.0) for key in host_times(setup)}
            file = setup.device.file
            own = {**file.runtimes, setup.runtime: _scale(runtimes()[setup.runtime], by_name)}
            device = replace(setup.device, file=replace(file, runtimes=own))
            scaled = [
                replace(row, deployment=replace(setup, device=device), scheduler=_scale(row.scheduler, by_name))
                for row in rows
            ]
            serve = make_server(scaled)
            figures += [row.predict(serve(row)) for row in scaled]
        return figures

    def leave_out(self, axis: str) -> Figures:
        """Return the figures of each row by a fit to the rows with another label on the axis. An engine takes the
        geometric means of other engines."""
        labels = np.array([AXES[axis](setup) for setup in self.setups])
        fits = {
            label: self._transfer(label) if axis == ENGINE else self._solve(labels != label)
            for label in dict.fromkeys(labels.tolist())
        }
        return self.predict(lambda setup: fits.get(AXES[axis](setup), self.factors))

    def _errors(self, factors: Factors) -> Floats:
        pairs = zip(self.rows, self.predict(lambda setup: factors), strict=True)
        return np.array([np.log(sides[n] / row.measured[n]) for row, sides in pairs for n in FITTED if n in sides])

    def _solve(self, rows: Bools) -> Factors:
        times = [(key, self.times[key]) for key in self.fit.keys]
        rates = [FittedRate(*key, (), max(t.low / t.value, 0.1), t.high / t.value) for key, t in times]
        return self.fit.solve(rows, rates, PULL)

    def _transfer(self, engine: str) -> Factors:
        seconds = {key: factor * self.times[key].value for key, factor in self.factors.items()}
        transferred = dict(self.factors)
        for owner, name in (key for key in seconds if key[0].startswith(engine)):
            others = [time for key, time in seconds.items() if key[1] == name and not key[0].startswith(engine)]
            transferred[owner, name] = float(np.exp(np.mean(np.log(others)))) / self.times[owner, name].value
        return transferred


def _scale(record: Timed, factors: dict[str, float]) -> Timed:
    """Return a scheduler or runtime with its times multiplied."""
    times = {name: (getattr(record, name), factor) for name, factor in factors.items() if hasattr(record, name)}
    return replace(record, **{name: replace(time, value=time.value * by) for name, (time, by) in times.items()})


def host_times(setup: Deployment) -> dict[Key, SourcedValue]:
    """Return the shipped times of a host: those of its scheduler, then those of its runtime."""
    scheduled = {(setup.scheduler, name): getattr(schedulers()[setup.scheduler], name) for name in SCHEDULED}
    return scheduled | {(setup.runtime, name): getattr(runtimes()[setup.runtime], name) for name in STEPPED}


def served_evidence(predicted: Sequence[PredictedLoad], progress: Progress = lambda _: None) -> list[ClassEvidence]:
    """Return the errors of each figure, and the narrowest band that contains enough of the devices and models left out
    of a fit of the times of hosts. Only software since 2025 counts, which one would deploy; throughput counts all,
    because few rows state it."""
    residuals: dict[str, list[Residual]] = {label: [] for label in LABELS}
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    loads = [load for load in predicted if is_fitted(load)]
    fit = HostFit([load.row for load in loads], progress)
    for key, factor in fit.factors.items():
        shipped_s = fit.times[key].value
        progress(f"{' '.join(key)}: {shipped_s:.3g} -> {factor * shipped_s:.3g}")
    left_out = {axis: dict(zip(map(id, fit.rows), fit.leave_out(axis), strict=True)) for axis in AXES}
    for load in loads:
        for point in load.points:
            others = {axis: figures[id(load.row)][point.quantity] for axis, figures in left_out.items()}
            residuals[point.quantity].append(make_residual(point, (others["device"], others["family"])))
            for axis, figure in others.items():
                errors[point.quantity][axis].append(abs(figure / point.measured - 1.0))
    for point in (point for load in predicted if not is_fitted(load) for point in load.points):
        if point.quantity == "throughput" or OLDER not in point.runtime:
            residuals[point.quantity].append(make_residual(point))
    return [
        msgspec.structs.replace(
            class_factors(f"{NAME}, {label}", label, rows),
            left_out={axis: float(np.median(values)) for axis, values in errors[label].items()},
        )
        for label, rows in residuals.items()
        if rows
    ]


def main() -> None:
    """Write load_trust.json. Print the fitted times of hosts."""
    load_superseded_runtimes()
    progress: Progress = partial(print, file=sys.stderr)
    predicted, _ = predict_served(read_rows([SHIPPED / TABLE]))
    file_access.write(EVIDENCE, ["[\n", encode_rows(served_evidence(predicted, progress)), "\n]\n"])


if __name__ == "__main__":
    main()
