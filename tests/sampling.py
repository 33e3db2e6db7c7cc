"""What the quick suite leaves to `make test-slow`: whole tests marked `slow`, and the tail of long lists of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

slow = pytest.mark.slow


def first(values: Sequence[Any], count: int) -> list[Any]:
    """Return the values as cases of `parametrize`; those after the first `count` are marked slow."""
    return [value if place < count else _marked(value) for place, value in enumerate(values)]


def _marked(value: Any) -> Any:
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, marks=(*value.marks, slow), id=value.id)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=slow)
