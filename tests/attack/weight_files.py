"""Files of weights by hand: honest ones, and ones that promise more than they hold."""

import struct
from typing import Any

_KINDS = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}
SMALL_LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.scaled": True,
    "tokenizer.ggml.tokens": ["a"] * 100,
    "tokenizer.ggml.scores": [1.0, 2.0],
}
TENSORS = {"token_embd.weight": ((64, 100), 12), "output.weight": ((64, 100), 14), "blk.0.attn_norm.weight": ((64,), 0)}


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        items = b"".join(_value(item)[4:] for item in value)
        return struct.pack("<I", 9) + _value(value[0])[:4] + struct.pack("<Q", len(value)) + items
    number, kind = _KINDS[type(value)]
    return struct.pack(f"<I{kind}", number, value)


def gguf(facts: dict[str, Any] = SMALL_LLAMA, tensors: dict[str, Any] = TENSORS, version: int = 3) -> bytes:
    pairs = b"".join(text(key) + _value(value) for key, value in facts.items())
    infos = b"".join(
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
        for name, (shape, kind) in tensors.items()
    )
    return b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(facts)) + pairs + infos


HOSTILE = {
    "a tensor count without end": lambda: b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0),
    "a fact count without end": lambda: b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60),
    "a list longer than the file": lambda: (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 1 << 62)
    ),
    "a name longer than the file": lambda: b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62),
    "a rank without end": lambda: (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 1 << 31) + b"\0" * 64
    ),
    "a width of four thousand millions": lambda: gguf(SMALL_LLAMA | {"llama.embedding_length": (1 << 32) - 4}),
    "no heads": lambda: gguf(SMALL_LLAMA | {"llama.attention.head_count": 0}),
    "no layers said": lambda: gguf({"general.architecture": "llama"}),
    "an architecture of control codes": lambda: gguf({"general.architecture": "\x1b[2J"}),
    "a cut": lambda: gguf()[:100],
}
