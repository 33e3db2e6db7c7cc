"""The verbs with their sections, and which section words mean."""

import shlex

import pytest

from hwexplorer import cli, registry
from hwexplorer.declare import example_words
from tests.sampling import for_each

SECTIONS = [(verb, name) for verb in registry.verbs() for name in registry.sections(verb) if name != verb]


@for_each(("verb", "section"), SECTIONS)
def test_a_section_follows_its_verb(verb: str, section: str) -> None:
    assert registry.full_name(section) == f"{verb} {section}"
    for words in map(shlex.split, example_words(registry.load(section))):
        assert cli.parse([verb, section, *words]).verb == section
    assert not registry.is_verb(section) or section in registry.verbs()


def test_at_most_thirty_names_are_accepted() -> None:
    assert len({*registry.names(), *registry.verbs()}) <= 30


@for_each(
    ("words", "meant"),
    [
        ("why conv2d --batch 8 l4 t4", "why conv2d --batch 8 l4 t4"),
        ("devices", "devices"),
        ("devices --format csv", "devices --format csv"),
        ("devices --devices-dir mine", "devices --devices-dir mine"),
        ("tune l4 conv2d --knob units", "tune conv2d --on l4 --knob units"),
        ("tune conv2d --on l4", "tune conv2d --on l4"),
        ("tune l4 conv2d --grid units=1..4 --top 3", "design --base l4 --workload conv2d --knobs units=1..4 --top 3"),
        ("show kernels conv2d", "kernels conv2d"),
        ("advise conv2d", "advise conv2d"),
    ],
)
def test_words_mean_a_section(words: str, meant: str) -> None:
    assert registry.resolve(words.split()) == meant.split()


def test_help_lists_verbs_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    named = [line.split()[0] for line in lines if line.startswith("  ") and line[2] not in " -"]
    assert sorted(named) == sorted(registry.verbs())
    assert named[:3] == ["compare", "tree", "why"]
    assert [line for line in lines if line.endswith(":") and line[0] != " "][1:] == [
        "used most:", "look:", "decide:", "what if:", "measure:", "files:",
    ]  # fmt: skip
