"""Exported programs: the same workload as a capture; loading one runs code, so it is asked for by name."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import torch
from capture_toys import lowered
from torch import nn

from analysis.capture.torch_settings import export_settings, import_torchvision
from analysis.model import store
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import CaptureError
from hardware.base.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import parse

pytestmark = pytest.mark.usefixtures("quick_captures")


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
    assert differences(store.load(str(tmp_path / "m.pt2")), lowered(Mixed().eval(), tokens)) == []


def test_a_program_of_fixed_size_says_so(tmp_path: Path) -> None:
    save(nn.Linear(4, 4), tmp_path / "m.pt2", torch.zeros(3, 4), live=False)
    (note,) = store.load(str(tmp_path / "m.pt2")).notes
    assert note.startswith("captured at batch 3 alone: the model fixes it")


def test_damaged_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(CaptureError, match=r"no program that torch\.export\.save wrote, or is damaged"):
        store.load(str(tmp_path / "text.pt2"))
    (tmp_path / "bad.pt2").write_bytes(b"PK\x03\x04")
    with pytest.raises(CaptureError, match=r"cannot capture bad\.pt2: building it") as caught:
        store.load(str(tmp_path / "bad.pt2"))
    assert "\n" not in str(caught.value)


def test_state_string_does_not_load_a_program(resnet: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torch unpickles sample inputs: only a person who names the file may ask for that."""
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path))
    with pytest.raises(RequestError, match="not captured yet, and a state string runs no code"):
        engine.capture(parse(f"{quote(str(resnet), safe='')}@b2"))
