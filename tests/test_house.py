"""The rules of the house that no tool of others checks: lines of each room, imports in a circle, names and docstrings.

`house.toml` states them. `python -m tests.test_house` prints where each count stands; lower a ceiling when it falls.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import grimp
import networkx
import pytest

ROOT = Path(__file__).parents[1]
RULES: dict[str, Any] = tomllib.loads((ROOT / "house.toml").read_text(encoding="utf-8"))
PACKAGES = ("hardware", "analysis", "hwexplorer", "hwexplorer_annexes")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return path -> text of every product file."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = listed.stdout.split() or [
        str(p.relative_to(ROOT)) for name in PACKAGES for p in ROOT.glob(f"{name}/**/*.py")
    ]
    product = [name for name in names if not name.startswith(("tests/", "examples/"))]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in sorted(product) if (ROOT / name).is_file()}


def room(path: str) -> str:
    """Return the longest room of house.toml that a file is in, or '' if it is in none."""
    return max((name for name in RULES["rooms"] if path.startswith(f"{name}/")), key=len, default="")


@lru_cache(maxsize=1)
def definitions() -> list[tuple[str, ast.ClassDef | Function]]:
    """Return path and syntax tree of every function and class."""
    trees = [(path, ast.parse(text)) for path, text in sources().items()]
    return [
        (path, node) for path, tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef | Function)
    ]


def rooms_over_budget() -> list[str]:
    """Return the rooms with more lines than house.toml allows."""
    lines: Counter[str] = Counter()
    for path, text in sources().items():
        lines[room(path)] += len(text.splitlines())
    return [
        f"{name or 'top level'}: {count}"
        for name, count in sorted(lines.items())
        if count > RULES["rooms"].get(name, 250)
    ]


def circles() -> list[str]:
    """Return the groups of modules that import each other, type-checking imports counted."""
    found = []
    for package in PACKAGES:
        modules = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
        graph = networkx.DiGraph(
            (name, other) for name in modules.modules for other in modules.find_modules_directly_imported_by(name)
        )
        rings = networkx.strongly_connected_components(graph)
        found += [", ".join(sorted(ring)) for ring in rings if len(ring) > 1]
    return found


def docstrings_without_verb() -> list[str]:
    """Return the docstrings that open with a word that neither a verb nor a subject can follow."""
    opening = re.compile(rf"({'|'.join(RULES['words']['openings'])})\b")
    return [
        f"{path}:{node.lineno} {node.name}"
        for path, node in definitions()
        if opening.match(ast.get_docstring(node) or "")
    ]


def banned_names() -> list[str]:
    """Return the functions, classes and modules whose whole name is a word of the ban list."""
    banned = set(RULES["words"]["names"])
    functions = [f"{path}:{node.lineno} {node.name}" for path, node in definitions() if node.name.strip("_") in banned]
    return functions + [path for path in sources() if Path(path).stem.strip("_") in banned]


def local_names() -> list[str]:
    """Return the assignments to variables whose whole name is a word of the ban list."""
    banned = set(RULES["words"]["names"])
    names = [
        (path, node)
        for path, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return [f"{path}:{node.lineno} {node.id}" for path, node in names if node.id.strip("_") in banned]


def undocumented() -> list[str]:
    """Return the public functions and classes without a docstring, but methods whose base class documents them."""
    found = definitions()
    classes = {node.name: node for _, node in found if isinstance(node, ast.ClassDef)}

    def documented_by_bases(kind: ast.ClassDef) -> set[str]:
        bases = [classes[base.id] for base in kind.bases if isinstance(base, ast.Name) and base.id in classes]
        methods = (each for base in bases for each in base.body if isinstance(each, Function))
        return {each.name for each in methods if ast.get_docstring(each)}.union(*map(documented_by_bases, bases))

    inherited = set[ast.AST]()
    for kind in classes.values():
        known = documented_by_bases(kind)
        inherited |= {each for each in kind.body if isinstance(each, Function) and each.name in known}
    return [
        f"{path}:{node.lineno} {node.name}"
        for path, node in found
        if not (node.name.startswith("_") or ast.get_docstring(node) or node in inherited)
    ]


def shared_class_names() -> list[str]:
    """Return the names of public classes that are defined more than once."""
    places = defaultdict(list)
    for path, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places[node.name].append(path)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def shared_file_names() -> list[str]:
    """Return the names of files that stand in several rooms."""
    names = Counter(Path(path).name for path in sources() if Path(path).name != "__init__.py")
    return [f"{name} x{count}" for name, count in sorted(names.items()) if count > 1]


CHECKS = (
    docstrings_without_verb, banned_names, local_names, undocumented, shared_class_names, shared_file_names, circles,
)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_count_stays_below_its_ceiling(check: Any) -> None:
    found = check()
    assert len(found) <= RULES["ceilings"][check.__name__], "\n".join(found)


def test_tables_keep_their_budget_of_lines() -> None:
    """Facts of devices grow with the catalogue; rules and constants should not."""
    paths = [p for room in ("hardware", "analysis", "hwexplorer") for p in (ROOT / room).rglob("*.toml")]
    lines = [len(p.read_text(encoding="utf-8").splitlines()) for p in paths if p.parent.name != "catalog"]
    assert sum(lines) <= RULES["tables"]["lines"]


def test_tests_keep_their_budget_of_lines() -> None:
    lines = [len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "tests").rglob("*.py")]
    assert sum(lines) <= RULES["tests"]["lines"]


def test_subjects_of_commits_name_the_change() -> None:
    """At most 72 characters, and a verb first, in the last commits. Where there is no history, nothing is checked."""
    form = ["git", "log", f"-{RULES['commits']['count']}", "--no-merges", "--format=%s"]
    subjects = subprocess.run(form, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    verbs = set(RULES["commits"]["verbs"])
    assert [line for line in subjects if len(line) > 72 or line.split(" ", 1)[0] not in verbs] == []


def test_rooms_keep_their_budget_of_lines() -> None:
    assert not rooms_over_budget()


def test_every_room_exists() -> None:
    assert [name for name in RULES["rooms"] if not (ROOT / name).is_dir()] == []


if __name__ == "__main__":
    for each in (rooms_over_budget, *CHECKS):
        places = each()
        print(f"{len(places)} {each.__name__.replace('_', ' ')}", *places, sep="\n  ")
