"""Seeds altered at random, as strangers' files, links and command lines may be. All follows from the random seed."""

import re
from collections.abc import Iterator, Sequence
from random import Random

# What readers stumble over, wherever it is put.
NASTY = (
    *("", "\0", "\n", "\r\n", "\t", " ", '"', "'", "\\", "%", "%00", "%ff", "%2f", "#", "=", ",", ";", ":", "/", "@"),
    *(
        "../..",
        "~",
        "$HOME",
        "`id`",
        "${x}",
        "{}",
        "[]",
        "[[",
        "]]",
        "(",
        ")",
        "<b>",
        "&amp;",
        "|",
        "*",
        "-",
        "--",
        "+",
    ),
    *(
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x9b31m",
        "\x7f",
        "\ufeff",
        "\u202e",
        "\u2028",
        "\u200b",
        "\ufffe",
        "\ud800",
        "\udc80",
    ),
    *("ä", "𝔽", "e\u0301", "＝", "１", "٣", "²", "½", "Ⅷ", "true", "None", "null", "nan", "inf", "-inf", "Infinity"),
    *("a" * 300, "(" * 300, "[" * 300, "%41" * 100, "9" * 400, "1_0", "0x10", "1e5", "1.", ".5"),
)
NUMBERS = (
    *("0", "-0", "-1", "1", "2", "7", "255", "256", "4096", "4097", "65536", "2147483648", "9223372036854775808"),
    *("0.0", "-0.0", "0.5", "1e-320", "5e-324", "1e-30", "1e30", "1e200", "1e308", "1e309", "-1e308", "nan", "inf"),
    *("0.1", "99.9", "100", "1e3", "+1", "01", "1_000", "9" * 30, "0" * 30),
)
_NUMBER_TEXT = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD_TEXT = re.compile(r"[A-Za-z_]\w+")


def texts(random: Random, seeds: Sequence[str], words: Sequence[str] = ()) -> Iterator[str]:
    """Endless: one of `seeds` with one to a dozen changes. `words` mean something to the reader."""
    while True:
        text = random.choice(seeds)
        for _ in range(_rounds(random)):
            text = random.choice(_CHANGES)(random, text, seeds, words)
        yield text


def files(random: Random, seeds: Sequence[bytes], words: Sequence[str] = ()) -> Iterator[bytes]:
    """Endless: a file of text, altered as text, and every third time as bytes as well."""
    as_text = [seed.decode("utf-8", "surrogateescape") for seed in seeds]
    for text in texts(random, as_text, words):
        data = text.encode("utf-8", random.choice(("surrogatepass", "replace")))
        yield flipped(random, data) if random.random() < 0.33 else data


def flipped(random: Random, data: bytes) -> bytes:
    """Some bytes changed, taken out, or everything from one on."""
    altered = bytearray(data)
    for _ in range(_rounds(random)):
        at = random.randrange(len(altered) + 1)
        kind = random.randrange(5)
        if kind == 0 and at < len(altered):
            altered[at] ^= 1 << random.randrange(8)
        elif kind == 1 and at < len(altered):
            altered[at] = random.choice((0, 1, 0x7F, 0x80, 0xC0, 0xFE, 0xFF, random.randrange(256)))
        elif kind == 2:
            altered[at:at] = random.randbytes(random.randint(1, 8))
        elif kind == 3:
            del altered[at : at + random.randint(1, 16)]
        elif kind == 4 and random.random() < 0.2:
            del altered[at:]
    return bytes(altered)


def _rounds(random: Random) -> int:
    return min(12, 1 + int(random.expovariate(0.6)))


def _piece(random: Random, text: str) -> tuple[int, int]:
    """A short stretch of the text, now and then a long one."""
    start = random.randrange(len(text) + 1)
    length = random.randint(0, 12) if random.random() < 0.8 else random.randint(0, len(text))
    return start, min(len(text), start + length)


def _insert(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(random.choice((NASTY, words or NASTY))) + text[at:]


def _delete(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    start, end = _piece(random, text)
    return text[:start] + text[end:]


def _repeat(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    start, end = _piece(random, text)
    return text[:end] + text[start:end] * random.choice((1, 1, 1, 2, 30)) + text[end:]


def _character(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + chr(random.choice((random.randrange(128), random.randrange(0x3000)))) + text[at + 1 :]


def _replaced(random: Random, text: str, pattern: re.Pattern[str], by: Sequence[str]) -> str:
    matches = list(pattern.finditer(text)) if by else []
    if not matches:
        return text
    match = random.choice(matches)
    return text[: match.start()] + random.choice(by) + text[match.end() :]


def _number(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    return _replaced(random, text, _NUMBER_TEXT, NUMBERS)


def _word(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    return _replaced(random, text, _WORD_TEXT, words)


def _lines(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    """A line taken out, doubled, moved, or brought in from another seed."""
    lines = text.split("\n")
    other = random.choice((lines, random.choice(seeds).split("\n")))
    line = random.choice(other)
    kind = random.randrange(3)
    if kind == 0:
        del lines[random.randrange(len(lines))]
    elif kind == 1:
        lines[random.randrange(len(lines))] = line
    else:
        lines.insert(random.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _cut(random: Random, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
    return text[: random.randrange(len(text) + 1)] if random.random() < 0.2 else text


_CHANGES = (_insert, _insert, _delete, _repeat, _character, _number, _number, _word, _word, _lines, _cut)
