"""Shipped captures, cache and capture subprocess: what happens when all is well, and when it is not."""

import os
import threading
import time
from concurrent.futures import wait
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.ir.workload import encode
from analysis.model.model_errors import CaptureCancelledError, CaptureError
from analysis.model.names.model_ref import refer
from analysis.model.process import child_job as job_module
from analysis.model.reading_budget import ProcessLimits
from tests import mischief
from tests.sampling import first
from tests.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(folder))
    return folder


def no_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise AssertionError("a capture was started")

    monkeypatch.setattr(job_module.ModelCapture, "start", refuse)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_another_size_is_captured_with_progress_then_cached(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__init__.py").write_text("raise SystemExit('the working folder is imported')")
    monkeypatch.chdir(tmp_path)
    phases: list[tuple[str, float]] = []
    assert not store.is_ready("resnet18", 96)
    workload = store.load("resnet18", 96, progress=lambda phase, fraction: phases.append((phase, fraction)))
    assert workload.image_size == 96
    assert workload.inputs[0].shape == ("batch", 3, 96, 96)
    assert {"import", "build", "export"} <= {phase for phase, _ in phases}
    assert [fraction for _, fraction in phases] == sorted(fraction for _, fraction in phases)
    assert len(list(cache.iterdir())) == 1
    assert store.is_ready("resnet18", 96)
    no_capture(monkeypatch)
    assert encode(store.load("resnet18", 96)) == encode(workload)


AFRESH = [
    "resnet18", "shufflenet_v2_x0_5", "vit_b_32", "swin_t", "mobilenet_v3_small", "fcn_resnet50",
    "ssdlite320_mobilenet_v3_large", "r3d_18", "raft_small", "fasterrcnn_mobilenet_v3_large_320_fpn",
]  # fmt: skip


@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize("name", first(AFRESH, 3))
def test_captured_afresh_equals_shipped(name: str) -> None:
    job = store.capture_job(name)
    job.start()
    fresh, shipped = job.result(timeout=300), store.load(name)
    assert fresh.operators.path == shipped.operators.path
    assert encode(fresh) == encode(shipped)


def test_quantised_and_float_share_a_cached_capture_not_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(refer("quantized_resnet18", 96), store.load("quantized_resnet18"))
    no_capture(monkeypatch)
    assert store.load("resnet18", 96).name == "resnet18"
    assert store.load("quantized_resnet18", 96).family == "quantized"


def damaged(data: bytes) -> list[bytes]:
    return [b"", b"\x00" * 100, data[: len(data) // 2], data[:-1] + b"\xff", store.gzip.compress(b"other")]


@pytest.mark.usefixtures("quick_captures")
def test_a_corrupt_cache_file_is_ignored_and_rebuilt(cache: Path) -> None:
    spec = refer("alexnet", 64)
    good = store.load(spec)
    (path,) = cache.iterdir()
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        assert not store.is_ready(spec)
        assert store.ready(spec) is None
    path.write_bytes(b"broken")
    assert encode(store.load(spec)) == encode(good)
    assert store.is_ready(spec)


def test_a_damaged_shipped_file_is_recaptured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SHIPPED", tmp_path)
    (tmp_path / "alexnet.msgpack.xz").write_bytes(b"broken")
    assert store.ready("alexnet") is None


def test_the_cache_key_knows_versions_rules_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {store.cache_path(refer("resnet18", size)) for size in (96, 97)}
    monkeypatch.setattr(store, "RULES", store.RULES + 1)
    paths.add(store.cache_path(refer("resnet18", 96)))
    monkeypatch.setattr(store, "version", lambda package: "0.0")
    paths.add(store.cache_path(refer("resnet18", 96)))
    assert len(paths) == 4


def test_cancel_kills_the_subprocess_at_once(cache: Path) -> None:
    job = store.capture_job("regnet_y_16gf", 320)
    job.start()
    while job.progress[0] == "start" and not job.is_done:
        time.sleep(0.01)
    assert job.process is not None
    group = job.process.pid
    assert alive(group)
    job.cancel()
    wait([job._future], LIMIT_S)
    with pytest.raises(CaptureCancelledError, match="cancelled"):
        job.result()
    assert not alive(group)
    assert not cache.exists() or not list(cache.iterdir())
    job.cancel()  # a second time changes nothing


def test_cancel_before_start_never_starts() -> None:
    job = store.capture_job("resnet18", 64)
    job.cancel()
    job.start()
    assert job.is_done
    assert job.process is None
    with pytest.raises(CaptureCancelledError):
        job.result()


def test_a_capture_can_be_cancelled_from_another_thread() -> None:
    job = store.capture_job("resnet152", 320)
    threading.Timer(0.3, job.cancel).start()
    with pytest.raises(CaptureCancelledError):
        job.run()


def test_a_capture_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(CaptureError, match="longer than"):
        store.load("resnet18", 64, limits=ProcessLimits(seconds=0.2))


def fake_child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(job_module.ModelCapture, "command", mischief.command(code))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit(7)", "code 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9.*memory"),
        ("send(phase='build')", "ended with code 0"),
        ("send(answer=b'short' * 9)", "unreadable"),
        ("send(error='ValueError: no such thing')", "no such thing"),
    ],
)
def test_a_child_that_misbehaves_gives_one_line(monkeypatch: pytest.MonkeyPatch, code: str, message: str) -> None:
    fake_child(monkeypatch, code)
    with pytest.raises(CaptureError, match=message) as caught:
        store.load("resnet18", 64)
    assert "\n" not in str(caught.value)


def test_without_torch_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CaptureError, match=r"needs torch: pip install torch torchvision$"):
        store.load("resnet18", 64)


@pytest.mark.usefixtures("quick_captures")
def test_a_family_whose_constructor_fixes_its_image_size_takes_another(cache: Path) -> None:
    assert store.load("mvit_v1_b", 96).inputs[0].shape == ("batch", 3, 16, 96, 96)
