"""The wheel carries `analysis` and `hardware` inside `hwexplorer`: such names at the top belong to everybody.

In the checkout, and installed from it editable, they stand beside `hwexplorer`. In a wheel each import of them names
them where they are then: `from analysis.estimate import kernels` becomes `from hwexplorer.analysis.estimate import
kernels`. Nothing else changes; lines keep their numbers.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

OUTER = "hwexplorer"
INNER = ("analysis", "hardware")


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts `hardware` and `analysis` inside `hwexplorer` when a wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files of the wheel to a temporary folder, and name it in `build_data`."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory(prefix="hwexplorer-wheel-")
        folder = Path(self._made.name)
        for source, target in files(Path(self.root)):
            made = folder / target
            made.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix in (".py", ".pyi"):
                made.write_bytes(rewrite_imports(source.read_text(encoding="utf-8"), source).encode())
            else:
                made.write_bytes(source.read_bytes())
        build_data["force_include"][str(folder / OUTER)] = OUTER

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            self._made.cleanup()


class CustomMetadataHook(MetadataHookInterface):
    """States the README with absolute links: an index page has no folders beside it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = absolute_links((Path(self.root) / "README.md").read_text(encoding="utf-8"), metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute_links(text: str, source: str) -> str:
    """Return a Markdown text whose relative links lead to the repository `source`, and pictures to their files."""
    raw = source.replace("://github.com/", "://raw.githubusercontent.com/") + "/main/"
    text = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{raw}", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{source}/blob/main/", text)


def files(root: Path) -> Iterator[tuple[Path, Path]]:
    """Every file of the packages, and its path in the wheel. Measured tables stay in the repository: only validation
    reads them."""
    for package in (OUTER, *INNER):
        for path in sorted((root / package).rglob("*")):
            is_table = path.parent.name == "tables" and ".csv" in path.suffixes
            if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".") and not is_table:
                inside = path.relative_to(root)
                yield path, inside if package == OUTER else OUTER / inside


def rewrite_imports(text: str, path: Path) -> str:
    """The source with its absolute names of `analysis` and `hardware` put under `hwexplorer`. Raises ValueError for a
    line where that is not possible."""
    lines = text.encode().splitlines(keepends=True)  # positions of the tree count bytes
    places = sorted(_places(ast.parse(text), path), reverse=True)
    for line, column in places:
        lines[line] = lines[line][:column] + f"{OUTER}.".encode() + lines[line][column:]
    return b"".join(lines).decode()


def _places(tree: ast.AST, path: Path) -> Iterator[tuple[int, int]]:
    """(line from 0, byte) before each name that moves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_inner(node.module):
            yield node.lineno - 1, node.col_offset + len("from ")
        elif isinstance(node, ast.Import):
            for name in node.names:
                if _is_inner(name.name):
                    if name.asname is None:  # it would bind `hwexplorer` instead
                        raise ValueError(f"{path}:{name.lineno}: write `from .. import ..` or `import .. as ..`")
                    yield name.lineno - 1, name.col_offset


def _is_inner(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in INNER
