"""What users of language models ask of a request: time to first token, time per token, tokens per second and joule."""

from __future__ import annotations

import msgspec

from analysis.estimate.estimate import Estimate, largest_batch
from analysis.model.ir.lengths import steps


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of requests, all of the same lengths. `tokens_per_s` are output tokens of the whole batch, prefill's
    time included; `energy_j_per_token` likewise, per output token. `largest_batch` is the most requests whose weights
    and caches fit into the memory, 0 where one does not; times leave out what a wave waits for those before."""

    prompt_tokens: int
    output_tokens: int
    time_to_first_token_s: float
    time_per_output_token_s: float
    tokens_per_s: float
    energy_j_per_token: float
    largest_batch: int


def serving(result: Estimate) -> Serving | None:
    """The figures of a request; None for anything else."""
    workload, batch = result.workload, result.scenario.batch
    if workload.repeats is None or "output" not in workload.defaults:
        return None
    output = workload.defaults["output"]
    decoding = [path.startswith("decode.") for path in workload.operators.path]
    later_s = float(result.run.latency_s[decoding].sum())
    tokens = batch * output
    first_s = (result.latency_s - later_s) / result.waves
    return Serving(
        prompt_tokens=workload.defaults["sequence"],
        output_tokens=output,
        time_to_first_token_s=first_s,
        time_per_output_token_s=later_s / result.waves / steps(output) if output > 1 else 0.0,
        tokens_per_s=tokens / result.latency_s,
        energy_j_per_token=result.energy_j / tokens,
        largest_batch=largest_batch(result.memory, result.wave_batch, result.device.memory_bytes),
    )
