"""What shells are told (completion, man page, help with examples, version)."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hwexplorer as hx
from hwexplorer import cli, registry
from hwexplorer.commands.completion import SCRIPTS, candidates
from hwexplorer.declare import example_words
from tests.sampling import for_each

LONG_FLAGS = {
    flag
    for name in registry.names()
    for option in registry.load(name).all_options()
    for flag in option.flags
    if flag.startswith("--")
}
COMPLETED = [
    ("com", {"compare", "completion"}),
    ("compare resnet10", {"resnet101"}),
    ("compare yolov8", {"yolov8", "yolov8n", "yolov8s", "yolov8m"}),
    ("compare mlp --level s", {"summary", "subgraph"}),
    ("compare mlp --on h100_sxm,tpu_v4", {"h100_sxm,tpu_v4", "h100_sxm,tpu_v4i"}),
    ("compare mlp --on=", set()),
    ("tree mlp --like", {"--like-for-like"}),
    ("resnet18 --thre", set()),
    ("resnet18 --them", {"--theme"}),
    ("devices kpu_t25", {"kpu_t256"}),
    ("completion z", {"zsh"}),
]


@for_each("name", registry.names())
def test_help_shows_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = example_words(registry.load(name))
    assert examples
    for words in examples:
        assert cli.parse([name, *shlex.split(words)]).verb == name
    with pytest.raises(SystemExit):
        cli.parse([name, "--help"])
    told = capsys.readouterr().out
    assert all(f"  hwexplorer {registry.full_name(name)} {words}".rstrip() in told for words in examples)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_asks_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    told = capsys.readouterr().out
    assert told == SCRIPTS[shell]
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=told, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_verb_and_option_completes() -> None:
    assert {*registry.verbs(), *registry.names()} <= set(candidates([""]))
    for name in registry.names():
        flags = {flag for option in registry.load(name).all_options() for flag in option.long_flags}
        assert flags <= set(candidates([name, "--"]))
    assert candidates(["show", "en"]) == ["energy"]
    assert "--node" in candidates(["show", "events", "conv2d", "--no"])


@for_each(("typed", "expected"), COMPLETED)
def test_words_complete(typed: str, expected: set[str]) -> None:
    assert set(candidates(typed.split(" "))) == expected


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_shell_completes(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(SCRIPTS[shell])
    program = tmp_path / "hwexplorer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hwexplorer "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd())}
    for typed, expected in (COMPLETED[3], COMPLETED[6]):
        words = " ".join(map(shlex.quote, ("hwexplorer", *typed.split(" "))))
        code = {
            "bash": f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _hwexplorer; "
            'printf "%s\\n" "${COMPREPLY[@]-}"',
            "fish": f"complete -C {shlex.quote('hwexplorer ' + typed)}",
        }[shell]
        done = subprocess.run(
            [shell, "-c", f"source ./script; {code}"], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        assert {line.split("\t")[0] for line in done.stdout.splitlines()} == expected


def test_the_man_page_is_one() -> None:
    page = Path("docs/hwexplorer.1").read_text(encoding="utf-8")
    for name in registry.names():
        assert f'.SS "hwexplorer {registry.full_name(name)}"' in page
    assert all(flag.replace("-", "\\-") in page for flag in LONG_FLAGS)
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, timeout=300, check=True
        )
        assert done.stderr == ""
        assert "hwexplorer compare conv2d" in done.stdout


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hwexplorer {hx.__version__}\n"
