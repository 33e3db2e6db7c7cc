"""The README stays short, and what it tells a reader to type runs as printed."""

import re
import shlex
from pathlib import Path

import pytest

import hwexplorer
from hardware.device_catalog import find_folders
from hwexplorer import engine
from hwexplorer.cli import main, parse
from tests.sampling import first

ROOT = Path(__file__).parents[2]
PAGES = tuple(f"docs/{page}.md" for page in ("what-if", "serving", "lessons", "missions", "accelerators"))
BLOCK = re.compile(r"^```\n(.*?)^```|((?:^    hwexplorer .*\n)+)", re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Return the command lines of a page, without those that an answer follows (they begin with `$`)."""
    blocks = map("".join, BLOCK.findall((ROOT / page).read_text(encoding="utf-8")))
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line.removeprefix("hwexplorer ") for line in lines if line.startswith("hwexplorer ")]


def test_the_readme_has_at_most_600_words() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


QUICK = commands("README.md")
SKILL = re.findall(r"`hwexplorer (?!mcp)(.+?)`", (ROOT / "docs" / "SKILL.md").read_text(encoding="utf-8"))
ALL = [*QUICK, *SKILL, *(words for page in PAGES for words in commands(page))]


@pytest.mark.parametrize("words", first(ALL, len([*QUICK, *SKILL])))
def test_commands_run_as_printed(
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if words.startswith("search") and "--on" not in words:  # over all devices
        request.getfixturevalue("few_devices")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "drone.toml").symlink_to(ROOT / "examples" / "missions" / "drone.toml")
    page = (ROOT / "docs" / "accelerators.md").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    assert main(shlex.split(words)) in (0, None)
    err = capsys.readouterr().err
    assert all(line.endswith(" is written") for line in err.splitlines()), err


def test_commands_within_sentences_have_verbs_and_options_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "use_folders", lambda folders: None)
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    words = [
        each
        for page in pages
        if page.name not in ("CHANGELOG.md", "VERBS.md", "KEYS.md")
        for each in re.findall(r"`hwexplorer ([^`]+)`", page.read_text(encoding="utf-8"))
        if each != "--help"
    ]
    assert len(words) > 10
    for each in words:
        parse(shlex.split(each))


def test_links_lead_to_files() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        missing = [link for link in links if not (page.parent / link).exists()]
        assert not missing, f"{page.name}: {missing}"


def test_the_readme_trusts_no_more_than_the_table_of_errors() -> None:
    page = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    table = page.partition("<!-- classes")[2].partition("<!-- end")[0]
    lines = re.findall(r"^\|.*\|$", table, re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = [row for row in rows if row[1].replace(",", "").isdigit()]
    errors = sorted(int(row[3].removesuffix(" %")) for row in rows)
    good = [error for error in errors if error <= 20]
    count = sum(int(row[1].replace(",", "")) for row in rows)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"On {count // 500 * 500:,} published measurements the median error is {good[0]} to {good[-1]} % in "
        f"{len(good)} of {len(errors)} kinds of work (CNN on a GPU, decoding on a CPU ..) and at most "
        f"{errors[-1]} % in the others."
    ) in text


def test_the_readme_counts_models_and_devices() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    n_models = len(hwexplorer.models().document.models)
    assert f"{n_models} models, {len(find_folders(()))} CPUs, GPUs" in " ".join(text.split())
