"""The locks are full, agree with what pyproject.toml asks for, and name no place to get things from."""

import json
import re
import tomllib
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from analysis.model.names.zoo import library_names
from hatch_build import absolute_links
from hwexplorer.version import VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WITHOUT_HASHES = {"torch", "torchvision"}  # see constraints.txt
LOCKS = {"run": ("torch", "onnx"), "test": ("torch", "dev")}


def locked(name: str) -> dict[str, list[tuple[str, int]]]:
    """Version and number of hashes by distribution; several versions where Pythons differ."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", " ")
    found: dict[str, list[tuple[str, int]]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([a-z0-9-]+)==(\S+) (?:; [^#]*?)?((?: *--hash=sha256:[0-9a-f]{64})+)", line)
            assert match, line
            found.setdefault(match[1], []).append((match[2], match[3].count("--hash")))
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_what_the_project_asks_for_is_locked_within_its_bounds(name: str) -> None:
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["build"]]
    lines += [line for extra in LOCKS[name] for line in PROJECT["project"]["optional-dependencies"][extra]]
    held = locked(name)
    for wanted in map(Requirement, lines):
        if wanted.name not in WITHOUT_HASHES:
            versions = [version for version, _ in held[wanted.name]]
            assert all(wanted.specifier.contains(version) for version in versions), (wanted, versions)


def test_every_distribution_has_a_hash_and_both_locks_agree() -> None:
    run, test = locked("run"), locked("test")
    assert run.items() <= test.items()
    assert all(hashes > 0 for versions in test.values() for _, hashes in versions)
    assert not {name for name in test if re.match("torch|nvidia|cuda|triton", name)}


def test_torch_is_pinned_by_its_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {"torch==2.13.0", "torchvision==0.28.0"}


def test_no_file_of_pins_names_a_host() -> None:
    for path in (*(ROOT / "locks").iterdir(), ROOT / "constraints.txt", ROOT / "Makefile", ROOT / "pyproject.toml"):
        assert not re.search(
            r"https?://|--(extra-)?index-url|--find-links", path.read_text().partition("[project.urls]")[0]
        ), path.name


def test_the_next_major_version_is_not_taken_unseen() -> None:
    for wanted in map(Requirement, PROJECT["project"]["dependencies"]):
        assert not wanted.specifier.contains(Version("99")), wanted
        assert not wanted.specifier.contains(Version("0.0.1")), wanted


def test_the_conda_recipe_asks_for_what_the_project_asks_for() -> None:
    recipe = pytest.importorskip("yaml").safe_load((ROOT / "packaging" / "recipe.yaml").read_text())
    run = {Requirement(line.replace(" ", "", 1)) for line in recipe["requirements"]["run"] if "python " not in line}
    annexes = tomllib.loads((ROOT / "hwexplorer_annexes" / "pyproject.toml").read_text())["project"]["dependencies"]
    assert run == {Requirement(line) for line in (*PROJECT["project"]["dependencies"], *annexes[1:])}


def test_the_registry_entry_names_this_version() -> None:
    entry = json.loads((ROOT / "packaging" / "server.json").read_text())
    assert {entry["version"], entry["packages"][0]["version"]} == {VERSION}
    assert f'tag: "v{VERSION}"' in (ROOT / "packaging" / "hwexplorer.rb").read_text()


def test_links_of_the_readme_are_absolute_on_an_index_page() -> None:
    text = absolute_links((ROOT / "README.md").read_text(), "https://github.com/a/b")
    assert "](https://github.com/a/b/blob/main/KEYS.md)" in text
    assert "](https://raw.githubusercontent.com/a/b/main/screenshots/explorer.svg)" in text
    assert not re.search(r"\]\((?!https://|#)", text)


def test_the_page_of_licences_names_every_package_and_library_of_captures() -> None:
    page = (ROOT / "docs" / "licenses.md").read_text()
    needed = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    packages = set[str]()
    while needed:
        name, extras = (package := needed.pop()).name, package.extras or {""}
        packages.add(name)
        others = [each for each in map(Requirement, requires(name) or ()) if each.name not in packages]
        needed += [
            each
            for each in others
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    for name in packages:
        stated = metadata(name)
        classes = [word for word in stated.get_all("Classifier", ()) if word.startswith("License")]
        licence = str(stated.get("License-Expression") or stated.get("License") or classes[0].rpartition(" :: ")[2])
        row = rf"\| {name} \| {re.escape(licence.partition(' AND ')[0].removesuffix(' License'))}"
        assert re.search(row, page, re.IGNORECASE), (name, licence)
    folders = (ROOT / "analysis/model/captures", ROOT / "hwexplorer_captures")
    captures = (path.name.partition("-")[0] for folder in folders for path in folder.glob("*.xz"))
    assert all(f"| {name} |" in page for name in {"torchvision", *captures} & {*library_names(), "torchvision"})
