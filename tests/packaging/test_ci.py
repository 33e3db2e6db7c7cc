"""The GitHub Action and the pre-commit hooks: their scripts run as they stand, and end as rules say."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hwexplorer.cli import main

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = folder / "bin" / "hwexplorer"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m hwexplorer "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    known = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "HWEXPLORER_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(words, cwd=folder, env=known | environment, capture_output=True, text=True, timeout=300)


def act(folder: Path, **inputs: str) -> tuple[int, str]:
    """The exit code of the action's script and the summary that it leaves."""
    step = next(step for step in ACTION["runs"]["steps"] if step["id"] == "run")
    defaults = {name: str(known.get("default", "")) for name, known in ACTION["inputs"].items()}
    names = {name: text[len("${{ inputs.") : -len(" }}")] for name, text in step["env"].items()}
    assert set(names.values()) <= set(ACTION["inputs"])
    environment = {name: (defaults | inputs)[key] for name, key in names.items()}
    summary, output = folder / "summary", folder / "output"
    for left in (summary, output):
        left.unlink(missing_ok=True)
    done = run(["bash", "-euo", "pipefail", "-c", step["run"]], folder, **environment,
               GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(output))  # fmt: skip
    if done.returncode not in (0, 1):
        return done.returncode, done.stderr
    assert Path(output.read_text().strip().removeprefix("summary=")).read_text() == summary.read_text()
    return done.returncode, summary.read_text()


def test_the_action_checks_rules(tmp_path: Path) -> None:
    code, summary = act(tmp_path, model="mlp", options="--on t4 --batch 8", rules="energy < 1J\nlatency < 1ns\n")
    assert code == 1
    assert "| PASS | energy &lt; 1J |" in summary
    assert "| FAIL | latency &lt; 1ns |" in summary


def test_the_action_refuses_options_with_half_a_quote(tmp_path: Path) -> None:
    code, said = act(tmp_path, model="mlp", options='--on "t4')
    assert code == 2
    assert said == "hwexplorer: options '--on \"t4' have a quote that does not end\n"


def test_the_action_takes_no_device_for_files(tmp_path: Path) -> None:
    (tmp_path / "t4").touch()
    code, said = act(tmp_path, model="mlp", devices="t?", rules="energy < 1J")
    assert (code, "unknown device 't?'" in said) == (2, True)


def test_the_action_compares_with_the_base(tmp_path: Path) -> None:
    remote, clone = tmp_path / "remote", tmp_path / "clone"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]

    def commit(width: int) -> str:
        # A stored capture stands for a model that takes torch.
        assert main(["capture", f"gemm:{width}x64x64", "-o", str(remote / "net.msgpack.gz")]) == 0
        subprocess.run([*git, "add", "-A"], cwd=remote, check=True)
        subprocess.run([*git, "commit", "-qm", "a"], cwd=remote, check=True)
        return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=remote, text=True).strip()

    subprocess.run([*git, "init", "-q", str(remote)], check=True)
    base = commit(64)
    commit(128)
    subprocess.run([*git, "clone", "-q", str(remote), str(clone)], check=True)
    code, summary = act(clone, model="net.msgpack.gz", options="--on t4", base=base, rules="change(macs) < 1%")
    assert code == 1
    assert "| MACs |" in summary
    assert "| FAIL | change(macs) &lt; 1% |" in summary


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_hooks_run(hook: dict[str, Any], tmp_path: Path) -> None:
    verb = hook["entry"].split()[1]
    models = ["mlp"] if verb == "check" else ["mlp", "mlp"]
    for rule, code in (("energy < 1kJ", 0), ("energy < 1pJ", 1)):
        done = run([*hook["entry"].split(), *models, "--on", "t4", "--rule", rule], tmp_path)
        assert done.returncode == code, done.stderr


def test_the_action_runs_nothing_of_a_hostile_branch(tmp_path: Path) -> None:
    """A folder `pip` in the checkout, options in place of a commit or model, commands in every input."""
    install = next(step for step in ACTION["runs"]["steps"] if step["id"] == "install")
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__main__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    run(["bash", "-c", install["run"]], tmp_path, PACKAGE="--version", RUNNER_TEMP=str(tmp_path.parent))
    step = next(step for step in ACTION["runs"]["steps"] if step["id"] == "run")
    nothing = dict.fromkeys(step["env"], "") | {"MODEL": "mlp", "OPTIONS": "--on t4", "RULES": "energy < 1J"}
    hostile = [
        ({"BASE": f"--upload-pack=touch {tmp_path / 'ran'}"}, 2),
        ({"MODEL": "--help"}, 2),
        ({"OPTIONS": f"--on 't4' \"$(touch {tmp_path / 'ran'})\""}, 2),
        ({"RULES": "  \n\t\nenergy < 1J"}, 0),
    ]
    for inputs, code in hostile:
        done = run(["bash", "-euo", "pipefail", "-c", step["run"]], tmp_path, **nothing | inputs,
                   GITHUB_STEP_SUMMARY=str(tmp_path / "summary"), GITHUB_OUTPUT=str(tmp_path / "output"))  # fmt: skip
        assert done.returncode == code, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_model_that_the_branch_adds_is_held_against_the_rules_alone_on_each_device(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    remote, clone = tmp_path / "remote", tmp_path / "clone"
    for words in (["init", "-q", str(remote)], ["-C", str(remote), "commit", "-q", "--allow-empty", "-m", "a"],
                  ["clone", "-q", str(remote), str(clone)]):  # fmt: skip
        subprocess.run([*git, *words], check=True)
    base = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=clone, text=True).strip()
    assert main(["capture", "mlp", "-o", str(clone / "net.msgpack.gz")]) == 0
    code, summary = act(clone, model="net.msgpack.gz", devices="t4,h100_sxm", base=base,
                        rules="energy < 1J\nchange(energy) < 5%")  # fmt: skip
    assert code == 0
    assert "is new" in summary
    assert summary.count("| PASS | energy &lt; 1J |") == 2
    assert not subprocess.check_output(["git", "worktree", "list"], cwd=clone, text=True).count("/base")
