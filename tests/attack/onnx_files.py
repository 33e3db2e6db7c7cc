"""Hostile ONNX files: small ones, and builders of large ones, with what reading them may come to."""

from collections.abc import Callable

from tests.attack.messages import (
    BOOL,
    INT64,
    function,
    graph,
    info,
    inner,
    model,
    node,
    number,
    part,
    tensor,
    varint,
    whole,
)  # fmt: skip

X, Y = info("x", ["batch", 16]), info("y", ["batch", 16])
IMAGE = info("i", ["batch", 3, 8, 8])
# What could steer a terminal, a browser, a spreadsheet or a Markdown viewer.
EVIL = "\x1b]0;PWNED\x07\x1b[31m<script>alert(1)</script>=cmd|' /C calc'!A0\u202e\u200b\x9b31m\n| x |![a](http://127.0.0.1:9/x)"


def _tower(base: str, height: int) -> bytes:
    """A dimension that is the power of a power of a power."""
    for _ in range(height):
        base = f"({base})**8"
    return model(graph([node("Mystery", ["x"], ["y"])], (), [X], [info("y", ["batch", base])]))


def _loop(nodes: list[bytes], stored: list[bytes], turns: int = 4096, outside: tuple[bytes, ...] = ()) -> bytes:
    inputs = [info("turn", [], INT64), info("go", [], BOOL), info("a", ["batch", 16])]
    body = graph(
        [*nodes, node("Identity", ["go"], ["again"])], stored, inputs, [info("again", [], BOOL), info("c", None)]
    )
    counted = [tensor("n", [], INT64, ints=[turns]), tensor("t", [], BOOL, raw=b"\1"), *outside]
    return model(graph([node("Loop", ["n", "t", "x"], ["y"], inner("body", body))], counted, [X], [Y]))


def _nested(depth: int) -> bytes:
    made = graph((), (), [X], [Y])
    for _ in range(depth):
        made = graph([node("If", ["x"], ["y"], inner("then_branch", made))], (), [X], [Y])
    return model(made)


def _laughs() -> bytes:
    """Ten calls of what makes ten calls of what makes ten calls ..."""
    calls = [
        function(f"F{i}", ["a"], ["b9"], [node(f"F{i + 1}", ["a"], [f"b{j}"], domain="mine") for j in range(10)])
        for i in range(9)
    ]
    last = function("F9", ["a"], ["b"], [node("Relu", ["a"], ["b"])])
    return model(graph([node("F0", ["x"], ["y"], domain="mine")], (), [X], [Y]), *calls, last)


def _empty(field: bytes, count: int) -> bytes:
    return model(graph((), (), [X], [Y]) + field * count)


def _product(
    name: str = "m", x: str = "x", y: str = "y", weight: bytes = tensor("w", [16, 32]), size: int = 16
) -> bytes:
    outputs = [info(y, ["batch", 32])]
    return model(graph([node("MatMul", [x, "w"], [y], name=name)], [weight], [info(x, ["batch", size])], outputs))


def _wide(rank: int) -> bytes:
    """Sizes that are broadcast to more dimensions than NumPy can, before anything else asks for their shape."""
    stored = [tensor("n", [1], INT64, ints=[2]), tensor("to", [rank], INT64, ints=[1] * rank)]
    nodes = [node("Expand", ["n", "to"], ["sizes"]), node("Reshape", ["x", "sizes"], ["y"])]
    return model(graph(nodes, stored, [X], [Y]))


SMALL: dict[str, Callable[[], bytes]] = {
    "sizes of 42 dimensions": lambda: _wide(42),
    **{f"a power of a power {height}": lambda height=height: _tower("2", height) for height in (6, 9, 12)},
    **{
        f"a batch to the power of a power {height}": lambda height=height: _tower("(batch+1)", height)
        for height in (4, 6)
    },
    "folding in a loop": lambda: _loop(
        [*(node("Add", ["K", "K"], [f"k{i}"]) for i in range(11)), node("Identity", ["a"], ["c"])],
        [],
        outside=(tensor("K", [4096], INT64, ints=[1] * 4096),),
    ),
    "graphs in graphs": lambda: _nested(2000),
    "functions that multiply": _laughs,
    "a function that calls itself": lambda: model(
        graph([node("F", ["x"], ["y"], domain="mine")], (), [X], [Y]),
        function("F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="mine")]),
    ),
    "whole numbers without end": lambda: b"\xff" * 2000,
    "a length of 2**64": lambda: b"\x3a" + b"\xff" * 9 + b"\x01abc",
    "a constant larger than any memory": lambda: _product(weight=tensor("w", [1 << 47, 1 << 47]), size=1 << 47),
    "a negative size": lambda: _product(weight=tensor("w", [-1, 4])),
    "a size that a batch makes negative": lambda: model(
        graph([node("Pad", ["x", "p"], ["y"])], [tensor("p", [4], INT64, ints=[-3, 0, 0, 0])], [X], [info("y", None)])
    ),
    "a window of less than nothing": lambda: model(
        graph([node("LRN", ["i"], ["o"], number("size", -100))], (), [IMAGE], [info("o", None)])
    ),
    "sixty large dimensions": lambda: model(graph([node("Relu", ["x"], ["y"])], (), [info("x", [1 << 40] * 60)], [Y])),
    "names that steer": lambda: _product(f"/{EVIL}/mm", EVIL, EVIL + "y"),
    "a name of two megabytes": lambda: _product("/".join(["a" * 1000] * 2000)),
    "a module of 20,000 levels": lambda: _product("/" + "/".join(f"m{i}" for i in range(20_000)) + "/mm"),
    "a name that climbs": lambda: _product("../../../etc/passwd"),
    "weights in a device": lambda: _product(
        weight=tensor("w", [16, 32]) + part(13, part(1, "location") + part(2, "/dev/zero")) + whole(14, 1)
    ),
    "bytes of a field number": lambda: b"\x78\x00" * 1000,
    "constants cut short": lambda: _product(weight=tensor("w", [4], INT64, raw=b"123")),
    "a list of 2**40 parts": lambda: model(
        graph([node("SplitToSequence", ["x"], ["y"])], (), [info("x", [1 << 40, 4])], [Y])
    ),
}
LARGE: dict[str, Callable[[], bytes]] = {
    "20,000 constants in 4,096 turns": lambda: _loop(
        [node("Relu", ["a"], ["c"])], [tensor(f"w{i}", [2]) for i in range(20_000)]
    ),
    "20,000 inputs in 4,096 turns": lambda: _loop([node("Sum", ["a"] * 20_000, ["c"])], []),
    "10,000,000 empty constants": lambda: _empty(b"\x2a\x00", 10_000_000),
    "10,000,000 empty declarations": lambda: _empty(b"\x6a\x00", 10_000_000),
    "500,000 empty nodes": lambda: _empty(b"\x0a\x00", 500_000),
    "7,000,000 empty functions": lambda: model(graph((), (), [X], [Y])) + b"\xca\x01\x00" * 7_000_000,
    "50,000,000 unknown fields": lambda: _empty(varint(100 << 3) + b"\x00", 30_000_000),
}


def chain(count: int) -> bytes:
    """An honest file of so many nodes."""
    nodes = [node("Relu", [f"v{i - 1}" if i else "x"], [f"v{i}"], name=f"n{i}") for i in range(count)]
    return model(graph(nodes, (), [X], [info(f"v{count - 1}", ["batch", 16])]))
