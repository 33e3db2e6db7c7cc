"""Models of real libraries, with random weights, where they are installed: as their users build them."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.ir.workload import coverage

pytestmark = pytest.mark.usefixtures("quick_captures")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "library", "gigamacs"),
    [
        ("timm:resnet18()", "timm", 1.814),
        ("timm/convnext_tiny.fb_in1k", "timm", 4.456),
        ("ultralytics/yolov8n-cls", "ultralytics", 0.2026),
        ("torchvision.models:resnet18()", "torchvision", 1.814),
    ],
)
def test_a_model_of_a_library_by_its_name(name: str, library: str, gigamacs: float) -> None:
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    found = store.load(name)
    assert found.inputs[0].shape[0] == "batch"
    assert float((found.operators.macs @ found.value_at(batch=1)).sum()) / 1e9 == pytest.approx(gigamacs, rel=0.01)
    assert coverage(found).work == 1.0
