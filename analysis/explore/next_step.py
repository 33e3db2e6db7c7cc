"""Requests worth following up, as data: each front end writes them in the form that its user would type."""

from analysis.estimate.estimate import Estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Workload
from analysis.model.names import zoo


class NextStep:
    """A report of a model on devices (their keys). It is not a struct, because its text depends on the front end.
    `image_size` is None for the model's own size."""

    __slots__ = ("devices", "image_size", "report", "scenario", "words")

    def __init__(
        self, report: str, model: Workload, devices: tuple[str, ...], scenario: Scenario, image_size: int | None = None
    ) -> None:
        self.report, self.words, self.devices = report, model.words, devices
        self.scenario, self.image_size = scenario, image_size


def request_of(result: Estimate) -> NextStep:
    """Return the request that shows the figures of an estimate."""
    workload = result.workload
    size, info = workload.image_size, zoo.table().get(workload.name)
    own = info is None or size == info.image_size
    return NextStep("compare", workload, (result.device.key,), result.scenario, None if own else size)
