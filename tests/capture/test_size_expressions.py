"""Sizes as expressions, and which reshapes are views, as torch says."""

import pytest
import torch

from analysis.model.ir.poly import SizeError, dim, expression, is_viewable
from tests.waiting import never_endless


def test_shape_expressions() -> None:
    symbols = {"s77": dim("batch")}
    batch = dim("batch")
    for text, size in {
        "s77": batch,
        "2*s77 + 3": batch * 2 + 3,
        "(8*s77)//4": batch * 2,
        "s77**2": batch * batch,
    }.items():
        assert expression(text, symbols) == size, text
    for text in ("", "s1", "1.5", "True + x", "s77 / 2", "(s77 + 1)//2", "[1]", "f(1)", "Max(s77, 1)", "'a'", "10**99"):
        with pytest.raises((SizeError, ValueError)):
            expression(text, symbols)


@pytest.mark.parametrize("base", ["2", "(s77 + 1)"])
def test_a_tower_of_powers_is_refused_at_once(base: str) -> None:
    for _ in range(12):
        base = f"({base})**8"
    with never_endless(), pytest.raises(SizeError, match="too large"):
        expression(base, {"s77": dim("batch")})


def test_which_reshapes_are_views() -> None:
    for shape, order, new in [
        ((4, 6), (0, 1), (24,)),
        ((4, 6), (1, 0), (24,)),
        ((2, 3, 4), (0, 2, 1), (2, 12)),
        ((2, 3, 4), (1, 0, 2), (3, 2, 2, 2)),
        ((2, 3, 4), (2, 0, 1), (4, 6)),
        ((2, 3, 4), (0, 1, 2), (6, 1, 4)),
        ((1, 3, 1, 4), (0, 2, 1, 3), (12,)),
        ((2, 6), (1, 0), (3, 2, 2)),
        ((2, 6), (1, 0), (2, 6)),
    ]:
        tensor = torch.zeros(shape).permute(order)
        seen = tensor.reshape(new).untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
        assert is_viewable((tuple(tensor.shape), tensor.stride()), new) == seen, (shape, order, new)
