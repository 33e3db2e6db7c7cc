"""The outcome of a load on devices that share it, and what its answer says about requests."""

from collections.abc import Sequence
from typing import ClassVar

from analysis.estimate.estimate import Estimate
from analysis.explore.measurement_tools import describe_measurement
from analysis.explore.outcome import Outcome, RuledFigure
from analysis.serving.deployment import DoesNotFitError
from analysis.serving.served_load import Served, ServedLoad, load_evidence
from analysis.serving.serving_report import first_words, order_by_aim
from analysis.serving.waits import list_waits, timeline
from analysis.text.headline import is_backed
from hardware.base.text import count_noun, percent, quantity

MOMENTS = 60  # points of a timeline
_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def load_answer(served: Served) -> tuple[str, ...]:
    """Say whether a load is kept up with, and when its requests get their tokens."""
    row = served.row
    simulated = f" (of {served.load.requests:,} simulated requests)" * (row.lag_per_s > 0)
    return (
        f"{row.state}; a request takes {quantity(row.request_p50_s, 's')}",
        f"first token after {quantity(row.ttft_p50_s, 's')}, of the slowest 1 % after {quantity(row.ttft_p99_s, 's')}"
        + simulated,
        f"then a token each {quantity(row.tpot_p50_s, 's')}, of the slowest 1 % each {quantity(row.tpot_p99_s, 's')}",
    )


def load_sections(served: Served) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the waits of the slowest requests, and the timeline of requests in the server, with their headings."""
    waits = sorted(list_waits(served.row.key, served.run), key=lambda wait: -wait.slowest_s)
    lines = tuple(
        f"{wait.slowest_fraction * 100:3.0f} % {wait.part}: {quantity(wait.slowest_s, 's')}, at the median "
        f"{quantity(wait.typical_s, 's')}"
        for wait in waits
    )
    heading = f"Requests in the server over {quantity(served.run.end_of_run_s, 's')}"
    return ("What the slowest 1 % of requests wait for", lines), (heading, _timeline(served))


def _timeline(served: Served) -> tuple[str, ...]:
    """Return the number of requests in the server over time, each line scaled to its maximum."""
    lines = []
    for name, values in zip(("waiting", "prompts", "decoding"), timeline(served.run, MOMENTS), strict=True):
        highest = float(values.max())
        places = (values / (highest or 1.0) * (len(_BLOCKS) - 1)).round().astype(int)
        lines.append(f"{name:<9}{''.join(_BLOCKS[place] for place in places.tolist())} up to {highest:.3g}")
    return tuple(lines)


class ServedOutcome(Outcome, frozen=True):
    """The outcome of a load. `estimate` is an average step of it, or one request if the model does not fit; `served` is
    then the error that says so."""

    served: Served | DoesNotFitError
    is_simulated: ClassVar[bool] = True
    work: ClassVar[str] = "output token"

    @property
    def row(self) -> ServedLoad | None:
        """The figures of the load; None if the model does not fit."""
        return self.served.row if isinstance(self.served, Served) else None

    @property
    def devices(self) -> int:
        return super().devices if self.row is None else self.row.devices

    @property
    def fits(self) -> bool:
        return self.row is not None and self.estimate.fits

    @property
    def competes(self) -> bool:
        return super().competes and not self.figure("lag_per_s")

    @property
    def sources(self) -> tuple[object, ...]:
        return self.row, *super().sources

    @property
    def per_unit(self) -> Estimate:
        if isinstance(self.served, DoesNotFitError):
            raise self.served
        return self.served.output_token

    @property
    def answer(self) -> tuple[str, ...]:
        return load_answer(self.served) if isinstance(self.served, Served) else ()

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return load_sections(self.served) if isinstance(self.served, Served) else ()

    @property
    def notes(self) -> tuple[str, ...]:
        many = count_noun(self.estimate.scenario.batch, "request")
        return (f"the tree is of {many} at once; the devices above are under the load",)

    def aim(self, metric: str) -> float:
        return super().aim(metric) if self.row is None else self.row.figure(metric)

    def describe_lack(self) -> str:
        return super().describe_lack() if isinstance(self.served, Served) else str(self.served)

    def measurement(self, figure: str) -> str:
        spec = self.served.asked.spec if isinstance(self.served, Served) else None
        return describe_measurement(self.estimate, figure, spec)

    def ruled_figure(self, name: str) -> RuledFigure:
        if isinstance(self.served, DoesNotFitError):
            raise self.served
        row = self.served.row
        if (figure := row.ruled_figure(name)) is None:
            return super().ruled_figure(name)
        value, band, backing = figure
        runs = load_evidence()[backing]
        evidence = f"services: {runs.rows:,} published runs, typically {percent(runs.median_error)} off"
        return RuledFigure(value, f"{name} of {row.load} on {row.key}", evidence, band)

    def verdict(self, headline: str) -> str:
        return "does not fit" if self.row is None else self.row.state

    def describe_model(self, model: str) -> str:
        many = count_noun(self.estimate.scenario.batch, "request")
        return model if self.row is None else f"{model}, {many} at once (mean of the load)"

    @staticmethod
    def best(
        outcomes: Sequence[Outcome], metric: str, on_paper: bool = False, unchanged: Sequence[Estimate] = ()
    ) -> tuple[str, ...]:
        found = [one.served for one in outcomes if isinstance(one, ServedOutcome)]
        served = [one for one in found if isinstance(one, Served)]
        if len(served) < 2:
            return ()
        ordered = order_by_aim(served, metric)
        unsure = next((one for one in ordered[:2] if not is_backed(one.server.first.trust)), ordered[1])
        run = next(outcome for outcome in outcomes if getattr(outcome, "served", None) is unsure).measurement(metric)
        first = first_words(ordered, metric)
        return f"{first}.", f"To {'settle' if first.startswith('Too') else 'confirm'} it: {run}."
