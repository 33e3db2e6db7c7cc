"""A package of somebody else's adds a reader, a verb, an architecture and a runtime, and stops nothing if it fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hwexplorer import extend
from tests.plugged import write_metadata

ROOT = Path(__file__).parents[2]
POINTS = {
    "verbs": {"words": "stranger.words:VERB", "broken": "stranger.missing:VERB"},
    "readers": {".layers": "stranger.layers:load"},
    "runtimes": {"quickrun": "stranger:RUNTIMES", "broken_run": "stranger:words"},
    "architectures": {"abacus": "tests.architectures.abacus:ARCHITECTURE", "broken_arch": "stranger:RUNTIMES"},
}
BROKEN = "hwexplorer: the plug-in 'broken' (stranger.missing:VERB) cannot be used: ModuleNotFoundError: "


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages, as pip leaves them, and a file for the reader."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(__file__).with_name("stranger"), folder / "stranger")
    write_metadata(folder, **POINTS)
    (folder / "net.layers").write_text("64 128")
    return folder


def run(site: Path, *words: str, code: int = 0) -> tuple[str, str]:
    known = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "HWEXPLORER_CACHE_DIR": str(site / "cache")}
    command = [sys.executable, "-P", "-m", "hwexplorer", *words]
    done = subprocess.run(command, cwd=site, env=known, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def test_a_verb_is_listed_and_run(site: Path) -> None:
    assert "words        what the operators are called" in run(site, "--help")[0]
    assert "letters" in run(site, "words", "mlp")[0]


def test_a_reader_opens_files_in_the_limited_subprocess(site: Path) -> None:
    document = json.loads(run(site, "capture", "net.layers", "--format", "json")[0])
    assert document["parameters"] == 64 * 128
    (site / "bad.layers").write_text("64 x")
    said = run(site, "compare", "bad.layers", code=2)[1]
    assert said == "hwexplorer: bad.layers: invalid literal for int() with base 10: 'x'\n"


def test_an_architecture_brings_its_devices_and_a_runtime_runs_on_those_of_its_base(site: Path) -> None:
    words = ("compare", "net.layers", "--on", "abacus,h100_sxm", "--runtime", "quickrun", "--format", "json")
    rows = {row["device"]: row["runtime"] for row in json.loads(run(site, *words)[0])["rows"]}
    assert rows.keys() == {"abacus_one", "h100_sxm"}
    assert rows["h100_sxm"] == "Quickrun 1.0"
    said = run(site, "compare", "mlp", "--runtime", "quickrum", code=2)[1]
    assert "did you mean quickrun" in said


def test_a_plug_in_that_fails_is_named_in_one_line_and_stops_nothing(site: Path) -> None:
    assert run(site, "broken", code=2)[1].startswith(BROKEN)
    printed, said = run(site, "report", "mlp", "--on", "t4", "--format", "json")
    assert json.loads(printed)
    assert sorted(line.split("'")[1] for line in said.splitlines()) == ["broken", "broken_arch", "broken_run"]
    printed, said = run(site, "devices", "--format", "json")
    assert "abacus_one" in printed
    assert said.startswith("hwexplorer: the plug-in 'broken_arch' (stranger:RUNTIMES) cannot be used: TypeError: ")
    assert said.count("\n") == 1


def test_the_face_has_at_most_sixty_names() -> None:
    assert len(extend.__all__) <= 60
    assert all(hasattr(extend, name) for name in extend.__all__)
