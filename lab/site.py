"""Hooks of mkdocs (mkdocs.yml): the README and the generated lists are pages beside docs/, and links that leave the
pages lead to the repository."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files  # type: ignore[import-not-found,unused-ignore]

from hatch_build import absolute_links

PAGES = {"README.md": "index.md", "VERBS.md": "verbs.md", "KEYS.md": "keys.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand beside docs/."""
    root = Path(config.config_file_path).parent
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(root / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, config: Any, files: Files, **_: Any) -> str:
    """Return a page whose links lead to other pages, else to the repository."""

    def link(match: re.Match[str]) -> str:
        """Return a link of the site."""
        place, mark, anchor = match[2].removeprefix("../").removeprefix("docs/").partition("#")
        page = PAGES.get(place, place)
        return f"{match[1]}{page}{mark}{anchor}" if files.get_file_from_path(page) else f"{match[1]}{match[2]}"

    markdown = re.sub(r"((?<!!)\[[^\]]*\]\()([^)\s]+)", link, markdown)
    outside = re.sub(r"\]\(\.\./", "](", markdown)
    inside = {
        name: f"page:{name}" for name in (*PAGES.values(), *(file.src_uri for file in files.documentation_pages()))
    }
    for name, mark in inside.items():
        outside = outside.replace(f"]({name}", f"]({mark}")
    return absolute_links(outside, config.repo_url).replace("](page:", "](")
