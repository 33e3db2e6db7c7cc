"""The generated pages: the index of verbs (VERBS.md), the terms (docs/terms.md) and the answer in README.md."""

from collections.abc import Iterator
from pathlib import Path

from hwexplorer import api, registry
from hwexplorer.text import terms

HEAD = """# Verbs of the command line

`hwexplorer VERB --help` shows options and examples. Every report prints `--format text|json|csv|md|html`; `--schema`
prints the schema of its JSON, whose fields are named with their SI unit (`latency_s`).

| Verb | Answer |
|---|---|"""


def markdown() -> str:
    """Return VERBS.md: a line for each verb and section."""
    return "\n".join([HEAD, *_index(), ""])


def _index() -> Iterator[str]:
    for verb in registry.verbs():
        helps = registry.helps() | {name: registry.help_of(name) for name in registry.sections(verb) if name != verb}
        for name in (verb, *(name for name in registry.sections(verb) if name != verb)):
            yield f"| `{registry.full_name(name)}` | {_md(sentence(helps[name]))} |"


README = "README.md"
_BEGIN, _END = "<!-- answer: written by python -m lab.reference -->\n", "<!-- end of answer -->\n"
_ANSWER, _ANSWER_BLOCKS, _ANSWER_WIDTH = "compare resnet50 --on h100_sxm,l4,tpu_v4", 5, 110


def readme() -> str:
    """Return README.md with the answer and the table that its example command prints today."""
    before, _, rest = Path(README).read_text(encoding="utf-8").partition(_BEGIN)
    _, model, _, devices = _ANSWER.split()
    printed = api.function("compare")(model, on=devices).to_text(width=_ANSWER_WIDTH)
    answer = "\n\n".join(printed.split("\n\n")[:_ANSWER_BLOCKS])
    return f"{before}{_BEGIN}```\n$ hwexplorer {_ANSWER}\n{answer}\n```\n{_END}{rest.partition(_END)[2]}"


def terms_page() -> str:
    """Return docs/terms.md."""
    lines = ["# Terms\n", "`?` shows them on the screen; `<` and `>` move to a column and explain it."]
    for heading, meanings in terms.groups().items():
        lines += [f"\n## {heading}\n", "| term | meaning |\n|---|---|"]
        lines += [f"| {term} | {_md(says)} |" for term, says in meanings.items()]
    return "\n".join([*lines, ""])


def sentence(line: str) -> str:
    """A help line as a sentence."""
    return f"{line[:1].upper()}{line[1:]}."


def _md(text: str) -> str:
    return text.replace("|", "\\|")
