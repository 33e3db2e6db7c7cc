"""What shells are told (completion, help with examples, version)."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hwexplorer as hx
from hwexplorer import cli, registry
from hwexplorer.declare import example_words
from tests.sampling import for_each

COMPLETED = [
    ("com", {"compare"}),
    ("compare resnet10", {"resnet101"}),
    ("compare yolov8", {"yolov8", "yolov8n", "yolov8s", "yolov8m"}),
    ("compare mlp --level s", {"summary", "subgraph"}),
    ("compare mlp --on h100_sxm,tpu_v4", {"h100_sxm,tpu_v4", "h100_sxm,tpu_v4i"}),
    ("tree mlp --lay", {"--layout"}),
    ("resnet18 --them", {"--theme"}),
    ("devices kpu_t25", {"kpu_t256"}),
    ("show mem", {"memory"}),
    ("show events squeezenet1_1 --no", {"--node"}),
    ("compare mlp --on min", {"mine"}),
]


@for_each("name", registry.names())
def test_help_shows_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = example_words(registry.load(name))
    assert examples
    selecting = registry.full_name(name).split()
    for words in examples:
        assert cli.parse([*selecting, *shlex.split(words)]).verb == name
    with pytest.raises(SystemExit):
        cli.parse([*selecting, "--help"])
    told, said = capsys.readouterr()
    assert told.startswith(f"usage: hwexplorer {registry.full_name(name)}")
    assert said == ""
    assert all(f"  hwexplorer {registry.full_name(name)} {words}".rstrip() in told for words in examples)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--completion", shell]) == 0
    told = capsys.readouterr().out
    assert "hwexplorer" in told
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=told, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


@for_each(("typed", "expected"), COMPLETED)
def test_words_complete(typed: str, expected: set[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("completion")
    own = folder / "hwexplorer" / "devices"
    own.mkdir(parents=True)
    sheet = (Path.cwd() / "hardware/catalog/l4.toml").read_text(encoding="utf-8")
    (own / "mine.toml").write_text(sheet.replace('id = "l4"', 'id = "mine"'))
    line = f"hwexplorer {typed}"
    environment = {
        **os.environ, "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_COMP_WORDBREAKS": " ",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(folder / "out"),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1", "PYTHONPATH": str(Path.cwd()), "XDG_DATA_HOME": str(folder),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "hwexplorer"], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert set((folder / "out").read_text().split("\n")) == expected


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hwexplorer {hx.__version__}\n"
