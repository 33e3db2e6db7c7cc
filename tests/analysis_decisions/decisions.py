"""What the tests of the decisions share: workloads, devices, and the command line."""

from functools import cache

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from hardware import known_architectures
from tests.analysis.grid import MODELS as MODELS
from tests.analysis.grid import device as device
from tests.command import hwexplorer as hwexplorer
from tests.models import load_once as workload

DEFAULTS = tuple(known_architectures.classes()[name] for name in ("cpu", "gpu", "tpu", "kpu"))


@cache
def run(model: str, on: str, batch: int = 1, precision: str = "fp32", execution: str = "auto") -> Estimate:
    return estimate(workload(model), device(on), Scenario(batch, precision, execution))
