"""Operators of engines on devices that are left out: the numbers of kernels are fitted to those of other devices.

Factors on the rates of software, on facts of links and on numbers of libraries are fitted to the logarithms of
predicted over measured. A library that no other device shows has the geometric means of the numbers of others; so has
a fact that no other device of its generation shows.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np

from analysis.measured.predictions import PredictionPoint
from analysis.measured.tables import read_rows
from analysis.model.ir.workload import Bools, Floats
from hardware.base.records import group_by
from hardware.engines.runtime import attention_libraries, expert_libraries
from hardware.setup import Setup
from hwexplorer_annexes.calibration.rate_fit import TARGET, FittedRate, Progress
from lab import load_superseded_runtimes
from lab.factor_fit import FactorFit, Factors, Key
from lab.timed_kernels import TimedGroup, predict_group, read_groups
from lab.trust_bands import make_residual, narrowest_band, spread_between_devices

# Fields of libraries, of facts of devices, and of the tables `compute` and `bandwidth` of software.
LIBRARY = ("rate", "start_cycles", "step_cycles", "feed")
FACTS = ("link_latency_s", "library_start_s", "library_message_s", "matrix_sustained")
RATES = ("compute", "bandwidth")
STEP = 0.1  # of the logarithm of a number, for derivatives
FARTHEST = 3.0  # most by which a number changes
LEAST = 20  # rows that a number is fitted to at least
LEFT_OUT = ", without its "  # in names of families, before an axis
PULL = 1e-4  # of the weight of all rows, to the start
AXES: dict[str, Callable[[Setup], str]] = {
    "device": lambda setup: setup.device.id,
    "generation": lambda setup: setup.device.kernel_generation,
}


class OperatorFit:
    """Groups of operators, and the errors of the shipped numbers with their derivatives."""

    def __init__(self, groups: Sequence[TimedGroup], progress: Progress) -> None:
        self.groups = groups
        self.numbers = [_numbers(setup) for setup, _ in groups]
        self.sizes = [len(rows) for _, rows in groups]
        owned = [numbers for numbers, size in zip(self.numbers, self.sizes, strict=True) for _ in range(size)]
        self.fit = FactorFit(owned, self._errors, STEP, progress)

    def leave_out(self, axis: str) -> Iterator[PredictionPoint]:
        """Yield the operators, predicted by fits without those that share their device or generation."""
        labels = [AXES[axis](setup) for setup, _ in self.groups]
        for label in dict.fromkeys(labels):
            factors = self._solve(np.repeat([own_label != label for own_label in labels], self.sizes))
            for (setup, rows), numbers, own_label in zip(self.groups, self.numbers, labels, strict=True):
                if own_label == label:
                    for point in predict_group(_scale(setup, numbers, factors), rows, is_new=axis == "generation"):
                        yield msgspec.structs.replace(point, family=f"{point.family}{LEFT_OUT}{axis}")

    def _errors(self, factors: Factors) -> Floats:
        pairs = zip(self.groups, self.numbers, strict=True)
        groups = (predict_group(_scale(setup, numbers, factors), rows) for (setup, rows), numbers in pairs)
        return np.array([np.log(point.predicted / point.measured) for points in groups for point in points])

    def _solve(self, rows: Bools) -> Factors:
        keys = self.fit.keys
        is_known = (self.fit.slopes[rows] != 0.0).sum(axis=0) >= LEAST
        shipped = {key: np.log(value) for numbers in self.numbers for key, value in numbers.items()}
        starts = np.zeros(len(keys))
        for place, (owner, name) in enumerate(keys):
            kind = owner.partition(" ")[0]
            others = zip(keys, is_known, strict=True)
            alike = [key for key, is_fit in others if is_fit and key[1] == name and key[0].startswith(kind)]
            if not is_known[place] and alike:
                starts[place] = np.mean([shipped[key] for key in alike]) - shipped[owner, name]
        ends = (np.exp(np.minimum(starts, 0.0)) / FARTHEST, np.exp(np.maximum(starts, 0.0)) * FARTHEST, np.exp(starts))
        rates = [FittedRate(*key, (), *limits) for key, *limits in zip(keys, *ends, strict=True)]
        return self.fit.solve(rows, rates, PULL, is_known)


def predict_left_out(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...], progress: Progress
) -> list[PredictionPoint]:
    """Return the operators of a table, predicted by fits without their device and without its generation."""
    fit = OperatorFit(read_groups(rows, folders)[0], progress)
    return [point for axis in AXES for point in fit.leave_out(axis)]


def _numbers(setup: Setup) -> dict[Key, float]:
    """Return the numbers by which operators of a setup are predicted."""
    device, (use,) = setup.device, setup.runtime.uses
    is_experts = "moe" in use.operator
    library = (expert_libraries() if is_experts else attention_libraries())[use.library]
    owner, generation = f"{'experts' if is_experts else 'attention'} {use.library}", f"on {device.kernel_generation}"
    numbers = {(owner, name): value for name in LIBRARY if (value := getattr(library, name, 0.0))}
    numbers |= {(generation, name): device.facts[name].value for name in FACTS if name in device.facts}
    return numbers | {("software", name): 1.0 for name in RATES}


def _scale(setup: Setup, numbers: Collection[Key], factors: Factors) -> Setup:
    """Return a setup with its numbers multiplied."""
    times = {key[1]: factors[key] for key in numbers if key in factors}
    device, (use,) = setup.device, setup.runtime.uses
    facts = {
        name: msgspec.structs.replace(device.facts[name], value=device.facts[name].value * times[name])
        for name in FACTS
        if name in times
    }
    tables = {
        name: {op: (ends[0] * times[name], *ends[1:]) for op, ends in getattr(device.software, name).items()}
        for name in RATES
        if name in times
    }
    file = msgspec.structs.replace(device.file, rates=msgspec.structs.replace(device.software, **tables))
    device = msgspec.structs.replace(device, facts=device.facts | facts, file=file)
    use = msgspec.structs.replace(use, factors=tuple((name, times[name]) for name in LIBRARY if name in times))
    runtime = msgspec.structs.replace(setup.runtime, uses=(use,))
    return Setup(device, setup.plan, runtime, setup.layout)


def main() -> None:
    """Print the factors of [bands] in operators.toml for devices of unknown generations, from the table that the first
    argument names."""
    load_superseded_runtimes()
    groups, _ = read_groups(read_rows([Path(sys.argv[1])]))
    fit = OperatorFit(groups, partial(print, file=sys.stderr))
    generations = {setup.device.key: setup.device.kernel_generation for setup, _ in groups}
    rows = [
        make_residual(msgspec.structs.replace(point, device=generations[point.device]))
        for point in fit.leave_out("generation")
    ]
    classes = group_by(rows, lambda row: row.point.family)
    reach = NormalDist().inv_cdf((1.0 + TARGET) / 2.0) * spread_between_devices(classes.values())
    wider = np.sqrt(1.0 + 1.0 / len(set(generations.values())))
    for family, members in sorted(classes.items()):
        low, high = np.exp(
            np.array([-1.0, 1.0]) * wider * np.hypot(np.log(narrowest_band(members, ("device",))[0]), reach)
        )
        print(f'"{family.partition(LEFT_OUT)[0]}" = {low:.2f}, {high:.2f}')


if __name__ == "__main__":
    main()
