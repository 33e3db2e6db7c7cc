"""The sources of the documentation site: `python -m hwexplorer.site FOLDER`, then mkdocs (mkdocs.yml, `make docs`).

The README, CONTRIBUTING and the references are pages as they stand in the checkout; a page for each verb, the terms and
the functions of Python are made of what is declared.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path

from hwexplorer import api, reference, registry, terms

# File of the checkout -> page. Links between them are rewritten.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "KEYS.md": "keys.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "docs/accelerators.md": "accelerators.md",
    "docs/models-tried.md": "models_tried.md",
}
FOLDERS = ("examples", "screenshots")
_VERB_PAGES = "verbs"


def pages(root: Path) -> dict[str, str]:
    """Path of a page -> its Markdown."""
    made = {page: _linked((root / name).read_text(encoding="utf-8")) for name, page in PAGES.items()}
    made |= {f"{_VERB_PAGES}/{name}.md": f"# {reference.section(name)}" for name in registry.names()}
    listed = "\n".join(f"- [{name}]({name}.md): {line}" for name, line in registry.helps().items())
    made[f"{_VERB_PAGES}/index.md"] = f"# Verbs\n\n{listed}\n"
    made["python.md"] = _python()
    pictures = sorted((root / "screenshots").glob("*.svg"))
    made["pictures.md"] = "\n".join(
        ["# Pictures\n", *(f"![{each.stem}](screenshots/{each.name})\n" for each in pictures)]
    )
    made["terms.md"] = _terms()
    return made


def _linked(text: str) -> str:
    for name, page in PAGES.items():
        text = re.sub(rf"\]\({re.escape(name)}([#)])", rf"]({page}\1", text)
    return text.replace("](VERBS.md)", f"]({_VERB_PAGES}/index.md)").replace("](screenshots)", "](pictures.md)")


def _python() -> str:
    lines = [f"# From Python\n\n{inspect.cleandoc(sys.modules['hwexplorer'].__doc__ or '')}\n", "## Result\n"]
    lines.append(inspect.getdoc(api.Result) or "")
    for name, each in inspect.getmembers(api.Result):
        if not name.startswith("_") and each.__doc__:
            lines.append(f"\n- `{name}`: {' '.join(each.__doc__.split())}")
    for name in filter(api.is_function, registry.names()):
        first, _, arguments = (api.function(name).__doc__ or "").partition("\n\n")
        told = [f"- `{argument}`: {says}" for argument, _, says in (a.partition(": ") for a in arguments.splitlines())]
        lines += [f"\n## {name}\n\n{first}\n", *told]
    return "\n".join(lines) + "\n"


def _terms() -> str:
    lines = ["# Terms"]
    for group, those in terms.groups().items():
        lines += [f"\n## {group}\n", *(f"**{term.name}**\n:   {term.says}\n" for term in those)]
    return "\n".join(lines) + "\n"


def write(root: Path, folder: Path) -> None:
    """The sources of the site, in an empty or a missing folder."""
    for path, text in pages(root).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for name in FOLDERS:
        shutil.copytree(root / name, folder / name, dirs_exist_ok=True)


if __name__ == "__main__":
    write(Path.cwd(), Path(sys.argv[1]))
