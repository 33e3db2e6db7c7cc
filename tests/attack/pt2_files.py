"""Hostile exported programs."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from tests.attack.onnx_files import EVIL


def program(expression: str = "Integer(16)", result: str = "y", stack: str = "", given: str = "x") -> dict[str, Any]:
    """`torch.export.save` of one ReLU, by hand."""

    def size(text: str) -> dict[str, Any]:
        return {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}

    def value(text: str) -> dict[str, Any]:
        return {"dtype": 7, "sizes": [size("s0"), size(text)], "strides": [{"as_int": 16}, {"as_int": 1}]}

    call = {
        "target": "torch.ops.aten.relu.default",
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": given}}}],
        "outputs": [{"as_tensor": {"name": result}}],
        "metadata": {"nn_module_stack": stack},
        "name": result,
    }
    body = {
        "inputs": [{"as_tensor": {"name": given}}],
        "outputs": [{"as_tensor": {"name": result}}],
        "nodes": [call],
        "tensor_values": {given: value("Integer(16)"), result: value(expression)},
        "sym_int_values": {},
    }
    signature = {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": given}}}}], "output_specs": []}
    return {
        "schema_version": {"major": 8, "minor": 14},
        "torch_version": "2.13",
        "graph_module": {"graph": body, "signature": signature},
    }


def archive(
    said: Any, more: dict[str, str] | None = None, how: int = zipfile.ZIP_DEFLATED, level: int | None = None
) -> bytes:
    """An archive that says this, as text or as something to write as JSON."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how, compresslevel=level) as made:
        made.writestr("archive/models/model.json", said if isinstance(said, str) else json.dumps(said))
        for name, text in (more or {}).items():
            made.writestr(name, text)
    return file.getvalue()


def _tower(base: str, height: int) -> bytes:
    for _ in range(height):
        base = f"({base})**8"
    return archive(program(base))


def _damaged(how: int) -> bytes:
    data = bytearray(archive(program(), how=how))
    start = data.find(b"model.json") + len("model.json") + 12
    data[start : start + 48] = bytes(byte ^ 0x5A for byte in data[start : start + 48])
    return bytes(data)


def _many(count: int) -> bytes:
    return archive(program(), {f"models/{i}.json": "{}" for i in range(count)})


SMALL: dict[str, Callable[[], bytes]] = {
    "a power of a power": lambda: _tower("2", 12),
    "a batch to the power of a power": lambda: _tower("(s0+1)", 5),
    "4,000 signs": lambda: archive(program("-" * 3900 + "1")),
    "4,000 brackets": lambda: archive(program("(" * 1900 + "1" + ")" * 1900)),
    "code in a size": lambda: archive(program("__import__('os').system('touch pwned')")),
    "a number of 4,000 digits": lambda: archive('{"schema_version":{"major":' + "9" * 4000 + ',"minor":1}}'),
    "a negative size": lambda: archive(program("-s0")),
    "a size that a batch makes negative": lambda: archive(program("30 - s0")),
    "no numbers": lambda: archive('{"schema_version":{"major":NaN,"minor":Infinity}}'),
    "a number alone": lambda: archive("3"),
    "nothing": lambda: archive("null"),
    "weights that are a list": lambda: archive(program(), {"archive/data/x_weights_config.json": "[1]"}),
    "weights that are numbers": lambda: archive(
        program(), {"archive/data/x_weights_config.json": '{"config":{"a":3}}'}
    ),
    "names that steer": lambda: archive(
        program(
            result=EVIL + "y", given=EVIL, stack=f"L__self__,,Net;L__self___a,{EVIL.replace(',', '')},torch.nn.{EVIL}"
        )
    ),
    **{
        f"damaged {how}": lambda how=how: _damaged(how)
        for how in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
    "a name that climbs": lambda: archive(program(), {"../../../models/evil.json": json.dumps(program())}),
    "cut short": lambda: archive(program())[:-30],
    "empty": lambda: b"",
}
LARGE: dict[str, Callable[[], bytes]] = {
    "255 KB that unpack to 6.3 GB": lambda: archive("[" + "[]," * ((250 << 20) // 3) + "[]]"),
    "lists in lists": lambda: archive("[" * 5_000_000),
    "250 MB of blanks": lambda: archive(" " * (255 << 20) + "1", level=1),
    "300 MB of blanks": lambda: archive(" " * (300 << 20) + "1", level=1),
    "60,000 models": lambda: _many(60_000),
}
