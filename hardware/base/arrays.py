"""The type of arrays, as in numpy.typing, which takes a fortieth of the time until the first frame."""

from typing import Any, TypeVar

import numpy as np

Scalar = TypeVar("Scalar", bound=np.generic)
NDArray = np.ndarray[tuple[Any, ...], np.dtype[Scalar]]
