"""Messages of ONNX files written by hand, byte by byte: what no library would write as well."""

from collections.abc import Iterable, Sequence

Size = int | str
FLOAT, INT64, BOOL = 1, 7, 9


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def part(number: int, value: bytes | str) -> bytes:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def parts(number: int, values: Iterable[bytes | str]) -> bytes:
    return b"".join(part(number, value) for value in values)


def info(name: str, shape: Sequence[Size] | None, kind: int = FLOAT) -> bytes:
    sizes = [whole(1, size) if isinstance(size, int) else part(2, size) for size in shape or ()]
    body = whole(1, kind) + (b"" if shape is None else part(2, parts(1, sizes)))
    return part(1, name) + part(2, part(1, body))


def tensor(
    name: str, dims: Sequence[int], kind: int = FLOAT, raw: bytes | None = None, ints: Sequence[int] = ()
) -> bytes:
    data = b"".join(whole(1, size) for size in dims) + whole(2, kind) + part(8, name)
    data += b"" if raw is None else part(9, raw)
    return data + (part(7, b"".join(varint(value) for value in ints)) if ints else b"")


def number(name: str, value: int) -> bytes:
    return part(1, name) + whole(3, value) + whole(20, 2)


def numbers(name: str, values: Sequence[int]) -> bytes:
    return part(1, name) + b"".join(whole(8, value) for value in values) + whole(20, 7)


def words(name: str, value: str) -> bytes:
    return part(1, name) + part(4, value) + whole(20, 3)


def inner(name: str, made: bytes) -> bytes:
    return part(1, name) + part(6, made) + whole(20, 5)


def node(
    op: str, inputs: Sequence[str], outputs: Sequence[str], *attributes: bytes, name: str = "", domain: str = ""
) -> bytes:
    data = parts(1, inputs) + parts(2, outputs) + (part(3, name) if name else b"") + part(4, op)
    return data + parts(5, attributes) + (part(7, domain) if domain else b"")


def graph(
    nodes: Iterable[bytes] = (),
    stored: Iterable[bytes] = (),
    inputs: Iterable[bytes] = (),
    outputs: Iterable[bytes] = (),
    told: Iterable[bytes] = (),
) -> bytes:
    return parts(1, nodes) + parts(5, stored) + parts(11, inputs) + parts(12, outputs) + parts(13, told)


def function(
    name: str, inputs: Sequence[str], outputs: Sequence[str], nodes: Iterable[bytes], domain: str = "mine"
) -> bytes:
    return part(1, name) + part(10, domain) + parts(4, inputs) + parts(5, outputs) + parts(7, nodes)


def model(made: bytes, *functions: bytes, opset: int = 21, producer: str = "x") -> bytes:
    return whole(1, 8) + part(2, producer) + part(7, made) + part(8, whole(2, opset)) + parts(25, functions)
