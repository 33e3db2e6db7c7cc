"""Building blocks, written from their parameters as PyTorch runs them: parts of networks, products, recurrences."""

from collections.abc import Callable
from dataclasses import replace

from analysis.model.ir.poly import Poly, dim
from analysis.model.ir.workload import InputSpec, Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import ModelSpecError
from analysis.model.names.zoo import Spec
from analysis.model.transformer.graph_writer import Tensor, Writer

BATCH: Poly = dim("batch")


def write_block(spec: Spec) -> Workload:
    """Return the workload of a block. Each item of the batch is a problem of its own; a product shares its weight."""
    writer = Writer(spec.name.title().replace("_", ""))
    written = _BLOCKS[spec.name](writer, *dict(spec.parameters).values())
    result, *kept = written if isinstance(written, list) else [written]
    inputs = tuple(
        InputSpec(source.label, "float32", tuple(size.label for size in source.meta.shape))
        for source in writer.sources
        if source.meta.shape[0] == BATCH
    )
    graph = writer.graph([result], inputs, ("batch",), ())
    return lower_graph(
        replace(graph, held={value.name: result.name for value in kept}),
        str(spec),
        family="block",
        origin="building block",
    )


def _two_layers(w: Writer, x: Tensor, hidden: int, out: int) -> Tensor:
    x = w.linear("fc1", x, hidden, bias=True)
    return w.linear("fc2", w.call_in("act", "GELU", "aten.gelu.default", x.shape, self=x), out, bias=True)


def _convolution(w: Writer, name: str, x: Tensor, channels: int, kernel: int, groups: int = 1) -> Tensor:
    """Write a convolution that keeps the size of an image if its kernel is odd."""
    pad, inner = kernel // 2, x.shape[1].constant() // groups
    with w.module(name, "Conv2d"):
        weight, side = w.weight("weight", (channels, inner, kernel, kernel)), x.shape[2] + (2 * pad - kernel + 1)
        shape = (BATCH, channels, side, side)
        return w.call("aten.conv2d.default", shape, input=x, weight=weight, padding=[pad, pad], groups=groups)


def _batch_norm(w: Writer, name: str, x: Tensor) -> Tensor:
    with w.module(name, "BatchNorm2d"):
        args = {leaf: w.weight(leaf, x.shape[1:2]) for leaf in ("weight", "bias")}
        args |= {leaf: w.buffer(f"{name}.{leaf}", x.shape[1:2]) for leaf in ("running_mean", "running_var")}
        return w.call("aten.batch_norm.default", x.shape, input=x, **args)


def _image(w: Writer, channels: int, size: int) -> Tensor:
    return w.input("x", (BATCH, channels, size, size))


def _conv2d(w: Writer, inner: int, out: int, kernel: int, size: int) -> Tensor:
    x = _batch_norm(w, "bn", _convolution(w, "conv", _image(w, inner, size), out, kernel))
    return w.call_in("relu", "ReLU", "aten.relu.default", x.shape, self=x)


def _resnet_block(w: Writer, channels: int, size: int) -> Tensor:
    x = given = _image(w, channels, size)
    for place in "12":
        x = _batch_norm(w, f"bn{place}", _convolution(w, f"conv{place}", x, channels, 3))
        x = w.overwrite("aten.add_.Tensor", x, other=given) if place == "2" else x
        with w.module("relu" if place == "1" else "relu~2", "ReLU"):
            x = w.overwrite("aten.relu_.default", x)
    return x


def _attention_head(w: Writer, sequence: int, width: int, head: int) -> list[Tensor]:
    x, shape = w.input("x", (BATCH, sequence, width)), (BATCH, sequence, head)
    query, key, value = kept = [w.linear(name, x, head, bias=True) for name in ("query", "key", "value")]
    query, key = w.call("aten.mul.Tensor", shape, self=query, other=head**-0.5), w.view(key, (BATCH, head, sequence))
    scores = w.call("aten.matmul.default", (BATCH, sequence, sequence), self=query, other=key)
    shares = w.call_in("softmax", "Softmax", "aten.softmax.int", scores.shape, self=scores, dim=-1)
    mixed = w.call("aten.matmul.default", shape, self=shares, other=value)
    return [w.linear("out", mixed, width, bias=True), *kept, scores]


def _depthwise_separable(w: Writer, inner: int, out: int, kernel: int, size: int) -> Tensor:
    x = _image(w, inner, size)
    for place, name, *shape in ((1, "depthwise", inner, kernel, inner), (2, "pointwise", out, 1)):
        x = _batch_norm(w, f"bn{place}", _convolution(w, name, x, *shape))
        x = w.call_in(f"relu{place}", "ReLU6", "aten.hardtanh.default", x.shape, self=x)
    return x


def _pooling(w: Writer, channels: int, kernel: int, stride: int, size: int) -> Tensor:
    pad, x = kernel // 2, _image(w, channels, size)
    side = (size + 2 * pad - kernel) // stride + 1
    args = {"kernel_size": [kernel, kernel], "stride": [stride, stride], "padding": [pad, pad]}
    x = w.call_in("maxpool", "MaxPool2d", "aten.max_pool2d.default", (BATCH, channels, side, side), self=x, **args)
    name, kind = "aten.adaptive_avg_pool2d.default", "AdaptiveAvgPool2d"
    return w.call_in("avgpool", kind, name, (BATCH, channels, 1, 1), self=x, output_size=[1, 1])


def _transformer_block(w: Writer, sequence: int, width: int, heads: int, hidden: int) -> list[Tensor]:
    """Write a block with norms before its parts; its attention is one operator between two projections."""
    if width % heads:
        raise ModelSpecError(f"transformer_block: {width} values are no multiple of {heads} heads")
    x = w.input("x", (BATCH, sequence, width))
    normed = w.norm("ln1", x, "layer")
    y = w.view(normed, (sequence, BATCH, width))
    with w.module("attention", "MultiheadAttention"):
        args = {leaf: w.weight(f"in_proj_{leaf}", (3 * width, width)[:n]) for leaf, n in (("weight", 2), ("bias", 1))}
        y = w.call("aten.linear.default", (sequence, BATCH, 3 * width), input=y, **args)
        y = w.view(y, (3, sequence, BATCH, width))
        y = w.call("aten.contiguous.default", y.shape, self=y)
        parts = w.views(y, [(BATCH, heads, sequence, width // heads)] * 3)
        given = dict(zip(("query", "key", "value"), parts, strict=True))
        y = w.call("aten.scaled_dot_product_attention.default", parts[0].shape, **given)
        y = w.call("aten.reshape.default", (BATCH * sequence, width), self=y)
        args = {"weight": w.weight("out_proj.weight", (width, width)), "bias": w.weight("out_proj.bias", (width,))}
        y = w.call("aten.linear.default", y.shape, input=y, **args)
    x = w.call("aten.add.Tensor", x.shape, self=x, other=w.view(y, x.shape))
    second = w.norm("ln2", x, "layer")
    with w.module("mlp", "Mlp"):
        y = _two_layers(w, second, hidden, width)
    return [w.call("aten.add.Tensor", x.shape, self=x, other=y), normed, second]


def _gemm(w: Writer, rows: int, columns: int, inner: int) -> Tensor:
    b, a = w.weight("weight", (inner, columns)), w.input("a", (BATCH, rows, inner))
    return w.call("aten.matmul.default", (BATCH, rows, columns), self=a, other=b)


def _lu(w: Writer, n: int) -> Tensor:
    return w.call("aten.linalg_lu_factor.default", (BATCH, n, n), A=w.input("a", (BATCH, n, n)))


def _cholesky(w: Writer, n: int) -> Tensor:
    return w.call("aten.linalg_cholesky.default", (BATCH, n, n), self=w.input("a", (BATCH, n, n)))


def _fir(w: Writer, channels: int, taps: int, samples: int) -> Tensor:
    signal, weight = w.input("signal", (BATCH, channels, samples)), w.weight("taps", (channels, 1, taps))
    return w.call("aten.conv1d.default", signal.shape, input=signal, weight=weight, groups=channels)


def _stencil(w: Writer, size: int, window: int, sweeps: int) -> Tensor:
    plane, weight = w.input("plane", (BATCH, 1, size, size)), w.weight("weights", (1, 1, window, window))
    for sweep in range(sweeps):
        plane = w.call_in(f"sweep{sweep}", "Sweep", "aten.conv2d.default", plane.shape, input=plane, weight=weight)
    return plane


def _kalman(w: Writer, states: int, measurements: int, steps: int) -> Tensor:
    """Write x = F x + K (z - H F x) and the covariance with it; K from the Cholesky factor of H P H' + R."""
    n, m = states, measurements
    x, p = w.input("state", (BATCH, n, 1)), w.input("covariance", (BATCH, n, n))
    f, h, q, r = (w.weight(name, shape) for name, shape in (("f", (n, n)), ("h", (m, n)), ("q", (n, n)), ("r", (m, m))))
    f_t, h_t = w.view(f, (n, n)), w.view(h, (n, m))
    z = w.input("measurements", (BATCH, steps, m, 1))

    def multiply(left: Tensor, right: Tensor) -> Tensor:
        """Return the product of two matrices of each row of the batch."""
        return w.call("aten.matmul.default", (BATCH, left.shape[-2], right.shape[-1]), self=left, other=right)

    for step in range(steps):
        with w.module(f"step{step}", "KalmanStep"):
            x = multiply(f, x)
            p = w.add("add_q", multiply(multiply(f, p), f_t), q)
            p_h = multiply(p, h_t)
            s = w.add("add_r", multiply(h, p_h), r)
            factor = w.call_in("cholesky", "Cholesky", "aten.linalg_cholesky.default", s.shape, self=s)
            gain = p_h
            for name in ("forward", "backward"):
                solve = "aten.linalg_solve_triangular.default"
                gain = w.call_in(name, "Solve", solve, (BATCH, m, n), A=factor, B=gain)
            gain = w.view(gain, (BATCH, n, m))
            error = w.call("aten.sub.Tensor", (BATCH, m, 1), self=w.view(z, (BATCH, m, 1)), other=multiply(h, x))
            x = w.add("add_x", x, multiply(gain, error))
            change = multiply(gain, w.view(p_h, (BATCH, m, n)))
            p = w.call("aten.sub.Tensor", p.shape, self=p, other=change)
    return w.call("aten.cat.default", (BATCH, n, n + 1), tensors=[x, p])


# The graph of each block: its result, and values that variables of its forward pass keep to the end.
_BLOCKS: dict[str, Callable[..., Tensor | list[Tensor]]] = {
    "mlp": lambda w, inner, hidden, out: _two_layers(w, w.input("x", (BATCH, inner)), hidden, out),
    "layer_norm": lambda w, sequence, width: w.norm("norm", w.input("x", (BATCH, sequence, width)), "layer"),
    "batch_norm": lambda w, channels, size: _batch_norm(w, "norm", _image(w, channels, size)),
    "conv2d": _conv2d, "resnet_block": _resnet_block, "attention_head": _attention_head,
    "depthwise_separable": _depthwise_separable, "pooling": _pooling, "transformer_block": _transformer_block,
    "gemm": _gemm, "lu": _lu, "cholesky": _cholesky, "fir": _fir, "stencil": _stencil, "kalman": _kalman,
}  # fmt: skip
