"""The windows of two-dimensional convolutions. Captures do not state them, so they are derived from sizes."""

from __future__ import annotations

import numpy as np

from analysis.model.ir.workload import INPUT, Floats, Workload
from hardware.memo import memoize

# Heights and widths, plain first: the first that fits is taken. If results share no inputs, 1 x 1 fits as well.
_SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 16, 31, 32)
_WINDOWS = np.array([*((side, side) for side in _SIDES), (1, 3), (3, 1), (1, 5), (5, 1), (1, 7), (7, 1)], dtype=float)


@memoize(shared=True)
def windows(workload: Workload) -> Floats:
    """Return for each operator, (7, n): rows and columns of its result, rows and columns of its window, the stride, and
    the part of what windows cover that is input, not padding. These six are 1 for other operators and if no window
    fits. The seventh is the 4 x 4 patches per row of the product for dense 3 x 3 convolutions at stride 1, else 0: nine
    windows share each of their inputs, a few less at the borders of an image without padding.

    An operator reads each input once. Its channels are its depth over the window's area; images are taken as square. So
    a window fits if channels and sides are whole numbers and results are as many as windows have room for."""
    ops, tensors = workload.operators, workload.tensors
    found = np.ones((7, workload.n_operators))
    found[6] = 0.0
    is_image = np.array(
        [kind in ("conv", "depthwise_conv") and "2d" in target
         for kind, target in zip(ops.kind, ops.target, strict=True)], dtype=np.bool_)  # fmt: skip
    has_products = np.all(np.any(ops.gemm > 0, axis=2), axis=1)  # one of unknown cost has none
    which = np.flatnonzero(is_image & has_products)
    if not len(which):
        return found
    one = workload.value_at(**dict.fromkeys(workload.dims, 1))
    groups, rows, _, depth = (ops.gemm[which] @ one).T
    edge = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    is_activation = tensors.role[ops.in_tensor] <= INPUT
    inputs = np.bincount(edge, (ops.in_numel @ one) * is_activation, minlength=workload.n_operators)[which]
    height, width = _WINDOWS.T[:, :, None]
    channels = depth / (height * width)
    side, results = np.sqrt(inputs / (np.maximum(groups, 1.0) * channels)), np.sqrt(rows)
    stride = np.maximum(np.round(side / results), 1.0)
    window = np.maximum(height, width)
    padding = (results - 1.0) * stride + window - side
    fits = (channels % 1.0 == 0) & (side % 1.0 == 0) & (results % 1.0 == 0)
    fits &= (padding > -stride) & (padding <= window - 1.0) & (side > 0)
    first = fits.argmax(axis=0)
    here = np.arange(len(which))
    reached = ((results - 1.0) * stride + height) * ((results - 1.0) * stride + width)
    part = np.minimum(side**2 / reached, 1.0)
    columns = [*np.broadcast_arrays(results, results, height, width, stride, part)]
    values = np.stack([np.broadcast_to(column, fits.shape)[first, here] for column in columns])
    found[:6, which] = np.where(fits.any(axis=0), values, 1.0)
    is_dense = np.array([ops.kind[i] == "conv" and "conv2d" in ops.target[i] for i in which], dtype=np.bool_)
    is_dense &= (groups == 1) & (8.0 * inputs < depth * rows) & (depth * rows < 10.0 * inputs)
    rows = np.where(is_dense, rows, 1.0)
    found[6, which] = is_dense * (np.ceil(np.sqrt(rows) / 4.0) ** 2 / rows)
    return found
