"""Fits of factors on shipped numbers, by their derivatives: least absolute logarithms of predicted over measured."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from analysis.model.ir.workload import Bools, Floats
from hwexplorer_annexes.calibration.rate_fit import FittedRate, LinearFit, Progress, least_absolute_step

Key = tuple[str, str]  # the owner of a number (a library, a runtime), and the number's name
Factors = dict[Key, float]


class FactorFit:
    """Errors of rows with the shipped numbers, and their derivatives by the logarithms of factors on these.
    `owned` are the numbers of each row. Each row has one owner of a name, so that all owners change at once."""

    def __init__(
        self,
        owned: Sequence[Collection[Key]],
        errors: Callable[[Factors], Floats],
        step: float,
        progress: Progress,
    ) -> None:
        self.keys = sorted({key for keys in owned for key in keys})
        self.errors, slopes = errors({}), dict[str, Floats]()
        for name in dict.fromkeys(name for _, name in self.keys):
            progress(f"fitting {name}")
            factors = {key: float(np.exp(step)) for key in self.keys if key[1] == name}
            slopes[name] = (errors(factors) - self.errors) / step
        self.slopes = np.array([slopes[key[1]] * [key in keys for keys in owned] for key in self.keys]).T

    def solve(self, rows: Bools, rates: Sequence[FittedRate], pull: float, is_known: Bools | float = 1.0) -> Factors:
        """Return the factors that are fitted to some rows. A number that is not known depends on no row."""
        ones = np.ones(len(self.keys))
        fit = LinearFit(tuple(rates), np.ones(len(self.errors)), ones, self.errors, self.slopes * is_known, pull)
        return dict(zip(self.keys, np.exp(least_absolute_step(fit, rows)).tolist(), strict=True))
