"""Exported programs: the same workload as a capture, read without torch, whatever the file says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from capture_toys import lowered
from torch import nn

from analysis.annexes.readers import pt2
from analysis.annexes.readers.size_expressions import expression, is_viewable, stride
from analysis.capture.torch_settings import export_settings, import_torchvision
from analysis.model import store
from analysis.model.ir.poly import SizeError, dim, poly
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import UnreadableError


def save(module: nn.Module, path: Path, *inputs: torch.Tensor, live: bool = True) -> None:
    shapes = tuple({0: torch.export.Dim("batch", min=1, max=65536)} for _ in inputs) if live else None
    with export_settings():
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "resnet18.pt2"
    save(import_torchvision().models.resnet18(weights=None), path, torch.empty(2, 3, 224, 224))
    return path


def differences(a: Workload, b: Workload) -> list[str]:
    """The fields in which two workloads differ, beside names and provenance. What a running program keeps of values by
    its own variables no file knows: by it, `a`, they are kept as long as in `b` or less."""
    pairs = [(name, getattr(x, name), getattr(y, name)) for x, y in both(a, b) for name in x.__struct_fields__]
    pairs += [(name, getattr(a, name), getattr(b, name)) for name in ("inputs", "parameters", "dims", "monomials")]
    return [name for name, x, y in pairs if not _alike(name, x, y)]


def _alike(name: str, x: object, y: object) -> bool:
    if name == "live_until":
        return bool(np.less_equal(x, y).all())  # type: ignore[call-overload]
    return np.array_equal(x, y) if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) else x == y


def both(a: Workload, b: Workload) -> list[tuple[Any, Any]]:
    return [(a.operators, b.operators), (a.tensors, b.tensors)]


def test_resnet18_equals_the_shipped_capture(resnet: Path) -> None:
    w = store.load(str(resnet))
    assert differences(w, store.load("resnet18")) == []
    assert float((w.operators.macs @ w.value_at(batch=1)).sum()) == 1_814_073_344


class Mixed(nn.Module):
    """Views, in-place calls, splits, a tied weight, a buffer, reshapes that move data and others that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.rnn = nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Buffer(torch.ones(16))

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens) * self.scale
        a, b = x.chunk(2, dim=-1)
        y = torch.cat([b, a.neg()], dim=-1)
        y += x
        y, _ = self.rnn(y)
        moved = y.transpose(1, 2).reshape(y.shape[0], -1)
        free = y.reshape(y.shape[0], 2, -1).contiguous().flatten(1)
        return self.head((moved + free).view(y.shape[0], -1, 16)), y.transpose(1, 2).contiguous()


def test_what_it_reads_is_what_a_capture_gives(tmp_path: Path) -> None:
    tokens = torch.zeros(2, 6, dtype=torch.int64)
    save(Mixed(), tmp_path / "m.pt2", tokens)
    assert differences(pt2.load(tmp_path / "m.pt2"), lowered(Mixed().eval(), tokens)) == []


def test_a_program_of_fixed_size_says_so(tmp_path: Path) -> None:
    save(nn.Linear(4, 4), tmp_path / "m.pt2", torch.zeros(3, 4), live=False)
    w = pt2.load(tmp_path / "m.pt2")
    assert w.notes == ("captured at batch 3 alone: the program was exported for inputs of fixed size",)


def test_it_needs_no_torch(resnet: Path) -> None:
    code = (
        f"import sys; from analysis.model import store; w = store.load({str(resnet)!r}); "
        "print(w.parameters, [m for m in ('torch', 'sympy', 'pickle5') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "11689512 []"


# --- hostile files ----------------------------------------------------------------------------------------


def altered(resnet: Path, path: Path, change: Callable[[Any], Any]) -> Path:
    """A copy without weights whose JSON is changed."""
    with zipfile.ZipFile(resnet) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        program = json.loads(old.read("resnet18/models/model.json"))
        changed = change(program)
        new.writestr(
            "resnet18/models/model.json",
            changed if isinstance(changed, (str, bytes)) else json.dumps(changed or program),
        )
    return path


def graph(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    def changed(program: Any) -> None:
        change(program["graph_module"]["graph"])

    return changed


def put(value: Any, *path: Any) -> Callable[[Any], None]:
    """Set a value deep in the graph."""

    def change(place: Any) -> None:
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return graph(change)


def expressed(text: str) -> Callable[[Any], None]:
    return put({"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}, "tensor_values", "x", "sizes", 0)


def dropped(key: str) -> Callable[[Any], None]:
    return lambda program: (program if key in program else program["graph_module"]["graph"]).pop(key) and None


def versioned(program: Any) -> None:
    program["schema_version"] = {"major": 9, "minor": 0}


CODE = "__import__('os').system('touch mark')"
UNKNOWN = {"as_expr": {"expr_str": "u0"}}
HOSTILE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "code": (expressed(CODE), "shape expression"),
    "code in a symbol": (expressed(f"Symbol({CODE}, positive=True)"), "shape expression"),
    "lambda": (expressed("(lambda: 1)()"), "shape expression"),
    "attribute": (expressed("s77.__class__"), "shape expression"),
    "power": (expressed("Pow(Integer(9), Integer(999999999))"), "power"),
    "deep": (expressed("(" * 5000 + "1" + ")" * 5000), "too long"),
    "nested": (expressed("-" * 3900 + "1"), ""),
    "unknown symbol": (put(UNKNOWN, "tensor_values", "conv2d", "sizes", 0), "depends on the data"),
    "negative size": (put({"as_int": -3}, "tensor_values", "x", "sizes", 1), "no size"),
    "huge size": (put({"as_int": 10**300}, "tensor_values", "x", "sizes", 1), "no size"),
    "unknown tensor": (put("nobody", "nodes", 3, "inputs", 0, "arg", "as_tensor", "name"), "malformed"),
    "nodes of text": (put("abc", "nodes"), "malformed"),
    "unknown dtype": (put(99, "tensor_values", "x", "dtype"), "malformed"),
    "no nodes": (dropped("nodes"), "malformed"),
    "no version": (dropped("schema_version"), "malformed"),
    "another version": (versioned, "schema 9.0"),
    "a list": (lambda program: "[]", "malformed"),
    "deep json": (lambda program: "[" * 200_000, ""),
    "no json": (lambda program: b"\xff\xfe\x00", "no JSON"),
    "big number": (lambda program: '{"schema_version": {"major": ' + "9" * 5000 + "}}", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line_and_runs_nothing(
    name: str, resnet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, words = HOSTILE[name]
    monkeypatch.chdir(tmp_path)
    path = altered(resnet, tmp_path / "bad.pt2", change)
    with pytest.raises(UnreadableError) as caught:
        pt2.load(path)
    message = str(caught.value)
    assert message.startswith("bad.pt2: ")
    assert "\n" not in message
    assert len(message) < 250
    assert words in message
    assert not (tmp_path / "mark").exists()


def test_files_that_are_no_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resnet: Path) -> None:
    path = tmp_path / "bad.pt2"
    data = resnet.read_bytes()
    for content in (
        b"",
        b"PK\x03\x04",
        b"x" * 1000,
        data[: len(data) // 2],
        data[:40] + b"\x00" * 4000 + data[4040:-3000],
    ):
        path.write_bytes(content)
        with pytest.raises(UnreadableError):
            pt2.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/serialized_exported_program.json", "{}")
    with pytest.raises(UnreadableError, match="older torch"):
        pt2.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/a.json", "{}")
        archive.writestr("m/models/b.json", "{}")
    with pytest.raises(UnreadableError, match="2 models"):
        pt2.load(path)
    monkeypatch.setattr(pt2, "_MAX_JSON", 1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # 10 kB that unpack to 10 MB
        archive.writestr("m/models/model.json", " " * (10 << 20))
    with pytest.raises(UnreadableError, match="larger than"):
        pt2.load(path)


def test_shape_expressions() -> None:
    symbols = {"s77": dim("batch")}
    batch = dim("batch")
    for text, size in {
        "s77": batch,
        "2*s77 + 3": batch * 2 + 3,
        "Mul(Integer(196), Symbol('s77', positive=True, integer=True))": batch * 196,
        "Add(Mul(Integer(-1), Integer(2)), Integer(5))": poly(3),
        "FloorDiv(6*s77, 2)": batch * 3,
        "(8*s77)//4": batch * 2,
        "Pow(Symbol('s77'), Integer(2))": batch * batch,
    }.items():
        assert expression(text, symbols) == size, text
    for text in ("", "s1", "1.5", "True + x", "s77 / 2", "(s77 + 1)//2", "[1]", "f(1)", "Max(s77, 1)", "'a'", "10**99"):
        with pytest.raises((SizeError, ValueError)):
            expression(text, symbols)
    assert stride("Max(1, Mul(Integer(3), s77))", symbols) == 21


@pytest.mark.parametrize("base", ["2", "(s77 + 1)"])
def test_a_tower_of_powers_is_refused_at_once(base: str) -> None:
    for _ in range(12):
        base = f"({base})**8"
    start = time.perf_counter()
    with pytest.raises(SizeError, match="too large"):
        expression(base, {"s77": dim("batch")})
    assert time.perf_counter() - start < 1.0


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
