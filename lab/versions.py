"""`make test-versions`: the headless contract and the screen on the lowest and the newest versions we allow.

For each Python named (those of 3.11, 3.12, 3.13 that are here) a fresh environment with the lowest version that
pyproject.toml allows of each dependency, and one with the newest; test tools are as locked in both. In an
environment: the documents, errors and exports of the verbs, workers of a sweep, and the program opened in a terminal.
torch is left out: what is shipped needs none (`--torch` adds it, and the captures; 3 GB each).
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from shutil import rmtree, which
from time import monotonic

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
TOOLS = ("pytest", "pytest-asyncio", "pytest-xdist", "hypothesis")
TESTS = (
    "tests/packaging/test_it_opens.py",
    "tests/headless/test_documents.py",
    "tests/headless/test_headless_wrong.py",
    "tests/headless/test_headless_export.py",
    "tests/analysis_decisions/test_sweep.py",
    "tests/tui/test_real.py",
)
TORCH_TESTS = ("tests/capture/test_capture_zoo.py", "tests/capture/test_capture_user.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.versions", description=__doc__)
    parser.add_argument("--python", action="append", metavar="3.N", help="one of them, again for more (default all)")
    parser.add_argument("--only", choices=RESOLUTIONS, help="only the lowest or the newest versions")
    parser.add_argument("--torch", action="store_true", help="with torch and torchvision")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions", help="where environments are made")
    parser.add_argument("--jobs", default="2", help="tests at once (default 2)")
    arguments = parser.parse_args()
    results = []
    for python in arguments.python or PYTHONS:
        if not runs(python):
            results.append(f"{python}: not on this machine")
            continue
        for name in [arguments.only] if arguments.only else RESOLUTIONS:
            start = monotonic()
            folder = arguments.folder / f"{python}-{name}{'-torch' if arguments.torch else ''}"
            versions = make(folder, python, name, arguments.torch)
            code = run_tests(folder, arguments.torch, arguments.jobs)
            said = "passed" if code == 0 else "FAILED"
            results.append(f"{python} {name}: {said} in {monotonic() - start:.0f} s with {versions}")
            print(results[-1], flush=True)
    print("\n".join(["", *results]))
    return 1 if any("FAILED" in line for line in results) else 0


def runs(python: str) -> bool:
    command = which(f"python{python}")  # there may be a name without a Python behind it, as pyenv makes them
    return command is not None and subprocess.run([command, "-c", ""], capture_output=True).returncode == 0


def make(folder: Path, python: str, name: str, with_torch: bool) -> str:
    """The environment, made anew; the versions of what the product itself needs."""
    rmtree(folder, ignore_errors=True)
    uv("venv", "--python", f"python{python}", str(folder))
    wanted = folder / "requirements.txt"
    resolve = ("pip", "compile", "--python", str(folder / "bin" / "python"), "--no-header", "--no-annotate")
    extras = ("--extra=torch",) if with_torch else ()
    uv(*resolve, "--resolution", RESOLUTIONS[name], *extras, "-o", str(wanted), "pyproject.toml")
    uv("pip", "install", "--python", str(folder / "bin" / "python"), "-r", str(wanted), *tools())
    uv("pip", "install", "--python", str(folder / "bin" / "python"), "--no-deps", "-e", ".")
    ours = ("msgspec", "networkx", "numpy", "platformdirs", "rich", "textual", "torch")
    lines = wanted.read_text().splitlines()
    return ", ".join(line.replace("==", " ") for line in lines if line.partition("==")[0] in ours)


def tools() -> list[str]:
    """As in the lock: what a new pytest makes of our tests is not the question here."""
    lines = (ROOT / "locks" / "test.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.partition("==")[0] in TOOLS]


def uv(*words: str) -> None:
    program = Path(sys.executable).with_name("uv")
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    subprocess.run([program, *words, "--quiet"], cwd=ROOT, check=True, env=environment)


def run_tests(folder: Path, with_torch: bool, jobs: str) -> int:
    python = folder.absolute() / "bin" / "python"
    tests = TESTS + (TORCH_TESTS if with_torch else ())
    words = ["-m", "pytest", "-q", "-n", jobs, "--dist", "loadgroup", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([python, *words], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
