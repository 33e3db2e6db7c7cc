"""Random layers: multiply-accumulates against torch's own counter, sizes against eager shapes."""

from typing import Any

import torch
from capture_toys import lowered
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from analysis.model.ir.poly import Poly, dim, poly, product, smaller

small = st.integers(1, 6)


def counted(module: nn.Module, x: Any) -> int:
    """torch's count in multiply-accumulates; it counts two flops each."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(x)
    return counter.get_total_flops() // 2


def compare(module: nn.Module, x: Any) -> None:
    w = lowered(module, x)
    at = w.value_at(batch=x.shape[0])
    assert int((w.operators.macs @ at).sum()) == counted(module, x)
    with torch.no_grad():
        assert int((w.tensors.numel[w.tensors.is_output] @ at).sum()) == module(x).numel()


@settings(max_examples=15, deadline=None)
@given(
    rank=st.integers(1, 3), groups=st.integers(1, 3), c_in=small, c_out=small, kernel=st.integers(1, 3),
    stride=st.integers(1, 2), bias=st.booleans(), transposed=st.booleans(), batch=st.integers(2, 4),
)  # fmt: skip
def test_convolutions(
    rank: int, groups: int, c_in: int, c_out: int, kernel: int, stride: int, bias: bool, transposed: bool, batch: int
) -> None:
    name = f"Conv{'Transpose' if transposed else ''}{rank}d"
    layer = getattr(nn, name)(
        c_in * groups, c_out * groups, kernel, stride=stride, groups=groups, bias=bias, device="meta"
    )
    x = torch.empty(batch, c_in * groups, *(5 + axis for axis in range(rank)), device="meta")
    compare(layer.eval(), x)


@settings(max_examples=15, deadline=None)
@given(
    width=small, out=small, extra=st.lists(st.integers(2, 4), max_size=2), batch=st.integers(2, 4), bias=st.booleans()
)
def test_linear_layers(width: int, out: int, extra: list[int], batch: int, bias: bool) -> None:
    layer = nn.Sequential(nn.Linear(width, out, bias=bias, device="meta"), nn.ReLU())
    compare(layer.eval(), torch.empty(batch, *extra, width, device="meta"))


sizes = st.dictionaries(
    st.sampled_from([(), ("batch",), ("batch", "batch"), ("batch", "seq")]), st.integers(1, 9), max_size=4
).map(Poly)
points = st.tuples(st.integers(1, 50), st.integers(1, 50))


@given(sizes, sizes, points)
def test_polynomials_are_a_ring(a: Poly, b: Poly, point: tuple[int, int]) -> None:
    at = {"batch": point[0], "seq": point[1]}
    assert (a + b).value_at(**at) == a.value_at(**at) + b.value_at(**at)
    assert (a * b).value_at(**at) == a.value_at(**at) * b.value_at(**at)
    assert a - a == poly(0)
    assert a * 0 == poly(0)
    assert a * b == b * a
    assert smaller(a, a + 1) == a


@given(sizes, st.integers(1, 7))
def test_exact_division(a: Poly, scale: int) -> None:
    divisor = dim("batch") * scale
    assert (a * divisor) // divisor == a
    assert product([a, scale]) // scale == a
