"""Input as strangers' files, links and command lines may be: honest seeds with a few changes, which shrink well."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# What readers stumble over, wherever it is put.
NASTY = (
    *("", "\0", "\n", "\r\n", "\t", " ", '"', "'", "\\", "%00", "%ff", "#", "=", ",", ";", ":", "/", "@", "../..", "~"),
    *("$HOME", "`id`", "{}", "[[", "]]", "(", ")", "<b>", "&amp;", "|", "*", "--", "+", "\x1b[2J", "\x1b]0;x\x07"),
    *(
        "\x9b31m",
        "\x7f",
        "\ufeff",
        "\u202e",
        "\u2028",
        "\ud800",
        "ä",
        "𝔽",
        "e\u0301",
        "＝",
        "٣",
        "²",
        "½",
        "null",
        "nan",
    ),
    *("a" * 300, "(" * 300, "[" * 300, "%41" * 100, "9" * 400, "1_0", "0x10", "-0", "-1", "0", "4097", "2147483648"),
    *("9223372036854775808", "0.5", "5e-324", "1e-30", "1e30", "1e308", "1e309", "-1e308", "inf", "+1", "01"),
)
_TOKEN = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\n|.", re.DOTALL)


def examples(count: int) -> settings:
    """Return settings for `count` examples, a hundred times as many in `make fuzz`."""
    is_long = settings.get_current_profile_name() == "fuzz"
    return settings(max_examples=count * (100 if is_long else 1), suppress_health_check=list(HealthCheck))


@st.composite
def texts(draw: st.DrawFn, seeds: Sequence[str], words: Sequence[str] = ()) -> str:
    """Draw a seed of which one to six places have another word, or none, or the same again."""
    tokens = _TOKEN.findall(draw(st.sampled_from(seeds)))
    other = st.sampled_from([*words, *NASTY]) | st.text(max_size=4)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(tokens)))
        end = min(len(tokens), at + draw(st.integers(0, 3)))
        tokens[at:end] = draw(st.just([]) | other.map(lambda text: [text]) | st.just(tokens[at:end] * 2))
    return "".join(tokens)


@st.composite
def flips(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw a seed of which one to six places have other bytes, or which ends early."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 16))] = draw(st.binary(max_size=8))
    return bytes(data[: draw(st.sampled_from([len(data)] * 9 + [len(data) // 2]))])


def files(seeds: Sequence[bytes], words: Sequence[str] = ()) -> st.SearchStrategy[bytes]:
    """Draw a file of text, altered as text or as bytes."""
    decoded = [seed.decode("utf-8", "surrogateescape") for seed in seeds]
    return texts(decoded, words).map(lambda text: text.encode("utf-8", "surrogatepass")) | flips(seeds)


@st.composite
def trees(draw: st.DrawFn, seeds: Sequence[Callable[[], Any]], values: Sequence[Any]) -> Any:
    """Draw nested lists and dictionaries of which one to four places have another value, or none, or a neighbour's."""
    whole = draw(st.sampled_from(seeds))()
    for _ in range(draw(st.integers(1, 4))):
        inside, key = [whole], 0
        while isinstance(inside[key], dict | list) and inside[key] and draw(st.integers(0, 7)):
            inside = inside[key]
            key = draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
        kind = draw(st.integers(0, 3))
        if kind == 0 and len(inside) > 1:
            del inside[key]  # type: ignore[arg-type]
        elif kind == 1:
            other = draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
            inside[key], inside[other] = inside[other], inside[key]
        else:
            inside[key] = draw(st.sampled_from(values))
    return whole


@st.composite
def messages(draw: st.DrawFn, seeds: Sequence[Any], words: Sequence[str]) -> bytes:
    """Draw a protocol buffer of which one to four fields are other ones, at any depth."""
    message = type(seeds[0])()
    message.CopyFrom(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        inside = message
        while True:
            fields = inside.ListFields()
            if not fields:
                break
            field, value = draw(st.sampled_from(fields))
            is_list = not hasattr(value, "DESCRIPTOR") and not isinstance(value, int | float | str | bytes)
            at = draw(st.integers(0, len(value) - 1)) if is_list else 0
            if field.message_type and draw(st.integers(0, 5)):
                inside = value[at] if is_list else value
                continue
            if is_list and draw(st.booleans()):
                del value[at]
            elif is_list and field.message_type:
                value.add().CopyFrom(value[at])
            elif not field.message_type:
                changed = draw(_scalars(field, words))
                value.append(changed) if is_list else setattr(inside, field.name, changed)
            break
    return bytes(message.SerializeToString())


def _scalars(field: Any, words: Sequence[str]) -> st.SearchStrategy[Any]:
    if field.cpp_type == field.CPPTYPE_STRING:
        is_text = field.type == field.TYPE_STRING
        return st.sampled_from(words) | st.text(max_size=4) if is_text else st.binary(max_size=64)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return st.floats(width=32)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    bits = 31 if field.cpp_type == field.CPPTYPE_INT32 else 63
    edges = [0, 1, -1, 2, 7, 4096, 1 << 20, (1 << bits) - 1, -(1 << bits)]
    return st.sampled_from(edges) | st.integers(-3, 70)
