"""The schedulers of serving software, from hardware/engines/runtimes.toml."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import msgspec

from hardware.base.file_access import read_records
from hardware.engines.runtime import PATH
from hardware.published_prices import SourcedValue

LARGE_BYTES = 70 * 2**30  # from this much memory on, servers raise their limits (vLLM, SGLang)


class Scheduler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values by which a scheduler forms steps; runtimes.toml explains them."""

    base: str = ""
    version: str
    source: str
    max_sequences: int
    max_tokens: int
    mixes: bool
    reserves: bool
    limits_each_copy: bool = False
    finds_evicted: bool
    forms_ahead: bool = False
    holds_steps: int = 0
    holds_until: float = 0.0
    recorded_tokens: int = 0
    activations_apart: bool = False
    watermark: float = 0.0
    memory_share: float
    request_s: SourcedValue
    prompt_token_s: SourcedValue
    intake_s: SourcedValue
    chunk_s: SourcedValue
    large: dict[str, Any] = {}

    def of_copies(self, copies: int) -> Scheduler:
        """Return the scheduler of all devices that compute attention, each for its sequences."""
        each = copies if self.limits_each_copy else 1
        limits = {"max_sequences": self.max_sequences * each, "max_tokens": self.max_tokens * each}
        return msgspec.structs.replace(self, **limits)


schedulers = lru_cache(partial(read_records, PATH, "schedulers", Scheduler))  # returns all by name


def find_scheduler(name: str, memory_bytes: float) -> Scheduler:
    """Return a scheduler on a device with this much memory."""
    found = schedulers()[name]
    return msgspec.structs.replace(found, **found.large) if memory_bytes >= LARGE_BYTES else found
