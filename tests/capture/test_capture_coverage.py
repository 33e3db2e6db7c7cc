"""Operators beyond torchvision: every one of these small models is costed completely."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from capture_toys import lowered, macs
from torch import nn
from torch.nn import functional as F


def toy(forward: Callable[..., Any], **parts: Any) -> nn.Module:
    made = type("Toy", (nn.Module,), {"forward": forward})()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def unet(s: Any, x: Any) -> Any:
    down = F.relu(s.down(x))
    up = F.interpolate(F.leaky_relu(s.mid(down), 0.1), scale_factor=2, mode="bilinear", align_corners=False)
    return s.out(torch.cat([s.up(down), up, x], 1))


def diffusion(s: Any, x: Any, t: Any) -> Any:
    frequency = torch.exp(torch.arange(8) * -0.5)
    angle = t[:, None] * frequency[None]
    time = s.time(torch.cat([angle.sin(), angle.cos()], -1))
    h = s.conv(F.silu(s.norm(x))) + time[:, :, None, None]
    return x + F.interpolate(h, scale_factor=1.0, mode="nearest") * torch.rsqrt(h.var((2, 3), keepdim=True) + 1)


def experts(s: Any, x: Any) -> Any:
    weight, chosen = s.route(x).softmax(-1).topk(2, dim=-1)
    mask = F.one_hot(chosen, 4).to(x.dtype) * weight[..., None]
    outs = torch.stack([s.a(x), s.b(x), s.a(x), s.b(x)], 1)
    return torch.einsum("bke,bed->bd", mask, outs)


def rotary(s: Any, x: Any) -> Any:
    a, b = x.chunk(2, -1)
    turned = torch.cat([-b, a], -1)
    y = x * s.cos + turned * s.sin
    q = y.view(y.shape[0], 6, 2, 8).transpose(1, 2)
    k = torch.repeat_interleave(q[:, :1], 2, dim=1)
    bias = torch.tril(torch.ones(6, 6)).log()
    out = F.scaled_dot_product_attention(q, k, q, attn_mask=bias)
    return F.rms_norm(out.transpose(1, 2).reshape(-1, 6, 16), (16,)) * F.softplus(y)


def signal(s: Any, x: Any) -> Any:
    spectrum = torch.fft.rfft(x, dim=-1)
    back = torch.fft.irfft(spectrum * 2, n=16, dim=-1)
    return F.glu(s.conv(back), 1), F.avg_pool1d(back, 4), F.elu(s.up(x)), x.cumsum(-1), x.flip(-1)


def recommender(s: Any, tokens: Any) -> Any:
    bag = s.bag(tokens)
    rows = s.table(tokens)
    return torch.sigmoid((bag[:, None] * rows).sum(-1)), F.cosine_similarity(rows[:, 0], bag), rows.norm(dim=-1)


def scattering(s: Any, x: Any) -> Any:
    order = x.argsort(-1)
    picked = torch.gather(x, 1, order)
    out = torch.zeros_like(x).scatter_add(1, order, picked)
    out = torch.where(out > 0, out, -out).clamp(0, 1).masked_fill(x < 0, 0.0)
    return out.index_select(1, s.index), F.log_softmax(out, 1), out.logsumexp(1), torch.roll(out, 1, 1)


def windows(s: Any, x: Any) -> Any:
    patches = F.unfold(x, 3, padding=1)
    grid = F.affine_grid(s.theta.expand(x.shape[0], 2, 3), (x.shape[0], 4, 8, 8))
    sampled = F.grid_sample(x, grid, align_corners=False)
    return patches, sampled, F.pixel_shuffle(x, 2), F.pad(x, (1, 1, 1, 1), mode="reflect"), F.adaptive_max_pool2d(x, 2)


IMAGE = torch.empty(2, 4, 8, 8)
MODELS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "unet": (
        toy(
            unet,
            down=nn.Conv2d(4, 8, 3, 2, 1),
            mid=nn.Conv2d(8, 8, 3, padding=1),
            up=nn.ConvTranspose2d(8, 4, 2, 2),
            out=nn.Conv2d(16, 2, 1),
        ),
        (IMAGE,),
    ),
    "diffusion": (
        toy(diffusion, time=nn.Linear(16, 4), conv=nn.Conv2d(4, 4, 3, padding=1), norm=nn.GroupNorm(2, 4)),
        (IMAGE, torch.empty(2)),
    ),
    "experts": (toy(experts, route=nn.Linear(8, 4), a=nn.Linear(8, 8), b=nn.Linear(8, 8)), (torch.empty(2, 8),)),
    "rotary": (toy(rotary, cos=nn.Parameter(torch.ones(6, 16)), sin=nn.Parameter(torch.ones(6, 16))),
               (torch.empty(2, 6, 16),)),
    "signal": (
        toy(signal, conv=nn.Conv1d(4, 8, 5, padding=2), up=nn.ConvTranspose1d(4, 2, 4, 2)),
        (torch.empty(2, 4, 16),),
    ),
    "recommender": (
        toy(recommender, bag=nn.EmbeddingBag(100, 8, mode="sum"), table=nn.Embedding(100, 8)),
        (torch.zeros(2, 5, dtype=torch.int64),),
    ),
    "scattering": (toy(scattering, index=nn.Buffer(torch.tensor([1, 2]))), (torch.empty(2, 8),)),
    "windows": (toy(windows, theta=nn.Parameter(torch.ones(1, 2, 3))), (IMAGE,)),
    "gru": (toy(lambda s, x: s.rnn(x)[0], rnn=nn.GRU(4, 6, bidirectional=True, batch_first=True)),
            (torch.empty(2, 7, 4),)),
    "depthwise_3d": (
        toy(lambda s, x: s.pool(s.conv(x)), conv=nn.Conv3d(4, 4, 3, groups=4), pool=nn.AvgPool3d(2)),
        (torch.empty(2, 4, 6, 6, 6),),
    ),
    "mixer": (
        toy(
            lambda s, x: x + s.channels(s.norm(x + s.tokens(x.transpose(1, 2)).transpose(1, 2))),
            norm=nn.LayerNorm(8),
            tokens=nn.Sequential(nn.Linear(6, 12), nn.GELU("tanh"), nn.Linear(12, 6)),
            channels=nn.Sequential(nn.Linear(8, 16), nn.Mish(), nn.Linear(16, 8), nn.InstanceNorm1d(6)),
        ),
        (torch.empty(2, 6, 8),),
    ),
    "encoder": (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.empty(2, 5, 8),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_every_operator_has_a_rule(name: str) -> None:
    module, inputs = MODELS[name]
    w = lowered(module.eval(), *inputs)
    missing = [w.operators.target[i] for i in range(w.n_operators) if not w.operators.has_rule[i]]
    assert not missing


def test_a_few_by_hand() -> None:
    module, inputs = MODELS["unet"]
    w = lowered(module, *inputs)
    assert macs(w, "up") == 16 * 8 * 4 * 4
    assert macs(w, "out") == 64 * 16 * 2
    module, inputs = MODELS["gru"]
    w = lowered(module, *inputs)
    index = w.operators.kind.index("recurrent")
    # Two directions, three gates of six units, from four inputs and six states, seven steps.
    assert w.operators.macs[index] @ w.value_at(batch=3) == 3 * 7 * 2 * (18 * 4 + 18 * 6)
    module, inputs = MODELS["depthwise_3d"]
    assert lowered(module, *inputs).operators.kind[0] == "depthwise_conv"
