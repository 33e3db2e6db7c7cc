"""The site is made of what there is: every verb, function and term has its place, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from hwexplorer import api, registry, site, terms

ROOT = Path(__file__).parents[2]


def test_the_site_holds_everything_and_links_lead_somewhere(tmp_path: Path) -> None:
    site.write(ROOT, tmp_path)
    for name in registry.names():
        assert (tmp_path / "verbs" / f"{name}.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
        assert not api.is_function(name) or f"\n## {name}\n" in (tmp_path / "python.md").read_text(encoding="utf-8")
    assert all(term.says in (tmp_path / "terms.md").read_text(encoding="utf-8") for term in terms.terms())
    for page in tmp_path.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)
