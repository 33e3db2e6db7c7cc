"""Building blocks whose graphs are written from their parameters: a product, and recurrences beyond networks."""

from collections.abc import Callable

from analysis.model.ir.poly import Poly, dim
from analysis.model.ir.workload import InputSpec, Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names.zoo import Spec
from analysis.model.transformer.graph_writer import Tensor, Writer

BATCH: Poly = dim("batch")


def write_block(spec: Spec) -> Workload:
    """Return the workload of a block. Each item of the batch is a problem of its own; a product shares its weight."""
    writer = Writer(spec.name.capitalize())
    result = _BLOCKS[spec.name](writer, *dict(spec.parameters).values())
    inputs = tuple(
        InputSpec(source.label, "float32", tuple(size.label for size in source.meta.shape))
        for source in writer.sources
        if source.meta.shape[0] == BATCH
    )
    graph = writer.graph([result], inputs, ("batch",), ())
    return lower_graph(graph, str(spec), family="block", origin="building block")


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


_BLOCKS: dict[str, Callable[..., Tensor]] = {
    "gemm": _gemm, "lu": _lu, "cholesky": _cholesky, "fir": _fir, "stencil": _stencil, "kalman": _kalman,
}  # fmt: skip
