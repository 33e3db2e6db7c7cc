"""Fit of the times that hosts of servers spend to published runs, and its cross-validation: fits without a device, a
family of models or an engine show how well these times transfer.

Times are factors on the shipped times of each scheduler and each runtime. The error is the logarithm of predicted over
measured time to first token and time per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from analysis.model.ir.workload import Bools, Floats
from analysis.validation.efficiency_fit import FittedRate, LinearFit, Progress, least_absolute_step
from analysis.validation.measured_rows import family_of
from analysis.validation.serving_rows import Deployment, ServedRow, make_server
from hardware.engines.runtime import runtimes
from hardware.engines.scheduler import schedulers
from hardware.grouping import group_by
from hardware.quantity import SourcedValue

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

Key = tuple[str, str]  # a scheduler or runtime, and the name of its time
Factors = dict[Key, float]
Figures = list[dict[str, float]]


class HostFit:
    """Rows of services, those of a deployment together, and `factors` on the shipped times of their hosts, fitted."""

    def __init__(self, rows: Iterable[ServedRow], progress: Progress) -> None:
        self.deployments = list(group_by(rows, lambda row: row.deployment.key).values())
        self.rows = [row for rows in self.deployments for row in rows]
        self.setups = [row.deployment for row in self.rows for name in FITTED if name in row.measured]
        keys = sorted({key for setup in self.setups for key in host_times(setup) if shipped_time(key).value})
        self.fit = self._linearise(keys, progress)
        self.factors = self._solve(np.zeros(len(self.setups), dtype=np.bool_))

    def predict(self, find_factors: Callable[[Deployment], Factors]) -> Figures:
        """Return the figures of each row with the times of its host."""
        figures: Figures = []
        for rows in self.deployments:
            factors = find_factors(rows[0].deployment)
            serve = make_server(rows, {key[1]: factors.get(key, 1.0) for key in host_times(rows[0].deployment)})
            figures += [row.predict(serve(row)) for row in rows]
        return figures

    def leave_out(self, axis: str) -> Figures:
        """Return the figures of each row by a fit to the rows with another label on the axis. An engine takes the
        geometric means of other engines."""
        labels = np.array([AXES[axis](setup) for setup in self.setups])
        fits = {
            label: self._transfer(label) if axis == ENGINE else self._solve(labels == label)
            for label in dict.fromkeys(labels.tolist())
        }
        return self.predict(lambda setup: fits.get(AXES[axis](setup), self.factors))

    def _linearise(self, keys: Sequence[Key], progress: Progress) -> LinearFit:
        """Return the errors with the shipped times and their derivatives. Engines are independent, so each time is
        changed on all of them at once."""
        errors, slopes = self._errors({}), {}
        for name in (*SCHEDULED, *STEPPED):
            progress(f"fitting {name} of hosts")
            slopes[name] = (self._errors({key: float(np.exp(STEP)) for key in keys if key[1] == name}) - errors) / STEP
        slope = np.array([slopes[key[1]] * [key in host_times(setup) for setup in self.setups] for key in keys]).T
        times = [shipped_time(key) for key in keys]
        rates = [
            FittedRate(*key, (), max(time.low / time.value, 0.1), time.high / time.value)
            for key, time in zip(keys, times, strict=True)
        ]
        return LinearFit(tuple(rates), np.ones(len(errors)), np.ones(len(keys)), errors, slope, PULL)

    def _errors(self, factors: Factors) -> Floats:
        pairs = zip(self.rows, self.predict(lambda setup: factors), strict=True)
        return np.array([np.log(sides[n] / row.measured[n]) for row, sides in pairs for n in FITTED if n in sides])

    def _solve(self, left_out: Bools) -> Factors:
        values = np.exp(least_absolute_step(self.fit, ~left_out)).tolist()
        return {(rate.table, rate.name): value for rate, value in zip(self.fit.rates, values, strict=True)}

    def _transfer(self, engine: str) -> Factors:
        seconds = {key: factor * shipped_time(key).value for key, factor in self.factors.items()}
        transferred = dict(self.factors)
        for owner, name in (key for key in seconds if key[0].startswith(engine)):
            others = [time for key, time in seconds.items() if key[1] == name and not key[0].startswith(engine)]
            transferred[owner, name] = float(np.exp(np.mean(np.log(others)))) / shipped_time((owner, name)).value
        return transferred


def host_times(setup: Deployment) -> list[Key]:
    """Return the times of a host: those of its scheduler, then those of its runtime."""
    return [*((setup.scheduler, name) for name in SCHEDULED), *((setup.runtime, name) for name in STEPPED)]


def shipped_time(key: Key) -> SourcedValue:
    """Return the shipped time."""
    owner, name = key
    value: SourcedValue = getattr(schedulers()[owner] if name in SCHEDULED else runtimes()[owner], name)
    return value
