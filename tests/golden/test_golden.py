"""The text of every verb against files in `files/` and against one screen; its JSON against the verb's schema.

The figures follow the fit: after a deliberate change `make golden` rewrites the files, and the change is read in the
diff. Numbers are compared to four digits, so that another machine's last bits do not matter.
"""

import json
import os
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hwexplorer import registry
from hwexplorer.cli import main

FILES = Path(__file__).with_name("files")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
# Golden file -> words: the examples that the verbs declare.
CASES = {
    name: (*registry.full_name(verb).split(), *shlex.split(words))
    for verb in registry.names()
    for name, words in registry.load(verb).examples.items()
}
# Texts of more than the lines of a screen: their words ask for every level, step or knob.
LONG = {"compare_detailed", "tune", "why_in_turn"}
ENERGY_OF_WHAT = re.compile(r"\b[Ee]nergy [munpkµ]?J\b(?!/)")  # a head must say: per inference, of the batch


@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize("name", CASES)
def test_prints_what_it_printed(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*words: str) -> str:
        code = main([*words])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    text = printed(*CASES[name])
    kept = FILES / f"{name}.txt"
    if os.environ.get("HWEXPLORER_GOLDEN"):
        kept.write_text(text, encoding="utf-8")
    assert _rounded(text) == _rounded(kept.read_text(encoding="utf-8"))
    selecting = registry.full_name(registry.resolve(list(CASES[name]))[0]).split()
    schema = json.loads(printed(*selecting, "--schema"))
    document = json.loads(printed(*CASES[name], "--format", "json"))
    properties = {"properties": schema["properties"], "required": schema["required"]}
    assert faults(document, properties, schema["$defs"]) == []
    assert faults(document, {"anyOf": schema["anyOf"]}, schema["$defs"]) == []
    if {"type": "object"} not in schema["anyOf"]:  # a report of parts is a plain object
        assert faults({"schema": document["schema"]}, {"anyOf": schema["anyOf"]}, schema["$defs"])
    monkeypatch.setenv("HWEXPLORER_WIDTH", "100")
    lines = printed(*CASES[name]).splitlines()
    assert len(lines) <= 40 or name in LONG
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if line != line.rstrip() or ENERGY_OF_WHAT.search(line)]
    pairs = list(pairwise(lines))
    assert ("", "") not in pairs
    assert not [word for line, word in pairs if len(line) > 75 and re.fullmatch(r"\s*\S+", word)], "a word alone"


def _rounded(text: str) -> str:
    return NUMBER.sub(lambda match: f"{float(match[0]):.4g}", text)


def faults(value: Any, schema: dict[str, Any], structs: dict[str, Any], path: str = "$") -> list[str]:
    """Return where a value breaks a JSON schema, by the keywords that msgspec writes."""
    if "$ref" in schema:
        return faults(value, structs[schema["$ref"].rpartition("/")[2]], structs, path)
    if "anyOf" in schema:
        each = [faults(value, one, structs, path) for one in schema["anyOf"]]
        return [] if [] in each else min(each, key=len)
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool,
             "null": type(None)}  # fmt: skip
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return [f"{path}: {value!r} is no {schema['type']}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        return [f"{path}: {value!r}"]
    found = []
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found = [f"{path}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            rule = properties.get(name, schema.get("additionalProperties", {}))
            found += faults(part, rule if isinstance(rule, dict) else {}, structs, f"{path}.{name}")
    elif isinstance(value, list):
        rules = schema.get("prefixItems", [schema.get("items") or {}] * len(value))
        found = [] if len(rules) == len(value) else [f"{path}: {len(value)} items"]
        for place, (part, rule) in enumerate(zip(value, rules, strict=False)):
            found += faults(part, rule, structs, f"{path}[{place}]")
    return found


def test_no_file_is_left_over() -> None:
    wanted = {f"{name}.txt" for name in CASES}
    assert {path.name for path in FILES.iterdir()} == wanted
