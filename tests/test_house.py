"""The rules of the house that no tool of others checks: lines of each room, imports in a circle, names and docstrings.

`house.toml` states them. `python -m tests.test_house` prints where each count stands; lower a ceiling when it falls.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import grimp
import networkx
import pytest

ROOT = Path(__file__).parents[1]
RULES: dict[str, Any] = tomllib.loads((ROOT / "house.toml").read_text(encoding="utf-8"))
PACKAGES = ("hardware", "analysis", "hwexplorer", "hwexplorer_annexes")
RECORDED = {".json", ".csv", ".txt", ".md", ".html", ".svg", ".raw"}
# A docstring that opens with one of these words nearly always lacks a subject and a verb.
VERBLESS = re.compile(r"(What|Of|Those|By|As|Its|Whether|How|Where|That)\b")
# The first word of a commit's subject: capitalised, and neither a past form nor a participle.
SUBJECT = re.compile(r"(?!\w*([^e]ed|ing) )[A-Z][a-z]+ .{1,70}")
Function = ast.FunctionDef | ast.AsyncFunctionDef
# One process parses all files once.
pytestmark = pytest.mark.xdist_group("house")


def lines(paths: Iterable[Path]) -> int:
    """Return how many lines the files have together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths if path.is_file())


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return path -> text of every product file."""
    paths = [path for name in PACKAGES for path in sorted(ROOT.glob(f"{name}/**/*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@lru_cache(maxsize=1)
def trees() -> dict[str, ast.Module]:
    """Return path -> syntax tree of every product file."""
    return {path: ast.parse(text) for path, text in sources().items()}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements inside one, at any depth."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


@lru_cache(maxsize=1)
def definitions() -> list[tuple[str, ast.ClassDef | Function]]:
    """Return path and syntax tree of every function and class."""
    nodes = [(path, node) for path, tree in trees().items() for node in statements(tree)]
    return [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef | Function)]


def line_counts() -> dict[str, int]:
    """Return the lines of each part that the table `lines` of house.toml limits."""
    tables = [p for name in PACKAGES for p in (ROOT / name).rglob("*.toml") if p.parent.name != "catalog"]
    return {
        "product": sum(len(text.splitlines()) for text in sources().values()),
        "tests": lines((ROOT / "tests").rglob("*.py")),
        "file": max(len(text.splitlines()) for text in sources().values()),
        "tables": lines(tables),
        "recorded": lines(p for p in (ROOT / "tests").rglob("*") if p.suffix in RECORDED),
    }


def room_lines() -> dict[str, int]:
    """Return the lines of each room of house.toml, with its subfolders."""
    return {room: lines((ROOT / room).rglob("*.py")) for room in RULES["rooms"]}


def own_names() -> dict[str, float]:
    """Return package -> names that its files import from the packages, for each 100 lines."""
    taken: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for path, tree in trees().items():
        package = path.partition("/")[0]
        size[package] += len(sources()[path].splitlines())
        imports = [node for node in statements(tree) if isinstance(node, ast.ImportFrom)]
        taken[package] += sum(len(node.names) for node in imports if (node.module or "").split(".")[0] in PACKAGES)
    return {package: 100 * taken[package] / size[package] for package in size}


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
    return [
        f"{path}:{node.lineno} {node.name}"
        for path, node in definitions()
        if VERBLESS.match(ast.get_docstring(node) or "")
    ]


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


CHECKS = (circles, docstrings_without_verb, undocumented, shared_class_names, shared_file_names)
COUNTS = {"lines": line_counts, "rooms": room_lines, "own_names": own_names}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_count_stays_below_its_ceiling(check: Any) -> None:
    found = check()
    assert len(found) <= RULES["ceilings"][check.__name__], "\n".join(found)


@pytest.mark.parametrize("table", COUNTS)
def test_sizes_stay_within_their_budgets(table: str) -> None:
    counts = COUNTS[table]()
    assert {name: counts[name] for name, limit in RULES[table].items() if counts[name] > limit} == {}


def test_every_room_exists() -> None:
    assert [name for name in RULES["rooms"] if not (ROOT / name).is_dir()] == []


def test_subjects_of_commits_name_the_change() -> None:
    """At most 72 characters, and a verb first, in the last ten commits. Without a history nothing is checked."""
    form = ["git", "log", "-10", "--no-merges", "--format=%s"]
    subjects = subprocess.run(form, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    assert [line for line in subjects if len(line) > 72 or not SUBJECT.fullmatch(line)] == []


if __name__ == "__main__":
    for table, count in COUNTS.items():
        limits = RULES[table]
        print(table, *(f"{name} {n:,.4g} of {limits.get(name, '-')}" for name, n in count().items()), sep="\n  ")
    for each in CHECKS:
        places = each()
        print(f"{len(places)} {each.__name__.replace('_', ' ')}", *places, sep="\n  ")
