"""The wheel: what is in it, that it works away from the checkout, and that it leaves other packages alone."""

import ast
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hatch_build import rewrite_imports
from hwexplorer import registry
from hwexplorer.version import VERSION
from tests.sampling import slow
from tests.terminal import Program

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Environment:
    """A virtual environment that sees the libraries of this one, but not this checkout."""

    folder: Path

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def pip(self, *words: str | Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--quiet"]
        run([*pip, *map(str, words)], self.folder)

    def install(self, wheel: Path) -> None:
        self.pip("install", "--no-deps", "--no-index", "--no-compile", wheel)

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """What `python words` prints; CalledProcessError where it does not end with 0."""
        return run([str(self.bin / "python"), "-P", *words], cwd or self.folder)


def run(words: Sequence[str], cwd: Path, home: Path | None = None, code: int = 0) -> str:
    home = home or cwd
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(home), "HWEXPLORER_CACHE_DIR": str(home / "cache"), "LANG": "C.UTF-8"}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def annexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    return build("wheel", ROOT / "hwexplorer_annexes", tmp_path_factory.mktemp("annexes"))


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


def build(target: str, source: Path, folder: Path) -> Path:
    """Without isolation, so without an index."""
    run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)], source)
    return next(folder.iterdir())


@pytest.fixture
def empty(tmp_path: Path) -> Environment:
    return make(tmp_path / "environment")


def make(folder: Path) -> Environment:
    venv.create(folder, with_pip=False)
    environment = Environment(folder)
    (environment.packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


@pytest.fixture(scope="session")
def installed(wheel: Path, annexes: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = make(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    environment.install(annexes)
    return environment


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_everything_is_inside_one_package_and_no_test_is(wheel: Path) -> None:
    files = contents(wheel)
    assert wheel.stat().st_size < 3e6
    outside = [name for name in files if not name.startswith(("hwexplorer/", f"hwexplorer-{VERSION}.dist-info/"))]
    assert not outside
    assert "hwexplorer/py.typed" in files
    assert not [name for name in files if re.search(r"tests?[_/]|pycache|hatch_build", name)]
    for package in ("hwexplorer", "analysis", "hardware"):
        prefix = "" if package == "hwexplorer" else "hwexplorer/"
        listed = subprocess.run(["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True).stdout.split()
        tables = {prefix + name for name in listed if "/measured/" in name and ".csv" in name}
        assert {prefix + name for name in listed} - tables <= files.keys()
        assert not tables & files.keys(), "the repository alone has them"
    for name, data in files.items():
        if name.endswith(".py"):
            tree = ast.parse(data)
            imported = [
                node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
            ]
            imported += [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
            assert not {module.partition(".")[0] for module in imported} & {"analysis", "hardware"}, name


@slow
def test_the_source_distribution_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build("wheel", next(tmp_path.glob("hwexplorer-*/")), tmp_path / "again")
    assert contents(again) == contents(wheel)


@slow
def test_the_source_distribution_installs(empty: Environment, sdist: Path) -> None:
    empty.pip("install", "--no-deps", "--no-index", "--no-compile", "--no-build-isolation", sdist)
    assert "h100_sxm" in empty.run("-m", "hwexplorer", "compare", "mlp", "--format", "json")


def test_verbs_run_and_nothing_of_ours_is_outside(installed: Environment) -> None:
    code = f"""
import sys
from hwexplorer import cli
for verb in {[registry.full_name(name).split() for name in registry.names()]}:
    try:
        cli.main([*verb, "--help"])
    except SystemExit as ended:
        assert not ended.code, verb
assert cli.main(["report", "resnet18", "--on", "t4", "-o", "report.html"]) == 0
ours = [m for m in sys.modules if m.partition(".")[0] in ("analysis", "hardware")]
assert not ours, ours
assert all({str(installed.packages)!r} in m.__file__ for n, m in sys.modules.items() if n.startswith("hwexplorer"))
"""
    assert installed.run("-c", code).count("usage: hwexplorer ") == len(registry.names())
    words = ("compare", "resnet18", "--format", "json")
    there = installed.run("-m", "hwexplorer", *words)
    assert there == run([str(installed.bin / "hwexplorer"), *words], installed.folder)
    assert there == run([sys.executable, "-m", "hwexplorer", *words], ROOT, installed.folder)


def test_the_base_alone_names_the_extra_of_an_annex(empty: Environment, wheel: Path) -> None:
    empty.install(wheel)
    (empty.folder / "net.onnx").touch()
    for words in ("calibrate l4 rows.csv", "tune design", "trace t.json --model mlp", "compare net.onnx"):
        said = run([str(empty.bin / "hwexplorer"), *words.split()], empty.folder, code=2)
        assert re.fullmatch(r"hwexplorer: the (verb|reader) '[.a-z]+' needs an extra: pip install '.*'\n", said)


def test_python_is_there(installed: Environment) -> None:
    code = (
        "import hwexplorer as hx, sys; compared = hx.compare('resnet18', on=['t4', 'tpu_v4'], batch=2)\n"
        "assert type(compared.document).__module__ == 'hwexplorer.analysis.explore.comparison'\n"
        "assert not {'torch', 'textual', 'analysis', 'hardware'} & set(sys.modules)\n"
        "print(compared.rows[1].device, hx.graph('resnet18', on='t4').number_of_nodes())"
    )
    assert installed.run("-c", code).split() == ["tpu_v4", "69"]


def test_it_opens_without_torch(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    environment = {"HOME": str(tmp_path), "HWEXPLORER_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    program = Program([str(installed.bin / "hwexplorer"), "resnet18"], environment=environment, folder=installed.folder)
    try:
        program.until(re.compile(rb"resnet18.*H100", re.DOTALL))
    finally:
        program.end()


NEIGHBOUR = {
    "analysis/__init__.py": "WIDTH = 8\n",
    "analysis/estimate.py": "",
    "hardware/__init__.py": "",
    "neighbour-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: neighbour\nVersion: 1.0\n",
    "neighbour-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


@pytest.fixture
def neighbour(tmp_path: Path) -> Path:
    """A wheel of somebody else's with packages `analysis` and `hardware`."""
    path = tmp_path / "neighbour-1.0-py3-none-any.whl"
    record = "neighbour-1.0.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**NEIGHBOUR, record: "".join(f"{name},,\n" for name in (*NEIGHBOUR, record))}.items():
            archive.writestr(name, text)
    return path


BOTH = """
import analysis, analysis.estimate, hardware, hwexplorer.analysis.estimate.estimate, hwexplorer.hardware.device
assert analysis.WIDTH == 8 and hardware.__file__ and analysis.estimate is not hwexplorer.analysis.estimate
"""


@slow
def test_a_package_of_the_same_names_lives_beside_it(empty: Environment, wheel: Path, neighbour: Path) -> None:
    """Whichever comes or goes first."""
    before = {path.name for path in empty.packages.iterdir()}
    for one in (wheel, neighbour):
        empty.install(one)
    empty.run("-c", BOTH)
    empty.pip("uninstall", "--yes", "hwexplorer")
    empty.run("-c", "import analysis.estimate, hardware; assert analysis.WIDTH == 8")
    empty.install(wheel)
    empty.run("-c", BOTH)
    empty.pip("uninstall", "--yes", "neighbour")
    empty.run("-m", "hwexplorer", "compare", "mlp")
    empty.pip("uninstall", "--yes", "hwexplorer")
    assert {path.name for path in empty.packages.iterdir()} == before


def test_a_project_with_its_own_analysis_is_captured(installed: Environment, neighbour: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    project = tmp_path / "project"
    (project / "analysis").mkdir(parents=True)
    (project / "analysis" / "__init__.py").write_text("WIDTH = 24\n")
    (project / "hardware.py").write_text("DEPTH = 3\n")
    (project / "net.py").write_text(
        "import analysis, hardware\nfrom torch import nn\n"
        "def make(): return nn.Sequential(*(nn.Linear(analysis.WIDTH, 24) for _ in range(hardware.DEPTH)))\n"
    )
    words = ("capture", "net.py:make", "--input", "1x24", "--format", "json")
    document = json.loads(installed.run("-m", "hwexplorer", *words, cwd=project))
    assert document["parameters"] == 3 * (24 * 24 + 24)


@pytest.mark.parametrize("line", ["import analysis", "import os, hardware.device"])
def test_a_line_that_would_mean_something_else_ends_the_build(line: str) -> None:
    with pytest.raises(ValueError, match=r"x\.py:1"):
        rewrite_imports(line, Path("x.py"))
