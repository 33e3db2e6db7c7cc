"""ONNX files by hand: operators counted on paper, loops and branches, open sizes, and files that are wrong."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_files import INT, graph, info, node, number, numbers, save, weight

import hwexplorer as hx
from analysis.model import store
from analysis.model.ir import workload as batch_limits
from analysis.model.ir.workload import WEIGHT, Workload
from analysis.model.model_errors import UnreadableError
from analysis.model.names import targets
from analysis.model.reading_budget import TooMuchError
from hwexplorer_annexes.onnx.onnx_model import load
from tests.waiting import never_endless

Parts = tuple[Any, ...]


def total(w: Workload, what: str = "macs", batch: int = 1) -> float:
    return float((getattr(w.operators, what) @ w.value_at(batch=batch)).sum())


# name -> nodes, inputs, outputs, constants; MACs and flops beside them for one input.
COUNTED: dict[str, tuple[Parts, int, int]] = {
    "gemm with a transposed weight": (
        ([node("Gemm", "x w b", "y", transB=1)], {"x": ["batch", 8]}, ["y"], [weight("w", 4, 8), weight("b", 4)]),
        32,
        4,
    ),
    "grouped convolution": (
        (
            [node("Conv", "x w", "y", group=2, pads=[1, 1, 1, 1])],
            {"x": ["b", 4, 5, 5]},
            ["y"],
            [weight("w", 6, 2, 3, 3)],
        ),
        25 * 6 * 2 * 9,
        0,
    ),
    "three-dimensional convolution": (
        ([node("Conv", "x w", "y", strides=[2, 2, 2])], {"x": ["b", 2, 5, 5, 5]}, ["y"], [weight("w", 3, 2, 3, 3, 3)]),
        8 * 3 * 2 * 27,
        0,
    ),
    "transposed convolution": (
        ([node("ConvTranspose", "x w", "y", strides=[2, 2])], {"x": ["b", 4, 3, 3]}, ["y"], [weight("w", 4, 5, 2, 2)]),
        9 * 4 * 5 * 4,
        0,
    ),
    "LSTM of two directions": (
        (
            [node("LSTM", "x w r", "y h c", hidden_size=6, direction="bidirectional")],
            {"x": [7, "b", 5]},
            ["y"],
            [weight("w", 2, 24, 5), weight("r", 2, 24, 6)],
        ),
        7 * 2 * 24 * (5 + 6),
        7 * 2 * 6 * 14,
    ),
    "GRU": (
        (
            [node("GRU", "x w r", "y", hidden_size=6)],
            {"x": [7, "b", 5]},
            ["y"],
            [weight("w", 1, 18, 5), weight("r", 1, 18, 6)],
        ),
        7 * 18 * 11,
        7 * 6 * 13,
    ),
    "attention of opset 23": (
        ([node("Attention", "q k v", "y")], {"q": ["b", 2, 5, 4], "k": ["b", 2, 7, 4], "v": ["b", 2, 7, 3]}, ["y"]),
        2 * 5 * 7 * (4 + 3),
        2 * 5 * 7 * 6,
    ),
    "causal attention: query i sees i keys": (
        (
            [node("Attention", "q k v", "y", is_causal=1)],
            {"q": ["b", 2, 6, 4], "k": ["b", 2, 6, 4], "v": ["b", 2, 6, 3]},
            ["y"],
        ),
        2 * 21 * (4 + 3),
        2 * 21 * 6,
    ),
    "causal attention after a cache of three": (
        (
            [node("Attention", "q k v -- pk pv", "y", is_causal=1)],
            {
                "q": ["b", 2, 6, 4],
                "k": ["b", 2, 6, 4],
                "v": ["b", 2, 6, 3],
                "pk": ["b", 2, 3, 4],
                "pv": ["b", 2, 3, 3],
            },
            ["y"],
        ),
        2 * (21 + 6 * 3) * (4 + 3),
        2 * (21 + 6 * 3) * 6,
    ),
    "einsum": (
        ([node("Einsum", "x y", "z", equation="bij,bjk->bik")], {"x": ["b", 3, 4], "y": ["b", 4, 5]}, ["z"]),
        60,
        0,
    ),
    "resize by scales": (
        (
            [node("Resize", "x -- s", "y", mode="linear")],
            {"x": ["b", 2, 3, 3]},
            ["y"],
            [number("s", [1, 1, 2, 2], np.float32)],
        ),
        0,
        2 * 36 * 7,
    ),
    "pooling with a last partial window": (
        ([node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], {"x": ["b", 1, 5, 5]}, ["y"]),
        0,
        9 * 4,
    ),
    "quantised convolution": (
        (
            [
                node("QuantizeLinear", "x s z", "q"),
                node("DequantizeLinear", "q s z", "d"),
                node("DequantizeLinear", "w s z", "dw"),
                node("Conv", "d dw", "y"),
            ],
            {"x": ["b", 2, 4, 4]},
            ["y"],
            [weight("w", 3, 2, 3, 3, dtype=np.int8), number("s", 0.5, np.float32), number("z", 0, np.int8)],
        ),
        4 * 3 * 2 * 9,
        32 * 6,
    ),
    "batch kept through a computed shape": (
        (
            [
                node("Shape", "x", "s"),
                node("Gather", "s zero", "b"),
                node("Mul", "b two", "bb"),
                node("Concat", "bb rest", "t", axis=0),
                node("Reshape", "x t", "r"),
                node("MatMul", "r w", "y"),
            ],
            {"x": ["b", 6, 4]},
            ["y"],
            [numbers("zero", 0), numbers("two", 2), numbers("rest", -1, 4), weight("w", 4, 3)],
        ),
        6 * 4 * 3,
        0,
    ),
}


# Those of which ONNX's own inference says nothing.
OTHERS: dict[str, tuple[Parts, int, int]] = {
    "LSTM in eight bits, its weights the other way round": (
        (
            [node("DynamicQuantizeLSTM", "x w r", "y h c", hidden_size=6, domain="com.microsoft")],
            {"x": [7, "b", 5]},
            ["y"],
            [weight("w", 1, 5, 24, dtype=np.int8), weight("r", 1, 6, 24, dtype=np.int8)],
        ),
        7 * 24 * (5 + 6),
        7 * 6 * 14,
    ),
    "linear attention by the gated delta rule, two queries a key": (
        (
            [node("LinearAttention", "q k v", "y s", q_num_heads=4, kv_num_heads=2, update_rule="gated_delta")],
            {"q": ["b", 5, 12], "k": ["b", 5, 6], "v": ["b", 5, 8]},
            ["y", "s"],
            [],
        ),
        5 * (4 + 2 * 2) * 3 * 4,
        5 * 2 * 3 * 4,
    ),
    "quantised convolution and what ONNX Runtime joins to it": (
        (
            [
                node("QLinearConv", "x s z w s z s z", "c"),
                node("QLinearLeakyRelu", "c s z s z", "r", domain="com.microsoft"),
                node("QLinearConcat", "s z c s z r s z", "k", axis=1, domain="com.microsoft"),
                node("QLinearGlobalAveragePool", "k s z s z", "y", domain="com.microsoft"),
            ],
            [info("x", ["b", 2, 4, 4], TensorProto.UINT8)],
            ["y"],
            [weight("w", 3, 2, 3, 3, dtype=np.uint8), number("s", 0.5, np.float32), number("z", 0, np.uint8)],
        ),
        4 * 3 * 2 * 9,
        2 * 12 + 24,
    ),
    "causal convolution with its state": (
        (
            [node("CausalConvWithState", "x w", "y s", activation="silu")],
            {"x": ["b", 6, 9]},
            ["y", "s"],
            [weight("w", 6, 1, 4)],
        ),
        6 * 9 * 4,
        4 * 6 * 9,
    ),
}


@pytest.mark.parametrize("name", COUNTED | OTHERS)
def test_counted_on_paper(name: str, tmp_path: Path) -> None:
    parts, macs, flops = (COUNTED | OTHERS)[name]
    w = load(save(tmp_path, *parts, opset=23))
    assert w.operators.has_rule.all(), w.operators.target
    for batch in (1, 3):
        assert (total(w, "macs", batch), total(w, "flops", batch)) == (macs * batch, (2 * macs + flops) * batch)


LINEAR = [node("MatMul", "x w", "y")]


def test_parameters_leave_out_statistics_scales_and_indices(tmp_path: Path) -> None:
    stored = [weight(name, 4) for name in ("g", "b", "m", "v")]
    w = load(save(tmp_path, [node("BatchNormalization", "x g b m v", "y")], {"x": ["b", 4, 2, 2]}, ["y"], stored))
    assert w.parameters == 8
    parts, *_ = COUNTED["quantised convolution"]
    assert load(save(tmp_path, *parts)).parameters == 54


PACKED = [weight("w", 32, 2, 16, dtype=np.uint8), weight("s", 64)]  # 64 x 32 in 4 bits, scales of blocks of 32


@pytest.mark.parametrize("op", ["MatMulNBits", "MatMulBnb4", "DequantizeLinear"])
def test_weights_of_four_bits_take_half_a_byte(op: str, tmp_path: Path) -> None:
    nodes, stored = [node(op, "x w s", "y", K=64, N=32, domain="com.microsoft")], PACKED
    if op == "DequantizeLinear":
        nodes = [node(op, "w s", "d", axis=0, block_size=16), node("MatMul", "x d", "y")]
        stored = [weight("s", 4, 32), helper.make_tensor("w", TensorProto.INT4, [64, 32], np.zeros(2048, np.int8))]
    w = load(save(tmp_path, nodes, {"x": ["b", 10, 64]}, ["y"], stored))
    assert (w.parameters, total(w, "macs", 1)) == (2048, 10 * 64 * 32)
    sizes = w.tensors.numel[:, 0] * w.tensors.fixed_bytes
    assert sizes[w.tensors.role == WEIGHT].sum() == 1024


# --- control flow -----------------------------------------------------------------------------------------


def test_a_loop_of_known_length_is_laid_out(tmp_path: Path) -> None:
    inputs = [info("i", [], INT), info("go", [], TensorProto.BOOL), info("h", None)]
    body = graph([node("MatMul", "h w", "hh"), node("Identity", "go", "again")], inputs, ["again", "hh", "hh"])
    nodes = [node("Loop", "n true x", "last all", body=body)]
    stored = [number("n", 5), number("true", True, np.bool_), weight("w", 4, 4)]
    w = load(save(tmp_path, nodes, {"x": ["b", 4]}, ["last", "all"], stored))
    assert total(w) == 5 * 16
    assert w.parameters == 16


def test_the_weights_of_a_loop_are_its_own_once_and_for_all_turns(tmp_path: Path) -> None:
    inputs = [info("i", [], INT), info("go", [], TensorProto.BOOL), info("h", None)]
    nodes = [node("MatMul", "h w", "hh"), node("Identity", "go", "again")]
    body = graph(nodes, inputs, ["again", "hh"], [weight("w", 4, 4)])
    stored = [number("n", 5), number("true", True, np.bool_)]
    w = load(save(tmp_path, [node("Loop", "n true x", "last", body=body)], {"x": ["b", 4]}, ["last"], stored))
    assert (total(w), w.parameters) == (5 * 16, 16)


def test_a_loop_of_unknown_length_is_counted_once_and_says_so(tmp_path: Path) -> None:
    inputs = [info("i", [], INT), info("go", [], TensorProto.BOOL), info("h", None)]
    body = graph([node("MatMul", "h w", "hh"), node("Identity", "go", "again")], inputs, ["again", "hh"])
    given = [info("x", ["b", 4]), info("n", [], INT)]
    w = load(save(tmp_path, [node("Loop", "n -- x", "last", body=body)], given, ["last"], [weight("w", 4, 4)]))
    assert total(w) == 16
    assert "a loop whose length depends on the data is counted once" in w.notes


def test_a_scan_runs_once_for_every_slice(tmp_path: Path) -> None:
    body = graph(
        [node("Concat", "h x", "hx", axis=-1), node("MatMul", "hx w", "hh")], {"h": None, "x": None}, ["hh", "hh"]
    )
    nodes = [node("Scan", "start x", "last all", body=body, num_scan_inputs=1)]
    w = load(save(tmp_path, nodes, {"start": [2, 4], "x": [6, 2, 3]}, ["last", "all"], [weight("w", 7, 4)]))
    assert total(w) == 6 * 2 * 7 * 4
    assert w.parameters == 28
    assert w.operators.has_rule.all(), "its slices are windows"


def test_a_scan_takes_apart_and_piles_along_the_dimensions_it_names(tmp_path: Path) -> None:
    body = graph([node("MatMul", "x w", "y")], {"x": None}, ["y"])
    scan = node("Scan", "x", "all", body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-2])
    nodes = [scan, node("MatMul", "all v", "z")]
    w = load(save(tmp_path, nodes, {"x": [2, 6, 3]}, ["z"], [weight("w", 3, 4), weight("v", 4, 5)]))
    assert total(w) == 6 * 2 * 3 * 4 + 2 * 6 * 4 * 5


def test_the_branch_that_the_sizes_settle_is_taken(tmp_path: Path) -> None:
    then = graph([node("MatMul", "x w", "a")], {}, ["a"])
    other = graph([node("MatMul", "x v", "b0"), node("Relu", "b0", "b")], {}, ["b"])
    settled = [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n four", "c")]
    stored = [number("one", 1), number("four", 4), weight("w", 4, 4), weight("v", 4, 8)]
    choice = node("If", "c", "y", then_branch=then, else_branch=other)
    w = load(save(tmp_path, [*settled, choice], {"x": ["b", 4]}, ["y"], stored))
    assert total(w) == 16
    given = [info("x", ["b", 4]), info("c", [], TensorProto.BOOL)]
    w = load(save(tmp_path, [choice], given, ["y"], stored[2:]))
    assert total(w) == 32
    assert "the longer branch of each If is counted" in w.notes


def test_functions_of_the_file_are_entered(tmp_path: Path) -> None:
    function = helper.make_function(
        "mine", "Twice", ["a", "k"], ["c"], [node("MatMul", "a k", "b"), node("MatMul", "b k", "c")],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    call = helper.make_node("Twice", ["x", "w"], ["y"], domain="mine", name="block")
    w = load(save(tmp_path, [call], {"x": ["b", 4]}, ["y"], [weight("w", 4, 4)], functions=[function]))
    assert (total(w), w.parameters) == (32, 16)


# --- what the file leaves open ----------------------------------------------------------------------------


def test_an_unknown_operator_is_counted_by_its_bytes_where_its_shape_is_told(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["m"], domain="mine"), node("MatMul", "m w", "y")]
    stored = [weight("w", 4, 3)]
    w = load(save(tmp_path, nodes, {"x": ["b", 8]}, ["y"], stored, told=[info("m", ["b", 4])]))
    assert dict(zip(w.operators.target, w.operators.has_rule.tolist(), strict=True))["mine.Mystery"] is False
    assert total(w) == 12
    # Where nothing tells its shape it is taken for that of its input, which is said.
    w = load(save(tmp_path, nodes, {"x": ["b", 4]}, ["y"], stored))
    assert total(w) == 12
    assert w.notes[0].startswith("the size of what mine.Mystery writes is unknown")
    with pytest.raises(UnreadableError, match="sizes 8 and 4 do not match"):
        load(save(tmp_path, nodes, {"x": ["b", 8]}, ["y"], stored))


def test_sizes_without_a_name_of_their_own_are_not_one_size(tmp_path: Path) -> None:
    """Exporters write `?` for each; named ones are one, and two sizes for it are refused."""
    conv = ([node("Conv", "x w", "y")], {"x": ["n", 3, "?", "?"]}, ["y"], [weight("w", 2, 3, 1, 1)])
    w = store.load(f"{save(tmp_path, *conv)}(1x3x48x192)")
    assert (w.inputs[0].shape, total(w)) == (("batch", 3, 48, 192), 48 * 192 * 6)
    named = ([node("Conv", "x w", "y")], {"x": ["n", 3, "s", "s"]}, ["y"], [weight("w", 2, 3, 1, 1)])
    with pytest.raises(UnreadableError, match="'x' sets 's' to 192, but it is 48 elsewhere"):
        store.load(f"{save(tmp_path, *named)}(1x3x48x192)")


def test_inputs_that_are_numbers_are_passed_over_or_given_by_name(tmp_path: Path) -> None:
    """Here a number says how long the result is."""
    nodes = [node("Unsqueeze", "n zero", "s"), node("Expand", "x s", "e"), node("Relu", "e", "y")]
    inputs = [helper.make_tensor_value_info("n", onnx.TensorProto.INT64, []), info("x", ["b", 1])]
    path = save(tmp_path, nodes, inputs, ["y"], [numbers("zero", 0)])
    w = store.load(f"{path}(2x1,n=7)")
    assert [item.shape for item in w.inputs] == [(), ("batch", 1)]
    assert w.operators.flops[-1] @ w.value_at(batch=2) == 14
    with pytest.raises(UnreadableError, match="it has no input 'm': n, x"):
        store.load(f"{path}(m=7)")


def test_a_size_that_the_file_alone_tells_is_no_gap(tmp_path: Path) -> None:
    """Scales, axes and counts that are inputs: what is declared of the result stands for them."""
    nodes = [node("Resize", "x - scales", "m"), node("TopK", "m k", "v i"), node("ReduceSum", "v axes", "y")]
    info_of = [
        info("m", ["b", 3, 8, 8]),
        info("v", ["b", 3, 8, 2]),
        info("i", ["b", 3, 8, 2]),
        info("y", ["b", 1, 8, 2]),
    ]
    extra = {"scales": [4], "k": [1], "axes": [1]}
    w = load(save(tmp_path, nodes, {"x": ["b", 3, 4, 4], **extra}, ["y"], told=info_of))
    assert w.operators.has_rule.all()
    assert w.operators.kind == ("resample", "sort", "reduce")


def test_open_sizes_are_asked_for_and_taken(tmp_path: Path) -> None:
    conv = ([node("Conv", "x w", "y")], {"x": ["n", 3, "height", "width"]}, ["y"], [weight("w", 2, 3, 1, 1)])
    path = save(tmp_path, *conv)
    with pytest.raises(UnreadableError, match=r"'x' is nx3xheightxwidth: give its sizes, e.g. --input 1x3x224x224"):
        load(path)
    w = store.load(f"{path}(1x3x10x20)")
    assert (total(w), total(w, batch=4)) == (200 * 6, 800 * 6)
    for wrong in ("1x4x10x20", "1x3x10"):
        with pytest.raises(UnreadableError, match="not 1x"):
            store.load(f"{path}({wrong})")


def test_a_size_called_n_is_no_batch_beside_one_that_is_called_so(tmp_path: Path) -> None:
    path = save(tmp_path, LINEAR, {"x": ["batch_size", "N", 4]}, ["y"], [weight("w", 4, 3)])
    assert load(path, [targets.Input((1, 7, 4))]).inputs[0].shape == ("batch", 7, 4)


def test_the_time_of_a_recurrent_network_is_no_batch(tmp_path: Path) -> None:
    weights = [weight("w", 1, 18, 5), weight("r", 1, 18, 6)]
    nodes = [node("Relu", "x", "a"), node("GRU", "a w r", "y", hidden_size=6)]
    for time_size in ("T", "s0", 7):
        path = save(tmp_path, nodes, {"x": [time_size, 3, 5]}, ["y"], weights)
        if isinstance(time_size, str):
            with pytest.raises(UnreadableError, match=f"'x' is {time_size}x3x5: give its sizes"):
                load(path)
        w = load(path, [targets.Input((7, 3, 5))])
        assert (total(w), batch_limits.fixed_batch(w)) == (7 * 3 * 18 * 11, 3)


def test_a_batch_that_the_graph_fixes_is_that_of_the_named_input(tmp_path: Path) -> None:
    nodes = [node("Unsqueeze", "x axes", "image"), node("Conv", "image w", "y")]
    path = save(tmp_path, nodes, {"x": ["frames", 4]}, ["y"], [numbers("axes", 0, 1), weight("w", 2, 1, 3, 1)])
    w = load(path, [targets.parse_input("x=7x4")])
    assert (total(w), batch_limits.fixed_batch(w)) == (5 * 4 * 2 * 3, 7)
    with pytest.raises(UnreadableError, match="negative"):
        load(path)


def test_a_fixed_batch_is_said(tmp_path: Path) -> None:
    w = load(save(tmp_path, LINEAR, {"x": [3, 4]}, ["y"], [weight("w", 4, 2)]))
    assert (batch_limits.fixed_batch(w), total(w)) == (3, 24)
    # Here the input is free, and the graph is not.
    nodes = [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")]
    stored = [numbers("s", 1, 4), weight("w", 4, 2)]
    w = load(save(tmp_path, nodes, {"x": ["b", 4]}, ["y"], stored))
    assert (batch_limits.fixed_batch(w), total(w)) == (1, 8)


def test_weights_outside_the_file_are_counted_and_never_opened(tmp_path: Path) -> None:
    outside = weight("w", 4, 2)
    onnx.external_data_helper.set_external_data(outside, location="/dev/stdin")
    outside.ClearField("raw_data")
    w = load(save(tmp_path, LINEAR, {"x": ["b", 4]}, ["y"], [outside]))
    assert (total(w), w.parameters) == (8, 8)


def test_sizes_that_depend_on_the_data_are_those_that_the_file_declares(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", "x axes", "y", keepdims=0)]
    given = [info("x", ["b", 4]), info("axes", [1], INT)]
    path = save(tmp_path, nodes, given, ["y"], told=[info("y", ["b"])])
    w = load(path)
    assert w.operators.has_rule.all(), w.operators.target
    assert total(w, "flops", 3) == 12


# --- files that are wrong ---------------------------------------------------------------------------------


WRONG = (
    "is empty",
    "not an ONNX model",
    "holds no graph",
    "damaged, truncated, or another format",
    "reads 'nowhere', which no operator writes",
    "sizes 4 and 5 do not match",
)


def broken(tmp_path: Path, why: str) -> bytes:
    good = save(tmp_path, LINEAR, {"x": ["b", 4]}, ["y"], [weight("w", 4, 2)]).read_bytes()
    files = {
        "is empty": b"",
        "not an ONNX model": good[: len(good) // 2],
        "holds no graph": b"\x08\x07",
        "damaged, truncated, or another format": b"PK\x03\x04 something else entirely" * 20,
        "reads 'nowhere', which no operator writes": save(
            tmp_path, [node("Relu", "nowhere", "y")], {}, ["y"]
        ).read_bytes(),
        "sizes 4 and 5 do not match": save(tmp_path, LINEAR, {"x": ["b", 4]}, ["y"], [weight("w", 5, 2)]).read_bytes(),
    }
    return files[why]


def bombs() -> dict[str, Parts]:
    """Files of a few hundred bytes that ask for very much."""
    squares = [node("Mul", f"n{i} n{i}", f"n{i + 1}") for i in range(60)]
    tail = [node("Reshape", "x n60", "y")]
    inputs = [info("i", [], INT), info("go", [], TensorProto.BOOL)]
    nested = graph([], inputs, ["go"])
    for _ in range(5):
        nested = graph([node("Loop", "n --", "", body=nested)], inputs, ["go"])
    return {
        "squares of squares": ([*squares, *tail], {"x": ["b", 4]}, ["y"], [numbers("n0", 3)]),
        "a tower of powers": (
            [node("Pow", "n n", "p"), node("Pow", "p p", "q"), node("Reshape", "x q", "y")],
            {"x": ["b", 4]},
            ["y"],
            [numbers("n", 1 << 40)],
        ),
        "a tile of sizes": (
            [node("Tile", "n r", "t"), node("Reshape", "x t", "y")],
            {"x": ["b", 4]},
            ["y"],
            [numbers("n", 1), numbers("r", 1 << 40)],
        ),
        "loops in loops": ([node("Loop", "n --", "y", body=nested)], {"x": ["b", 4]}, ["y"], [number("n", 4000)]),
    }


@pytest.mark.parametrize("name", bombs())
def test_what_asks_for_too_much_is_refused_at_once(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, *bombs()[name])
    with never_endless(), pytest.raises((UnreadableError, TooMuchError)):
        load(path)


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_file_says_what_is_wrong(why: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(broken(tmp_path, why))
    with pytest.raises(UnreadableError, match=why) as caught:
        load(path)
    assert str(caught.value).startswith("bad.onnx: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", COUNTED)
def test_shapes_agree_with_onnx(name: str, tmp_path: Path) -> None:
    """The reference infers as many elements of the result, at a batch that the file states."""
    nodes, inputs, outputs, *stored = COUNTED[name][0]
    fixed = {key: [5 if size == "b" or size == "batch" else size for size in shape] for key, shape in inputs.items()}
    path = save(tmp_path, nodes, fixed, outputs, *stored, opset=23)
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph.output[0]
    sizes = [size.dim_value for size in inferred.type.tensor_type.shape.dim]
    w = load(path)
    ours = w.tensors.numel[w.tensors.is_output] @ w.value_at(batch=5)
    assert ours.tolist() == [np.prod(sizes)] if all(sizes) else name.startswith("batch kept")


def test_experts_multiply_the_tokens_that_choose_them(tmp_path: Path) -> None:
    """16 tokens, 2 of 8 experts: 16 x 2 x (64 x 128 + 128 x 64)."""
    shapes = {"x": [16, 64], "r": [16, 8], "w1": [8, 128, 64], "w2": [8, 64, 128]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    expert = helper.make_node("MoE", ["x", "r", "w1", "", "w2"], ["y"], domain="com.microsoft", k=2)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 64])
    onnx.save(helper.make_model(helper.make_graph([expert], "g", inputs, [y])), tmp_path / "moe.onnx")
    workload = store.load(str(tmp_path / "moe.onnx"))
    assert workload.total(workload.operators.macs, batch=1) == 524_288


_CONTRIB = {  # operators of ONNX Runtime with products: inputs, the node's attributes, MACs
    "GemmFastGelu": ({"x": [1, 10, 32], "w": [32, 64]}, {}, 10 * 32 * 64),
    "NhwcConv": (
        {"x": [1, 9, 9, 8], "w": [16, 4, 3, 3]}, {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]},
        5 * 5 * 16 * 4 * 9,
    ),
    "NhwcMaxPool": ({"x": [1, 9, 9, 8]}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 0),
    "GatedRelativePositionBias": (
        {"q": [1, 12, 32], "qb": [32], "r": [1, 4, 12, 12], "w": [8, 8], "b": [8], "e": [1, 4, 1, 1]},
        {"num_heads": 4}, 12 * 4 * 8 * 8,
    ),
    # 5 blocks of 16 queries by 16 keys
    "SparseAttention": (
        {"q": [1, 48, 64], "k": [1, 48, 64], "v": [1, 48, 64], "pk": [1, 4, 48, 16], "pv": [1, 4, 48, 16], "r": [1, 4],
         "c": [1, 5]},
        {"num_heads": 4, "kv_num_heads": 4, "sparse_block_size": 16}, 4 * 16 * 16 * 5 * 16 * 2,
    ),
    "FusedMatMulActivation": ({"x": [4, 8], "w": [8, 16]}, {"activation": "Relu"}, 4 * 8 * 16),
    "GemmFloat8": ({"x": [4, 8], "w": [16, 8]}, {"transB": 1}, 4 * 8 * 16),
    # 2 sequences of 16 tokens without padding; 32 tokens of 2 sequences, with room for 4 pages of 16 keys each
    "PackedMultiHeadAttention": (
        {"q": [32, 64], "k": [32, 64], "v": [32, 64], "b": [1], "o": [2, 16], "c": [3]}, {"num_heads": 4},
        2 * 16 * 16 * 64 * 2,
    ),
    "PackedAttention": (
        {"x": [32, 64], "w": [64, 192], "b": [192], "o": [2, 16], "c": [3]}, {"num_heads": 4},
        2 * 16 * 16 * 64 * 2 + 32 * 64 * 192,
    ),
    "PagedAttention": (
        {"q": [32, 64], "k": [32, 32], "v": [32, 32], "kc": [8, 16, 2, 16], "vc": [8, 16, 2, 16], "c": [3], "p": [2],
         "t": [2, 4]},
        {"num_heads": 4, "kv_num_heads": 2}, 32 * 4 * 16 * 64 * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CONTRIB)
def test_operators_of_onnx_runtime_have_their_products(name: str, tmp_path: Path) -> None:
    shapes, attributes, macs = _CONTRIB[name]
    file = save(tmp_path, [node(name, " ".join(shapes), "y", domain="com.microsoft", **attributes)], shapes, ["y"])
    workload = store.load(str(file))
    assert workload.total(workload.operators.macs, batch=1) == macs
    assert workload.operators.has_rule.all()


def test_a_filter_bank_is_a_constant(tmp_path: Path) -> None:
    stored = [number("n", 20), number("w", 128), number("r", 16000), number("l", 0.0, np.float32)]
    stored.append(number("h", 8000.0, np.float32))
    nodes = [node("MelWeightMatrix", "n w r l h", "m"), node("MatMul", "x m", "y")]
    workload = store.load(str(save(tmp_path, nodes, {"x": [1, 10, 65]}, ["y"], stored)))
    assert workload.total(workload.operators.macs, batch=1) == 13_000


def test_a_file_replaced_by_one_of_equal_size_and_time_is_read_again(tmp_path: Path) -> None:
    path, energies = tmp_path / "net.onnx", []
    for kind in ("Relu", "Tanh"):
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4096]) for name in "xy")
        onnx.save(helper.make_model(helper.make_graph([helper.make_node(kind, ["x"], ["y"])], "g", [x], [y])), path)
        os.utime(path, ns=(10**18, 10**18))
        energies.append(hx.compare(str(path), on=["h100_sxm"]).to_dict()["rows"][0]["energy_j"])
    assert energies[0] != energies[1]
