"""Stored captures that are not what was stored: each counts as absent, none gives a figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.workload import job as job_module
from analysis.workload import store, valid
from analysis.workload.errors import CaptureError, ModelSpecError
from analysis.workload.workload import encode
from tests.capture import altered

MODELS = ("resnet18", "mlp", "mixtral_8x7b:decode,kv=64", "llama3_8b:request")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def whole() -> bytes:
    found = store.ready("resnet18")
    assert found is not None
    return store.pack(found)


@pytest.mark.parametrize("name", MODELS)
def test_what_we_make_passes(name: str) -> None:
    found = store.ready(name)
    assert found is not None
    assert encode(valid.decode(encode(found))) == encode(found)


@pytest.mark.parametrize("what", altered.BY_HAND)
def test_an_altered_one_is_refused_in_a_few_words(whole: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=r"^[a-z_][^\n]{5,80}$"):
        store.unpack(altered.altered(whole, altered.BY_HAND[what]))


def test_an_altered_one_counts_as_absent(whole: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SHIPPED", cache / "nothing")
    workload = store.unpack(whole)
    assert store.keep("resnet18", None, workload)
    assert store.is_ready("resnet18")
    (path,) = cache.iterdir()
    path.write_bytes(altered.altered(whole, altered.BY_HAND["macs not a number"]))
    assert not store.is_ready("resnet18")
    assert store.ready("resnet18") is None
    own = cache / "own.msgpack.gz"
    own.write_bytes(path.read_bytes())
    with pytest.raises(ModelSpecError, match="no captured model"):
        store.ready(str(own))


def test_the_capture_of_another_model_counts_as_absent(
    whole: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_SHIPPED", cache / "nothing")
    store.keep("resnet50", None, store.unpack(whole))
    assert not store.is_ready("resnet50")
    store.keep("quantized_resnet18", None, store.unpack(whole))
    assert store.is_ready("resnet18")


def test_a_subprocess_that_gives_nonsense_says_what(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = altered.gzip.decompress(altered.altered(whole, altered.BY_HAND["macs negative"]))
    code = f"import sys; sys.stdout.buffer.write(b'{{\"bytes\": {len(data)}}}\\n' + {data!r})"
    monkeypatch.setattr(job_module.CaptureJob, "_command", lambda self: [job_module.sys.executable, "-c", code])
    with pytest.raises(CaptureError, match=r"^capture of resnet18 gave an amount that cannot be$"):
        store.load("resnet18", 64)
