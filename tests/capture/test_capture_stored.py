"""Stored captures that are not what was stored: each counts as absent, none gives a figure."""

import json
import os
import py_compile
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.ir.workload import decode, encode
from analysis.model.model_errors import CaptureError, ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.process import child_job as job_module
from hwexplorer import cli, engine
from tests import mischief
from tests.capture import altered
from tests.sampling import for_each

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
    assert encode(decode(encode(found))) == encode(found)


@for_each("what", altered.BY_HAND)
def test_an_altered_one_is_refused_in_a_few_words(whole: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=r"^[a-z_][^\n]{5,80}$"):
        store.unpack(altered.altered(whole, altered.BY_HAND[what]))


def test_an_altered_one_counts_as_absent(whole: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SHIPPED", cache / "nothing")
    workload = store.unpack(whole)
    assert store.keep(refer("resnet18"), workload)
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
    store.keep(refer("resnet50"), store.unpack(whole))
    assert not store.is_ready("resnet50")
    store.keep(refer("quantized_resnet18"), store.unpack(whole))
    assert store.is_ready("resnet18")


def test_a_subprocess_that_gives_nonsense_says_what(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = altered.gzip.decompress(altered.altered(whole, altered.BY_HAND["macs negative"]))
    code = f"send(answer={data!r})"
    monkeypatch.setattr(job_module.ModelCapture, "command", mischief.command(code))
    with pytest.raises(CaptureError, match=r"^capture of resnet18 gave an invalid amount$"):
        store.load("resnet18", 64)


# --- never stale ------------------------------------------------------------------------------------------

LAYERS = "from torch import nn\n\ndef layer():\n    return nn.Linear(4, {})\n"
NET = "import layers\n\ndef make():\n    return layers.layer()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "layers.py").write_text(LAYERS.format(4))
    (folder / "net.py").write_text(NET)
    return folder


@pytest.mark.usefixtures("quick_captures")
@pytest.mark.parametrize("file", ["layers.py", "net.py"])
def test_a_file_that_changes_while_it_is_captured(project: Path, file: str) -> None:
    """It is written to as soon as it is imported: what ran is not what is there afterwards."""
    text = f"{project}/net.py:make(1x4)"
    net = (project / "net.py").read_text()
    changed = (project / file).read_text() + "# changed\n"
    (project / "net.py").write_text(net.replace("\n\n", f"\nopen({str(project / file)!r}, 'w').write({changed!r})\n\n"))
    assert store.load(text).parameters == 20
    assert not store.is_ready(text)


@pytest.mark.usefixtures("quick_captures")
def test_compiled_code_of_an_earlier_file_is_not_what_runs(project: Path) -> None:
    """Python takes compiled code for that of a file of the same size and second."""
    layers = project / "layers.py"
    py_compile.compile(str(layers))
    then = layers.stat()
    layers.write_text(LAYERS.format(8))
    os.utime(layers, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert store.load(f"{project}/net.py:make(1x4)").parameters == 40


@pytest.mark.usefixtures("quick_captures")
def test_a_module_from_anywhere_on_the_path_counts(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "layers.py").rename(elsewhere / "layers.py")
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    text = f"{project}/net.py:make(1x4)"
    assert store.load(text).parameters == 20
    assert store.is_ready(text)
    (elsewhere / "layers.py").write_text(LAYERS.format(8))
    assert not store.is_ready(text)


@pytest.mark.usefixtures("quick_captures")
def test_the_version_of_an_installed_package_counts(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    information = installed / "Toy_Layers-1.0.dist-info"
    information.mkdir(parents=True)
    (project / "layers.py").rename(installed / "layers.py")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: Toy_Layers\nVersion: 1.0\n")
    (information / "RECORD").write_text("layers.py,,\nToy_Layers-1.0.dist-info/METADATA,,\n")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.syspath_prepend(installed)
    text = f"{project}/net.py:make(1x4)"
    workload = store.load(text)
    assert workload.versions["package Toy_Layers"] == "1.0"
    assert not any("site-packages" in key for key in workload.versions)
    assert store.is_ready(text)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: Toy_Layers\nVersion: 1.1\n")
    assert not store.is_ready(text)


@pytest.mark.usefixtures("quick_captures")
def test_again_captures_what_the_code_does_not_tell(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "layers.py").write_text("import os\n" + LAYERS.format('int(os.environ["WIDTH"])'))
    words = ["capture", f"{project}/net.py:make", "--input", "1x4", "--format", "json"]
    seen = []
    for width, again in (("4", []), ("8", []), ("8", ["--again"]), ("8", [])):
        monkeypatch.setenv("WIDTH", width)
        engine.reset()
        assert cli.main([*words, *again]) == 0
        report = json.loads(capsys.readouterr().out)
        seen.append((report["parameters"], report["seconds"] > 0))
    assert seen == [(20, True), (20, False), (40, True), (40, False)]
    assert cli.main(["compare", "llama3_8b:decode", "--again"]) == 0  # written each time
    with pytest.raises(SystemExit, match="0"):
        cli.main(["capture", "--help"])
    assert "changes of data files or of the environment are not noticed" in " ".join(capsys.readouterr().out.split())
