"""Experts: each token costs those that it is sent to, and a loop whose sizes a router chooses is refused."""

import pytest
import torch
from torch import nn

from analysis.capture.user_model import capture_module

WIDTH, HIDDEN, EXPERTS, CHOSEN, TOKENS = 32, 64, 8, 2, 16


class Experts(nn.Module):
    """Sorts the tokens by expert and multiplies them in one grouped product, or loops over masks."""

    def __init__(self, is_grouped: bool) -> None:
        super().__init__()
        self.router, self.is_grouped = nn.Linear(WIDTH, EXPERTS, bias=False), is_grouped
        self.weight = nn.Parameter(torch.zeros(EXPERTS, WIDTH, HIDDEN, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.view(-1, WIDTH)
        chosen = torch.topk(self.router(tokens).softmax(-1), CHOSEN).indices
        tokens = tokens.to(torch.bfloat16)
        if self.is_grouped:
            rows = tokens[chosen.view(-1).argsort() // CHOSEN]
            counts = torch.zeros(EXPERTS).scatter_add(0, chosen.view(-1), torch.ones(chosen.numel()))
            return torch._grouped_mm(rows, self.weight, offs=counts.cumsum(0).to(torch.int32))
        return torch.cat([tokens[(chosen == n).any(-1)] @ weight for n, weight in enumerate(self.weight)])


def test_each_token_costs_the_experts_that_it_is_sent_to() -> None:
    workload = capture_module(Experts(True), torch.zeros(1, TOKENS, WIDTH), 0, "experts")
    macs = float((workload.operators.macs @ workload.value_at(batch=1)).sum())
    assert workload.inputs[0].shape[0] == "batch"
    assert macs == TOKENS * WIDTH * (EXPERTS + CHOSEN * HIDDEN)


def test_a_size_that_a_router_chooses_is_refused_with_what_to_do() -> None:
    with pytest.raises(Exception, match=r"a size depends on values of a tensor.*for experts a grouped product"):
        capture_module(Experts(False), torch.zeros(1, TOKENS, WIDTH), 0, "experts")
