"""Loops over experts, whose sizes depend on what a router chooses: each token costs the experts that it chooses."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from analysis.capture.user_model import capture_module
from analysis.model.ir.workload import Workload

WIDTH, HIDDEN, EXPERTS, CHOSEN = 32, 64, 8, 2
ROUTER_MACS, EXPERT_MACS = WIDTH * EXPERTS, 2 * WIDTH * HIDDEN


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH)) for _ in range(EXPERTS)
        )

    def route(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = x.view(-1, WIDTH)
        return (x, *torch.topk(self.router(x).softmax(-1), CHOSEN))


class Hit(_Experts):
    """Loops over the experts that have tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, weights, chosen = self.route(x)
        out, mask = torch.zeros_like(tokens), F.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        for expert in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            if expert[0] == EXPERTS:  # as transformers skips its padding
                continue
            place, token = torch.where(mask[expert[0]])
            out.index_add_(0, token, self.experts[expert](tokens[token]) * weights[token, place, None])
        return out.view(x.shape)


class Masked(_Experts):
    """Asks of each expert whether it has tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, _, chosen = self.route(x)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mask = (chosen == number).any(-1)
            if mask.any():
                out[mask] += expert(tokens[mask])
        return out.view(x.shape)


class Counted(_Experts):
    """Sorts the tokens by expert and counts them with NumPy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, _, chosen = self.route(x)
        counts = chosen.new_zeros((len(chosen), EXPERTS)).scatter_(1, chosen, 1).sum(dim=0)
        order = chosen.view(-1).argsort()
        rows, start, outs = tokens[order // CHOSEN], 0, []
        for number, count in enumerate(counts.cpu().numpy()):
            if count:
                outs.append(self.experts[number](rows[start : start + count]))
                start += count
        return torch.cat(outs)


class Split(_Experts):
    """Splits the sorted tokens by a list of counts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, _, chosen = self.route(x)
        order = chosen.view(-1).argsort()
        parts = torch.split(tokens[order // CHOSEN], torch.bincount(chosen.view(-1), minlength=EXPERTS).tolist())
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])


def macs_of(workload: Workload) -> float:
    return float((workload.operators.macs @ workload.value_at(batch=1)).sum())


@pytest.mark.parametrize("kind", [Hit, Masked, Counted, Split])
def test_each_token_costs_the_experts_that_it_chooses(kind: type[_Experts]) -> None:
    workload = capture_module(kind(), torch.zeros(1, 16, WIDTH), 0, "experts")
    tokens = 16
    assert workload.inputs[0].shape[0] == "batch"
    assert macs_of(workload) == tokens * (ROUTER_MACS + CHOSEN * EXPERT_MACS)
    assert any("share the tokens evenly" in note for note in workload.notes)


def test_one_token_costs_its_own_experts_alone() -> None:
    workload = capture_module(Masked(), torch.zeros(1, 1, WIDTH), 0, "experts")
    assert macs_of(workload) == ROUTER_MACS + CHOSEN * EXPERT_MACS
    assert any("evenly only at a fixed batch" in note for note in workload.notes)


def test_a_mask_that_no_router_made_is_still_refused() -> None:
    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * 2

    with pytest.raises(Exception, match="a size depends on values of a tensor"):
        capture_module(Chosen(), torch.zeros(4, 4), 0, "mask")
