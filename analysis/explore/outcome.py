"""The outcome of a model on a device: figures, parts and limits, with one protocol for estimates and served loads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import METRICS, serving
from analysis.explore.measurement_tools import describe_measurement
from analysis.explore.odds import LEAST
from analysis.text.headline import describe_evidence, work_word
from hardware.base.errors import RequestError
from hardware.base.text import quantity

if TYPE_CHECKING:
    from analysis.explore.constraint import Constraint


class RuledFigure(msgspec.Struct, frozen=True):
    """A figure that a rule constrains, its name and evidence in words, and the interval in which a measurement is
    expected, None if its error is unknown."""

    value: float
    words: str
    evidence: str
    band: tuple[float, float] | None = None


def figure_band(one: Estimate, name: str) -> tuple[float, float] | None:
    """Return the band of a metric of an estimate, None if its error is unknown."""
    metric = METRICS[name]
    value, bands = metric.figure(one), {"latency": one.latency_band_s, "energy": one.energy_band_j}
    if not metric.band or not min(one.latency_s, one.energy_j) > 0.0:
        return None
    whole = {"latency": one.latency_s, "energy": one.energy_j}
    low, high = (math.prod(bands[name][end] / whole[name] for name in metric.band.split()) for end in (0, 1))
    return (value / high, value / max(low, LEAST)) if metric.more_is_better else (value * low, value * high)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one batch: an estimate. `key` spells the device. ServedOutcome (analysis/serving) is that of a
    load, whose `estimate` is an average step."""

    key: str
    estimate: Estimate
    # True if requests were simulated; such figures have no parts by cause, and no ratios to other settings.
    is_simulated: ClassVar[bool] = False

    @property
    def work(self) -> str:
        """The unit that figures are counted per: inference, prompt, token, request, output token."""
        return work_word(self.estimate)

    @property
    def devices(self) -> int:
        """The number of devices that share the model."""
        return self.estimate.workload.devices

    @property
    def fits(self) -> bool:
        """True if the model and its caches fit into the memory."""
        return self.estimate.fits

    @property
    def competes(self) -> bool:
        """True if the device may be the best of the devices that exist."""
        return self.fits and self.estimate.can_win and self.estimate.device.silicon

    @property
    def sources(self) -> tuple[object, ...]:
        """The records that have figures, the first to be asked first."""
        return serving(self.estimate), self.estimate

    @property
    def per_unit(self) -> Estimate:
        """The estimate that money and carbon are counted from. Raises RequestError if the model does not fit."""
        return self.estimate

    @property
    def answer(self) -> tuple[str, ...]:
        """The lines that state the outcome, if the reasons for the parts do not."""
        return ()

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The sections that a reader of the whole should know beside the parts: headings with lines."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines that a reader of the parts must know."""
        return ()

    def aim(self, metric: str) -> float:
        """Return the figure that devices are compared by: latency, energy or EDP."""
        return METRICS[metric].figure(self.estimate)

    def figure(self, key: str, missing: float = 0.0) -> float:
        """Return a figure in SI units by its key in a record; `missing` if no record has it, or none is known."""
        value = next((getattr(source, key) for source in self.sources if hasattr(source, key)), None)
        return missing if value is None else float(value)

    def broken_limits(self, limits: Sequence[Constraint]) -> tuple[str, ...]:
        """Return in words the limits that it does not satisfy. A figure that it does not have satisfies none."""
        if not self.fits:
            return ("does not fit",)
        figures = [self.figure(METRICS[limit.figure].key, math.nan) for limit in limits]
        return tuple(str(limit) for limit, value in zip(limits, figures, strict=True) if not limit.holds(value))

    def describe_lack(self) -> str:
        """Say in words that the model does not fit, and by how much."""
        needs, room = quantity(self.estimate.peak_memory_bytes, "byte"), self.estimate.device.memory_bytes
        return f"{self.estimate.workload.name} does not fit on {self.key}: needs {needs}, has {quantity(room, 'byte')}"

    def measurement(self, figure: str) -> str:
        """Return the command that measures a metric, and what reads the result."""
        return describe_measurement(self.estimate, figure)

    def ruled_figure(self, name: str) -> RuledFigure:
        """Return the figure that a rule names. Raises RequestError for a figure of a load."""
        result = self.estimate
        if not METRICS[name].is_figure_of(result):
            raise RequestError(f"{name} is a figure of a load, e.g. of llama3_8b:serve,in=1024,out=256,rate=5")
        words = f"{name} of {result.workload.name} on {result.device.key}"
        evidence = describe_evidence(result.trust) if METRICS[name].band else ""
        return RuledFigure(METRICS[name].figure(result), words, evidence, figure_band(result, name))

    def verdict(self, headline: str) -> str:
        """Return the verdict on this device in words; `headline` compares its estimate with others."""
        return headline

    def describe_model(self, model: str) -> str:
        """Return the name of the model with the requests that are estimated, if they are not those of the scenario."""
        return model

    @staticmethod
    def best(
        outcomes: Sequence[Outcome], metric: str, on_paper: bool = False, unchanged: Sequence[Estimate] = ()
    ) -> tuple[str, ...]:
        """Return which device is best, how sure that is, and what would settle it; nothing if fewer than two compare.
        `unchanged` are estimates of devices before their changes."""
        from analysis.explore.odds import verdict  # not needed to start the screen

        lines = verdict([outcome.estimate for outcome in outcomes], metric, on_paper, unchanged)
        return lines.lines if lines is not None else ()
