"""Speculative decoding: a cheap draft proposes tokens, and one step of the model checks them all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from analysis.serving.step_costs import StepCosts
from hardware import file_access
from hardware.quantity import SourcedValue

_FACTS = Path(__file__).with_name("speculation.toml")


def tokens_per_step(drafts: int, accept: float) -> float:
    """Return the tokens of a sequence that a step gives: proposals up to the first that is rejected, and one more.
    `accept` is the probability that a proposal is accepted if those before it are."""
    return sum(accept**kept for kept in range(drafts + 1))


def speculate(costs: StepCosts, drafts: int, accept: float) -> StepCosts:
    """Return the costs of a token if steps check `drafts` proposals of each sequence in addition to its next token. The
    cache is read once for all of them."""
    draft = msgspec.convert(file_access.shipped(_FACTS)["draft"], SourcedValue).value
    tokens = tokens_per_step(drafts, accept)
    base = np.array([costs.without_attention(int(n)) for n in costs.sequences]).T
    checked = np.array([costs.without_attention(int(n) * (drafts + 1)) for n in costs.sequences]).T
    decoding = costs.decoding * (1.0 + drafts * draft) / tokens
    decoding[:, 0] += (checked + drafts * draft * base) / tokens - base
    return msgspec.structs.replace(costs, decoding=decoding)
