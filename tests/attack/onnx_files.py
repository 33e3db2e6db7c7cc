"""Hostile ONNX files: small ones, and builders of large ones, with what reading them may come to."""

from collections.abc import Callable, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
# What could steer a terminal, a browser, a spreadsheet or a Markdown viewer.
EVIL = "\x1b]0;PWNED\x07\x1b[31m<script>alert(1)</script>=cmd|' /C calc'!A0\u202e\u200b\x9b31m\n| x |![a](http://127.0.0.1:9/x)"


def info(name: str, shape: Sequence[int | str] | None, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, dims: Sequence[int], kind: int = TensorProto.FLOAT, **data: Any) -> TensorProto:
    return TensorProto(name=name, dims=dims, data_type=kind, **data)


def numbers(name: str, *values: int) -> TensorProto:
    return tensor(name, [len(values)], INT64, int64_data=values)


def graph(
    nodes: Sequence[NodeProto],
    stored: Sequence[TensorProto] = (),
    inputs: Sequence[ValueInfoProto] = (),
    outputs: Sequence[ValueInfoProto] = (),
) -> GraphProto:
    return GraphProto(node=nodes, initializer=stored, input=inputs or [X], output=outputs or [Y])


def model(made: GraphProto, *functions: FunctionProto) -> bytes:
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(made, functions=functions, opset_imports=opsets).SerializeToString()  # type: ignore[no-any-return]


def function(name: str, nodes: Sequence[NodeProto], result: str = "b") -> FunctionProto:
    return FunctionProto(name=name, domain="mine", input=["a"], output=[result], node=nodes)


def varint(value: int) -> bytes:
    """Return a number as the wire has it."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def part(number: int, data: bytes) -> bytes:
    """Return a field of bytes as the wire has it."""
    return varint(number << 3 | 2) + varint(len(data)) + data


node = helper.make_node
X, Y = info("x", ["batch", 16]), info("y", ["batch", 16])


def _tower(base: str, height: int) -> bytes:
    """A dimension that is the power of a power of a power."""
    for _ in range(height):
        base = f"({base})**8"
    return model(graph([node("Mystery", ["x"], ["y"])], outputs=[info("y", ["batch", base])]))


def _loop(nodes: list[NodeProto], stored: list[TensorProto], outside: tuple[TensorProto, ...] = ()) -> bytes:
    inputs = [info("turn", [], INT64), info("go", [], BOOL), info("a", ["batch", 16])]
    again = node("Identity", ["go"], ["again"])
    body = graph([*nodes, again], stored, inputs, [info("again", [], BOOL), info("c", None)])
    counted = [tensor("n", [], INT64, int64_data=[4096]), tensor("t", [], BOOL, raw_data=b"\1"), *outside]
    return model(graph([node("Loop", ["n", "t", "x"], ["y"], body=body)], counted))


def _nested(depth: int) -> bytes:
    """Graphs in graphs, deeper than the library writes."""
    whole = graph([]).SerializeToString()
    ends = part(11, X.SerializeToString()) + part(12, Y.SerializeToString())
    kind = varint(20 << 3) + varint(AttributeProto.GRAPH)
    for _ in range(depth):
        body = part(1, b"then_branch") + part(6, whole) + kind
        whole = part(1, part(1, b"x") + part(2, b"y") + part(4, b"If") + part(5, body)) + ends
    return model(graph([])) + part(7, whole)  # the later graph counts


def _laughs() -> bytes:
    """Ten calls of what makes ten calls of what makes ten calls ..."""
    calls = [
        function(f"F{i}", [node(f"F{i + 1}", ["a"], [f"b{j}"], domain="mine") for j in range(10)], "b9")
        for i in range(9)
    ]
    last = function("F9", [node("Relu", ["a"], ["b"])])
    return model(graph([node("F0", ["x"], ["y"], domain="mine")]), *calls, last)


def _empty(field: bytes, count: int) -> bytes:
    return model(graph([])) + part(7, graph([]).SerializeToString() + field * count)


def _product(name: str = "m", x: str = "x", y: str = "y", weight: TensorProto | None = None, size: int = 16) -> bytes:
    stored = [weight or tensor("w", [16, 32])]
    ends = [info(x, ["batch", size])], [info(y, ["batch", 32])]
    return model(graph([node("MatMul", [x, "w"], [y], name=name)], stored, *ends))


def _wide(rank: int) -> bytes:
    """Sizes that are broadcast to more dimensions than NumPy can, before anything else asks for their shape."""
    nodes = [node("Expand", ["n", "to"], ["sizes"]), node("Reshape", ["x", "sizes"], ["y"])]
    return model(graph(nodes, [numbers("n", 2), numbers("to", *[1] * rank)]))


def _of(kind: str, shape: Sequence[int | str], **attributes: Any) -> bytes:
    """One operator on an input of a shape."""
    return model(graph([node(kind, ["x"], ["y"], **attributes)], inputs=[info("x", shape)], outputs=[info("y", None)]))


SMALL: dict[str, Callable[[], bytes]] = {
    "sizes of 42 dimensions": lambda: _wide(42),
    **{f"a power of a power {height}": lambda height=height: _tower("2", height) for height in (6, 12)},
    **{
        f"a batch to the power of a power {height}": lambda height=height: _tower("(batch+1)", height)
        for height in (4, 6)
    },
    "folding in a loop": lambda: _loop(
        [*(node("Add", ["K", "K"], [f"k{i}"]) for i in range(11)), node("Identity", ["a"], ["c"])],
        [],
        (numbers("K", *[1] * 4096),),
    ),
    "graphs in graphs": lambda: _nested(2000),
    "functions that multiply": _laughs,
    "a function that calls itself": lambda: model(
        graph([node("F", ["x"], ["y"], domain="mine")]), function("F", [node("F", ["a"], ["b"], domain="mine")])
    ),
    "whole numbers without end": lambda: b"\xff" * 2000,
    "a length of 2**64": lambda: b"\x3a" + b"\xff" * 9 + b"\x01abc",
    "a constant larger than any memory": lambda: _product(weight=tensor("w", [1 << 47, 1 << 47]), size=1 << 47),
    "a negative size": lambda: _product(weight=tensor("w", [-1, 4])),
    "a size that a batch makes negative": lambda: model(
        graph([node("Pad", ["x", "p"], ["y"])], [numbers("p", -3, 0, 0, 0)], [X], [info("y", None)])
    ),
    "a window of less than nothing": lambda: _of("LRN", ["batch", 3, 8, 8], size=-100),
    "sixty large dimensions": lambda: _of("Relu", [1 << 40] * 60),
    "names that steer": lambda: _product(f"/{EVIL}/mm", EVIL, EVIL + "y"),
    "a name of two megabytes": lambda: _product("/".join(["a" * 1000] * 2000)),
    "a module of 20,000 levels": lambda: _product("/" + "/".join(f"m{i}" for i in range(20_000)) + "/mm"),
    "a name that climbs": lambda: _product("../../../etc/passwd"),
    "weights in a device": lambda: _product(
        weight=tensor("w", [16, 32], external_data=[{"key": "location", "value": "/dev/zero"}], data_location=1)
    ),
    "bytes of a field number": lambda: b"\x78\x00" * 1000,
    "constants cut short": lambda: _product(weight=tensor("w", [4], INT64, raw_data=b"123")),
    "a list of 2**40 parts": lambda: _of("SplitToSequence", [1 << 40, 4]),
}
LARGE: dict[str, Callable[[], bytes]] = {
    "20,000 constants in 4,096 turns": lambda: _loop(
        [node("Relu", ["a"], ["c"])], [tensor(f"w{i}", [2]) for i in range(20_000)]
    ),
    "20,000 inputs in 4,096 turns": lambda: _loop([node("Sum", ["a"] * 20_000, ["c"])], []),
    "10,000,000 empty constants": lambda: _empty(b"\x2a\x00", 10_000_000),
    "10,000,000 empty declarations": lambda: _empty(b"\x6a\x00", 10_000_000),
    "500,000 empty nodes": lambda: _empty(b"\x0a\x00", 500_000),
    "7,000,000 empty functions": lambda: model(graph([])) + b"\xca\x01\x00" * 7_000_000,
    "50,000,000 unknown fields": lambda: _empty(varint(100 << 3) + b"\x00", 30_000_000),
}


def chain(count: int) -> bytes:
    """An honest file of so many nodes."""
    nodes = [node("Relu", [f"v{i - 1}" if i else "x"], [f"v{i}"], name=f"n{i}") for i in range(count)]
    return model(graph(nodes, outputs=[info(f"v{count - 1}", ["batch", 16])]))
