"""Models of strangers, written from memory in the style of timm, transformers, diffusers, PyG, monai and lightning, which
bench_captures.py tries too."""

# Written as strangers write: short names, no types.
# mypy: ignore-errors
# ruff: noqa

from collections.abc import Callable
from functools import partial

import dataclasses
import math
import typing as T

import torch
import torch.nn.functional as F
from torch import nn

from examples.corpus.captured_families import Build

M = {}


def add(f):
    M[f.__name__.replace("_", " ")] = f
    return f


R = torch.rand


class EcaModule(nn.Module):  # timm
    def __init__(s, c, k=3):
        super().__init__()
        s.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(s, x):
        y = x.mean((2, 3)).view(x.shape[0], 1, -1)
        y = s.conv(y).view(x.shape[0], -1, 1, 1).sigmoid()
        return x * y.expand_as(x)


@add
def eca():
    return nn.Sequential(nn.Conv2d(3, 16, 3), EcaModule(16)), (R(2, 3, 32, 32),)


class BlurPool(nn.Module):
    def __init__(s, c):
        super().__init__()
        co = torch.tensor([1.0, 2.0, 1.0])
        k = (co[:, None] * co) / 16
        s.register_buffer("f", k[None, None].repeat(c, 1, 1, 1))
        s.c = c

    def forward(s, x):
        return F.conv2d(F.pad(x, [1, 1, 1, 1], "reflect"), s.f, stride=2, groups=s.c)


@add
def blurpool():
    return nn.Sequential(nn.Conv2d(3, 8, 3), BlurPool(8)), (R(2, 3, 32, 32),)


class RelPosAttn(nn.Module):  # Swin
    def __init__(s, d=32, h=4, w=4):
        super().__init__()
        s.h = h
        s.qkv = nn.Linear(d, 3 * d)
        s.p = nn.Linear(d, d)
        s.t = nn.Parameter(torch.zeros((2 * w - 1) ** 2, h))
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0).contiguous()
        r += w - 1
        r[:, :, 0] *= 2 * w - 1
        s.register_buffer("i", r.sum(-1))

    def forward(s, x, mask=None):
        B, N, C = x.shape
        q, k, v = s.qkv(x).reshape(B, N, 3, s.h, C // s.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (C // s.h) ** -0.5) @ k.transpose(-2, -1) + s.t[s.i.view(-1)].view(N, N, -1).permute(
            2, 0, 1
        ).unsqueeze(0)
        if mask is not None:
            a = a + mask
        return s.p((a.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


@add
def swin_attn():
    return RelPosAttn(), (R(2, 16, 32),)


class SwinShift(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = RelPosAttn(32, 4, 4)

    def forward(s, x):
        B, H, W, C = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        w = x.view(B, H // 4, 4, W // 4, 4, C).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 16, C)
        w = s.a(w)
        x = w.view(B, H // 4, W // 4, 4, 4, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
        return torch.roll(x, (2, 2), (1, 2))


@add
def swin_shift():
    return SwinShift(), (R(2, 16, 16, 32),)


class DropPathDeit(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Linear(32, 32)
        s.g = nn.Parameter(1e-5 * torch.ones(32))
        s.cls = nn.Parameter(torch.zeros(1, 1, 32))
        s.pos = nn.Parameter(torch.zeros(1, 17, 32))

    def forward(s, x):
        x = torch.cat((s.cls.expand(x.shape[0], -1, -1), x), 1) + s.pos
        return (x + s.g * s.f(F.layer_norm(x, (32,))))[:, 0]


@add
def deit_head():
    return DropPathDeit(), (R(2, 16, 32),)


class SplitAttn(nn.Module):  # ResNeSt
    def __init__(s, c=16, r=2):
        super().__init__()
        s.r = r
        s.c = nn.Conv2d(c, c * r, 3, padding=1, groups=r)
        s.f1 = nn.Conv2d(c, 8, 1)
        s.f2 = nn.Conv2d(8, c * r, 1)

    def forward(s, x):
        x = s.c(x)
        B, RC = x.shape[:2]
        x = x.reshape(B, s.r, RC // s.r, *x.shape[2:])
        g = x.sum(1).mean((2, 3), keepdim=True)
        a = s.f2(F.relu(s.f1(g))).view(B, 1, s.r, -1).transpose(1, 2).softmax(1).reshape(B, -1, 1, 1)
        return (x * a.reshape(B, s.r, RC // s.r, 1, 1)).sum(1).contiguous()


@add
def resnest():
    return SplitAttn(), (R(2, 16, 8, 8),)


@dataclasses.dataclass
class BaseModelOutput:  # transformers
    last_hidden_state: torch.Tensor = None
    hidden_states: T.Optional[T.Tuple[torch.Tensor]] = None


class Rope(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0, d, 2).float() / d)), persistent=False)

    @torch.no_grad()
    def forward(s, x, pos):
        f = (s.inv_freq[None, :, None].float().expand(pos.shape[0], -1, 1) @ pos[:, None, :].float()).transpose(1, 2)
        e = torch.cat((f, f), -1)
        return e.cos().to(x.dtype), e.sin().to(x.dtype)


def rot(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class LlamaLike(nn.Module):
    def __init__(s, d=32, h=4, k=2):
        super().__init__()
        s.h, s.k, s.d = h, k, d // h
        s.e = nn.Embedding(100, d)
        s.q = nn.Linear(d, d, False)
        s.kk = nn.Linear(d, k * s.d, False)
        s.v = nn.Linear(d, k * s.d, False)
        s.o = nn.Linear(d, d, False)
        s.r = Rope(s.d)
        s.g = nn.Linear(d, 64, False)
        s.u = nn.Linear(d, 64, False)
        s.dn = nn.Linear(64, d, False)
        s.lm = nn.Linear(d, 100, False)
        s.lm.weight = s.e.weight

    def forward(s, input_ids, attention_mask=None, position_ids=None, return_dict=True):
        x = s.e(input_ids)
        B, L, D = x.shape
        if position_ids is None:
            position_ids = torch.arange(L, device=x.device).unsqueeze(0)
        c, sn = s.r(x, position_ids)
        q = s.q(x).view(B, L, s.h, s.d).transpose(1, 2)
        k = s.kk(x).view(B, L, s.k, s.d).transpose(1, 2)
        v = s.v(x).view(B, L, s.k, s.d).transpose(1, 2)
        q = q * c[:, None] + rot(q) * sn[:, None]
        k = k * c[:, None] + rot(k) * sn[:, None]
        k = k[:, :, None].expand(B, s.k, s.h // s.k, L, s.d).reshape(B, s.h, L, s.d)
        v = v[:, :, None].expand(B, s.k, s.h // s.k, L, s.d).reshape(B, s.h, L, s.d)
        m = torch.full((L, L), torch.finfo(x.dtype).min).triu(1)
        if attention_mask is not None:
            m = m[None, None] + (1 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(B, L, D))
        x = x + s.dn(F.silu(s.g(x)) * s.u(x))
        h = s.lm(x)
        return BaseModelOutput(h, (x,)) if return_dict else (h,)


ids = lambda *a: torch.randint(0, 99, a)


@add
def llama_like():
    return LlamaLike(), {"input_ids": ids(2, 8), "attention_mask": torch.ones(2, 8, dtype=torch.long)}


class T5Bias(nn.Module):
    def __init__(s, h=4):
        super().__init__()
        s.b = nn.Embedding(32, h)
        s.q = nn.Linear(32, 32)
        s.h = h

    @staticmethod
    def bucket(r, n=32, m=128):
        n //= 2
        out = (r > 0).long() * n
        r = r.abs()
        e = n // 2
        l = e + (torch.log(r.float() / e) / math.log(m / e) * (n - e)).long()
        l = torch.min(l, torch.full_like(l, n - 1))
        return out + torch.where(r < e, r, l)

    def forward(s, x):
        L = x.shape[1]
        c = torch.arange(L)[:, None]
        b = s.b(s.bucket(torch.arange(L)[None] - c)).permute(2, 0, 1)[None]
        q = s.q(x).view(x.shape[0], L, s.h, 8).transpose(1, 2)
        return ((q @ q.mT + b).softmax(-1) @ q).transpose(1, 2).flatten(2)


@add
def t5_bias():
    return T5Bias(), (R(2, 8, 32),)


class MoeIndexAdd(nn.Module):  # Mixtral of old
    def __init__(s):
        super().__init__()
        s.g = nn.Linear(32, 4, False)
        s.e = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(s, x):
        B, L, D = x.shape
        h = x.view(-1, D)
        p = s.g(h).softmax(-1)
        w, i = p.topk(2, -1)
        w = w / w.sum(-1, keepdim=True)
        y = torch.zeros_like(h)
        m = F.one_hot(i, 4).permute(2, 1, 0)
        for k in range(4):
            idx, top = torch.where(m[k])
            y.index_add_(0, top, s.e[k](h[None, top].reshape(-1, D)) * w[top, idx, None])
        return y.view(B, L, D)


@add
def moe_where():
    return MoeIndexAdd(), (R(2, 8, 32),)


class MoeDense(nn.Module):
    def __init__(s):
        super().__init__()
        s.g = nn.Linear(32, 4)
        s.w1 = nn.Parameter(R(4, 32, 64))
        s.w2 = nn.Parameter(R(4, 64, 32))

    def forward(s, x):
        p = s.g(x).softmax(-1)
        v, i = p.topk(2, -1)
        mask = torch.zeros_like(p).scatter(-1, i, v)
        h = torch.einsum("bld,edf->blef", x, s.w1).relu()
        return torch.einsum("blef,efd,ble->bld", h, s.w2, mask)


@add
def moe_dense():
    return MoeDense(), (R(2, 8, 32),)


class ALiBi(nn.Module):
    def __init__(s):
        super().__init__()
        s.q = nn.Linear(32, 96)
        s.register_buffer("sl", 2.0 ** -torch.arange(1, 5))

    def forward(s, x, past: T.Optional[T.Tuple[torch.Tensor, torch.Tensor]] = None):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in s.q(x).chunk(3, -1))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        d = torch.arange(k.shape[2])[None] - torch.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=s.sl[:, None, None] * d[None]).transpose(1, 2).flatten(
            2
        ), (k, v)


@add
def alibi_past():
    return ALiBi(), (R(2, 1, 32), (R(2, 4, 7, 8), R(2, 4, 7, 8)))


class Whisperish(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Conv1d(80, 32, 3, padding=1)
        s.b = nn.Conv1d(32, 32, 3, 2, 1)
        s.register_buffer("p", R(16, 32))
        s.l = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        s.d = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
        s.e = nn.Embedding(50, 32)

    def forward(s, mel, tokens):
        h = F.gelu(s.b(F.gelu(s.a(mel)))).permute(0, 2, 1)
        h = s.l(h + s.p)
        y = s.e(tokens)
        return s.d(y, h, tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1])) @ s.e.weight.T


@add
def whisperish():
    return Whisperish(), {"mel": R(2, 80, 32), "tokens": torch.randint(0, 49, (2, 5))}


class TimestepEmb(nn.Module):  # diffusers
    def __init__(s):
        super().__init__()
        s.l = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))

    def forward(s, t):
        half = 16
        e = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
        e = t[:, None].float() * e[None]
        return s.l(torch.cat([e.sin(), e.cos()], -1))


class CondUnet(nn.Module):
    def __init__(s):
        super().__init__()
        s.t = TimestepEmb()
        s.i = nn.Conv2d(4, 32, 3, padding=1)
        s.d = nn.Conv2d(32, 64, 3, 2, 1)
        s.m = nn.MultiheadAttention(64, 4, kdim=48, vdim=48, batch_first=True)
        s.u = nn.Conv2d(96, 32, 3, padding=1)
        s.o = nn.Conv2d(32, 4, 3, padding=1)
        s.n = nn.GroupNorm(8, 64)

    def forward(s, sample, timestep, encoder_hidden_states):
        if not torch.is_tensor(timestep):
            timestep = torch.tensor([timestep])
        elif timestep.ndim == 0:
            timestep = timestep[None]
        e = s.t(timestep.expand(sample.shape[0]))
        a = s.i(sample)
        b = s.n(s.d(a)) + e[:, :, None, None]
        B, C, H, W = b.shape
        y = b.flatten(2).transpose(1, 2)
        y = s.m(y, encoder_hidden_states, encoder_hidden_states, need_weights=False)[0] + y
        b = y.transpose(1, 2).reshape(B, C, H, W)
        return {"sample": s.o(s.u(torch.cat([a, F.interpolate(b, scale_factor=2.0, mode="nearest")], 1)))}


@add
def cond_unet():
    return CondUnet(), (R(2, 4, 16, 16), torch.tensor(7), R(2, 5, 48))


class DitBlock(nn.Module):
    def __init__(s, d=32):
        super().__init__()
        s.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        s.n = nn.LayerNorm(d, elementwise_affine=False)
        s.qkv = nn.Linear(d, 3 * d)
        s.m = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))

    def forward(s, x, c):
        a, b, g, a2, b2, g2 = s.ada(c).chunk(6, 1)
        h = s.n(x) * (1 + b.unsqueeze(1)) + a.unsqueeze(1)
        q, k, v = s.qkv(h).reshape(*h.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        x = x + g.unsqueeze(1) * F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape_as(x)
        return x + g2.unsqueeze(1) * s.m(s.n(x) * (1 + b2.unsqueeze(1)) + a2.unsqueeze(1))


@add
def dit_block():
    return DitBlock(), (R(2, 16, 32), R(2, 32))


class VaeSample(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Conv2d(3, 8, 3, 2, 1)
        s.d = nn.ConvTranspose2d(4, 3, 4, 2, 1)

    def forward(s, x, generator=None):
        m, lv = s.e(x).chunk(2, 1)
        z = m + (0.5 * lv.clamp(-30, 20)).exp() * torch.randn(m.shape, generator=generator, device=m.device)
        return s.d(z), 0.5 * (m.pow(2) + lv.exp() - 1 - lv).sum((1, 2, 3))


@add
def vae():
    return VaeSample(), (R(2, 3, 16, 16),)


class EulerLoop(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Conv2d(4, 4, 3, padding=1)
        s.register_buffer("sig", torch.linspace(1, 0, 5))

    def forward(s, x):
        for i in range(4):
            x = x + (s.sig[i + 1] - s.sig[i]) * s.f(x)
        return x


@add
def euler_loop():
    return EulerLoop(), (R(2, 4, 8, 8),)


class MessagePassing(nn.Module):  # PyG
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(16, 32)
        s.a = nn.Linear(64, 1)

    def forward(s, x, edge_index, edge_weight=None):
        src, dst = edge_index
        h = s.l(x)
        al = s.a(torch.cat([h[src], h[dst]], -1)).exp()
        den = torch.zeros(x.size(0), 1).scatter_add_(0, dst[:, None], al)
        m = h[src] * al / den[dst]
        return torch.zeros_like(h).index_add_(0, dst, m)


@add
def gat_scatter():
    return MessagePassing(), (R(10, 16), torch.randint(0, 10, (2, 30)))


class EdgeConv(nn.Module):
    def __init__(s):
        super().__init__()
        s.m = nn.Sequential(nn.Conv2d(6, 32, 1), nn.BatchNorm2d(32), nn.LeakyReLU())

    def forward(s, x):
        B, C, N = x.shape
        d = -2 * x.transpose(2, 1) @ x
        xx = (x**2).sum(1, keepdim=True)
        i = (-xx - d - xx.transpose(2, 1)).topk(4, -1)[1]
        i = i + torch.arange(B).view(-1, 1, 1) * N
        f = x.transpose(2, 1).contiguous().view(B * N, -1)[i.view(-1)].view(B, N, 4, C)
        return s.m(
            torch.cat(
                (f - x.transpose(2, 1).unsqueeze(2), x.transpose(2, 1).unsqueeze(2).expand(-1, -1, 4, -1)), 3
            ).permute(0, 3, 1, 2)
        ).max(-1)[0]


@add
def dgcnn():
    return EdgeConv(), (R(2, 3, 20),)


class GlobalPool(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(16, 8)

    def forward(s, x, batch):
        n = 3
        return torch.zeros(n, 8).index_reduce_(0, batch, s.l(x), "mean")


@add
def global_pool():
    return GlobalPool(), (R(12, 16), torch.tensor([0] * 4 + [1] * 4 + [2] * 4))


class Schnet(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(20, 16)
        s.f = nn.Sequential(nn.Linear(10, 16), nn.Softplus(), nn.Linear(16, 16))
        s.register_buffer("mu", torch.linspace(0, 5, 10))

    def forward(s, z, pos):
        d = torch.cdist(pos, pos)
        w = s.f(torch.exp(-10 * (d[..., None] - s.mu) ** 2))
        h = s.e(z)
        return (h[:, None] * w).sum(2).sum((1, 2))


@add
def schnet():
    return Schnet(), (torch.randint(0, 19, (2, 6)), R(2, 6, 3))


class UNet3D(nn.Module):  # monai
    def __init__(s):
        super().__init__()
        c = lambda i, o, st=1: nn.Sequential(nn.Conv3d(i, o, 3, st, 1), nn.InstanceNorm3d(o), nn.PReLU())
        s.a = c(1, 8)
        s.b = c(8, 16, 2)
        s.u = nn.ConvTranspose3d(16, 8, 2, 2)
        s.o = nn.Conv3d(16, 2, 1)

    def forward(s, x):
        a = s.a(x)
        return s.o(torch.cat([a, s.u(s.b(a))], 1)).softmax(1)


@add
def unet3d():
    return UNet3D(), (R(2, 1, 16, 16, 16),)


class SlidingWindow(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Conv2d(1, 2, 3, padding=1)

    def forward(s, x):
        out = torch.zeros(x.shape[0], 2, *x.shape[2:])
        cnt = torch.zeros_like(out)
        for i in range(0, x.shape[2] - 7, 4):
            for j in range(0, x.shape[3] - 7, 4):
                out[:, :, i : i + 8, j : j + 8] += s.n(x[:, :, i : i + 8, j : j + 8])
                cnt[:, :, i : i + 8, j : j + 8] += 1
        return out / cnt


@add
def sliding_window():
    return SlidingWindow(), (R(2, 1, 16, 16),)


class Unetr(nn.Module):
    def __init__(s):
        super().__init__()
        s.p = nn.Conv3d(1, 32, 4, 4)
        s.b = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))
        s.o = nn.ConvTranspose3d(32, 2, 4, 4)

    def forward(s, x):
        h = s.p(x)
        sh = h.shape
        h = h.flatten(2).mT
        hs = []
        for b in s.b:
            h = b(h)
            hs.append(h)
        return s.o(sum(hs).mT.reshape(sh))


@add
def unetr():
    return Unetr(), (R(1, 1, 16, 16, 16),)


class LitModel(nn.Module):  # lightning
    def __init__(s, lr=1e-3):
        super().__init__()
        s.hparams_ = {"lr": lr}
        s.net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        s.example_input_array = R(2, 1, 28, 28)

    def training_step(s, b, i):
        x, y = b
        return F.cross_entropy(s(x), y)

    def configure_optimizers(s):
        return torch.optim.Adam(s.parameters(), lr=s.hparams_["lr"])

    def forward(s, x):
        return s.net(x)


@add
def lightning():
    return LitModel(), None


class LitBatch(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 8)

    def forward(s, batch):
        x, (y, z) = batch["image"], batch["pair"]
        return {"logits": s.a(x) + s.a(y) * z, "aux": [s.a(z)]}


@add
def dict_batch():
    return LitBatch(), ({"image": R(2, 8), "pair": (R(2, 8), R(2, 8))},)


class Ema(nn.Module):
    def __init__(s):
        super().__init__()
        s.net = nn.Linear(8, 4)
        s.ema = __import__("copy").deepcopy(s.net).requires_grad_(False)
        s.k = 0.99

    def forward(s, x):
        if s.training:
            for a, b in zip(s.ema.parameters(), s.net.parameters()):
                a.data.mul_(s.k).add_(b.data, alpha=1 - s.k)
        return s.ema(x).detach()


@add
def ema():
    return Ema(), (R(2, 8),)


class Vq(nn.Module):
    def __init__(s):
        super().__init__()
        s.c = nn.Embedding(64, 16)

    def forward(s, x):
        f = x.permute(0, 2, 3, 1).reshape(-1, 16)
        d = f.pow(2).sum(1, keepdim=True) - 2 * f @ s.c.weight.t() + s.c.weight.pow(2).sum(1)
        i = d.argmin(1)
        q = s.c(i).view(x.shape[0], x.shape[2], x.shape[3], 16).permute(0, 3, 1, 2)
        return x + (q - x).detach(), i


@add
def vq():
    return Vq(), (R(2, 16, 4, 4),)


class Mamba1(nn.Module):
    def __init__(s, d=16, n=4):
        super().__init__()
        s.i = nn.Linear(d, 2 * d)
        s.c = nn.Conv1d(d, d, 4, groups=d, padding=3)
        s.x = nn.Linear(d, 1 + 2 * n)
        s.dt = nn.Linear(1, d)
        s.A = nn.Parameter(R(d, n))
        s.o = nn.Linear(d, d)

    def forward(s, u):
        x, z = s.i(u).chunk(2, -1)
        x = F.silu(s.c(x.mT)[..., : u.shape[1]].mT)
        dt, B, C = s.x(x).split([1, 4, 4], -1)
        dt = F.softplus(s.dt(dt))
        h = torch.zeros(u.shape[0], 16, 4)
        ys = []
        for t in range(u.shape[1]):
            h = torch.exp(dt[:, t, :, None] * -s.A.exp()) * h + dt[:, t, :, None] * B[:, t, None] * x[:, t, :, None]
            ys.append((h * C[:, t, None]).sum(-1))
        return s.o(torch.stack(ys, 1) * F.silu(z))


@add
def mamba_loop():
    return Mamba1(), (R(2, 12, 16),)


class EarlyExit(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 8)
        s.h = nn.Linear(8, 3)
        s.b = nn.Linear(8, 8)

    def forward(s, x):
        y = s.h(s.a(x))
        if y.softmax(-1).max() > 0.9:
            return y
        return s.h(s.b(s.a(x)))


@add
def early_exit():
    return EarlyExit(), (R(2, 8),)


class WhileConverge(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Linear(8, 8)

    def forward(s, x):
        z = torch.zeros_like(x)
        while True:
            n = torch.tanh(s.f(z) + x)
            if (n - z).norm() < 1e-3:
                return n
            z = n


@add
def deq():
    return WhileConverge(), (R(2, 8),)


class Detr(nn.Module):
    def __init__(s):
        super().__init__()
        s.b = nn.Conv2d(3, 32, 8, 8)
        s.q = nn.Embedding(10, 32)
        s.t = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
        s.c = nn.Linear(32, 5)
        s.r = nn.Parameter(R(8, 16))
        s.cc = nn.Parameter(R(8, 16))

    def forward(s, images):
        if isinstance(images, (list, tuple)):
            images = torch.stack(images)
        f = s.b(images)
        H, W = f.shape[-2:]
        p = torch.cat([s.cc[:W].unsqueeze(0).repeat(H, 1, 1), s.r[:H].unsqueeze(1).repeat(1, W, 1)], -1).flatten(0, 1)
        h = s.t(f.flatten(2).mT + p, s.q.weight[None].repeat(f.shape[0], 1, 1))
        return {"pred_logits": s.c(h), "pred_boxes": h[..., :4].sigmoid()}


@add
def detr_list():
    return Detr(), ([R(3, 32, 32), R(3, 32, 32)],)


class Nms(nn.Module):
    def __init__(s):
        super().__init__()
        s.h = nn.Conv2d(3, 5, 8, 8)

    def forward(s, x):
        y = s.h(x).flatten(2).mT
        k = y[..., 4].topk(5, -1)[1]
        return y.gather(1, k[..., None].expand(-1, -1, 5))


@add
def topk_boxes():
    return Nms(), (R(2, 3, 64, 64),)


class SpectralConv(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.rand(8, 8, 4, 4, dtype=torch.cfloat))

    def forward(s, x):
        f = torch.fft.rfft2(x)
        o = torch.zeros(x.shape[0], 8, x.shape[2], x.shape[3] // 2 + 1, dtype=torch.cfloat)
        o[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", f[:, :, :4, :4], s.w)
        return torch.fft.irfft2(o, s=x.shape[-2:])


@add
def fno():
    return SpectralConv(), (R(2, 8, 16, 16),)


class Lora(nn.Module):
    def __init__(s):
        super().__init__()
        s.b = nn.Linear(32, 32)
        s.b.requires_grad_(False)
        s.A = nn.ParameterDict({"default": nn.Parameter(R(4, 32))})
        s.B = nn.ParameterDict({"default": nn.Parameter(R(32, 4))})
        s.active = ["default"]

    def forward(s, x, *a, **k):
        y = s.b(x, *a, **k)
        for n in s.active:
            y = y + F.linear(F.linear(x, s.A[n]), s.B[n]) * 2
        return y


@add
def lora():
    return Lora(), (R(2, 32),)


class HookNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 8)
        s.f = {}
        s.a.register_forward_hook(lambda m, i, o: s.f.__setitem__("a", o))

    def forward(s, x):
        s.a(x)
        return s.f["a"].relu()


@add
def hooks():
    return HookNet(), (R(2, 8),)


class ConvLstm(nn.Module):
    def __init__(s):
        super().__init__()
        s.c = nn.Conv2d(3 + 8, 32, 3, padding=1)

    def forward(s, x):
        B, T_, C, H, W = x.size()
        h = c = x.new_zeros(B, 8, H, W)
        o = []
        for t in range(T_):
            i, f, g, q = s.c(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = q.sigmoid() * c.tanh()
            o.append(h)
        return torch.stack(o, 1)


@add
def convlstm():
    return ConvLstm(), (R(2, 4, 3, 8, 8),)


class BiLstmCrf(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(50, 16, padding_idx=0)
        s.l = nn.LSTM(16, 16, 2, bidirectional=True, batch_first=True)
        s.o = nn.Linear(32, 5)
        s.t = nn.Parameter(R(5, 5))

    def forward(s, x):
        e = s.o(s.l(s.e(x))[0])
        a = e[:, 0]
        for t in range(1, e.shape[1]):
            a = torch.logsumexp(a[:, :, None] + s.t + e[:, t, None], 1)
        return torch.logsumexp(a, 1)


@add
def bilstm_crf():
    return BiLstmCrf(), (torch.randint(1, 49, (2, 9)),)


class PixelDecoder(nn.Module):
    def __init__(s):
        super().__init__()
        s.c = nn.ModuleDict({f"l{i}": nn.Conv2d(c, 16, 1) for i, c in enumerate((8, 16, 32))})

    def forward(s, feats: T.Dict[str, torch.Tensor]):
        y = None
        for k in sorted(feats, reverse=True):
            z = s.c[k](feats[k])
            y = z if y is None else z + F.interpolate(y, size=z.shape[-2:], mode="bilinear", align_corners=False)
        return y


@add
def fpn_dict():
    return PixelDecoder(), ({"l0": R(2, 8, 32, 32), "l1": R(2, 16, 16, 16), "l2": R(2, 32, 8, 8)},)


class Grid(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(6, 6)
        s.c = nn.Conv2d(3, 8, 3)

    def forward(s, x):
        th = s.l(x.mean((2, 3)).repeat(1, 2)).view(-1, 2, 3)
        return s.c(F.grid_sample(x, F.affine_grid(th, x.size(), align_corners=False), align_corners=False))


@add
def stn():
    return Grid(), (R(2, 3, 16, 16),)


class RoutedMlp(nn.Module):
    def __init__(s, d=32, f=64):
        super().__init__()
        s.g = nn.Linear(d, f, False)
        s.u = nn.Linear(d, f, False)
        s.o = nn.Linear(f, d, False)

    def forward(s, x):
        return s.o(F.silu(s.g(x)) * s.u(x))


class Routed(nn.Module):
    def __init__(s, d=32, e=8, k=2):
        super().__init__()
        s.k = k
        s.e = e
        s.r = nn.Linear(d, e, False)
        s.x = nn.ModuleList(RoutedMlp(d) for _ in range(e))


class Mixtral(Routed):  # of transformers 4.3x
    def forward(s, h):
        B, L, D = h.shape
        h = h.view(-1, D)
        p = F.softmax(s.r(h), 1, dtype=torch.float)
        w, i = torch.topk(p, s.k, -1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros((B * L, D), dtype=h.dtype, device=h.device)
        m = F.one_hot(i, num_classes=s.e).permute(2, 1, 0)
        for e in range(s.e):
            idx, top = torch.where(m[e])
            cur = h[None, top].reshape(-1, D)
            y = s.x[e](cur) * w[top, idx, None]
            out.index_add_(0, top, y.to(h.dtype))
        return out.reshape(B, L, D)


class MixtralHit(Routed):  # 4.5x: only those hit
    def forward(s, h):
        B, L, D = h.shape
        h = h.view(-1, D)
        p = F.softmax(s.r(h), 1, dtype=torch.float)
        w, i = torch.topk(p, s.k, -1)
        out = torch.zeros_like(h)
        m = F.one_hot(i, num_classes=s.e).permute(2, 1, 0)
        hit = torch.greater(m.sum(dim=(-1, -2)), 0).nonzero()
        for e in hit:
            idx, top = torch.where(m[e].squeeze(0))
            cur = h[None, top].reshape(-1, D)
            y = s.x[e](cur) * w[top, idx, None]
            out.index_add_(0, top, y)
        return out.reshape(B, L, D)


class Continue(Routed):
    def forward(s, h):
        B, L, D = h.shape
        h = h.view(-1, D)
        w, i = torch.topk(s.r(h).softmax(-1), s.k)
        out = torch.zeros_like(h)
        for e, net in enumerate(s.x):
            t, n = torch.where(i == e)
            if t.numel() == 0:
                continue
            out[t] += net(h[t]) * w[t, n, None]
        return out.view(B, L, D)


class AnyMask(Routed):
    def forward(s, h):
        w, i = torch.topk(s.r(h).softmax(-1), s.k)
        out = torch.zeros_like(h)
        for e, net in enumerate(s.x):
            m = (i == e).any(-1)
            if m.any():
                out[m] += net(h[m]) * (w * (i == e)).sum(-1)[m].unsqueeze(-1)
        return out


class NonzeroTop1(Routed):
    def forward(s, h):
        p = s.r(h).softmax(-1)
        w, i = p.max(-1)
        out = torch.zeros_like(h)
        for e, net in enumerate(s.x):
            t = (i == e).nonzero(as_tuple=True)
            out[t] = net(h[t]) * w[t].unsqueeze(-1)
        return out


class DeepSeek(Routed):
    def forward(s, h):
        sh = h.shape
        h = h.view(-1, sh[-1])
        w, i = torch.topk(s.r(h).sigmoid(), s.k, -1)
        y = torch.zeros_like(h)
        counts = torch.bincount(i.flatten(), minlength=s.e).tolist()
        for e in range(s.e):
            if counts[e] == 0:
                continue
            t, top = torch.where(i == e)
            y[t] += s.x[e](h[t]) * w[t, top, None]
        return y.view(sh)


class MoeInfer(Routed):  # DeepSeek-V2 remote code
    def forward(s, h):
        sh = h.shape
        x = h.view(-1, sh[-1])
        w, ids = torch.topk(s.r(x).softmax(-1), s.k, -1, sorted=False)
        cnts = ids.new_zeros((ids.shape[0], s.e))
        cnts.scatter_(1, ids, 1)
        tpe = cnts.sum(0)
        idxs = ids.view(-1).argsort()
        st = x[idxs // ids.shape[1]]
        outs = []
        a = 0
        for e, n in enumerate(tpe.cpu().numpy()):
            b = a + n
            if n == 0:
                continue
            outs.append(s.x[e](st[a:b]))
            a = b
        o = torch.cat(outs) if outs else st.new_empty(0)
        nx = torch.empty_like(o)
        nx[idxs] = o
        return (nx.view(*ids.shape, -1) * w.unsqueeze(-1)).sum(1).view(sh)


class Switch(Routed):
    def forward(s, h):
        p = s.r(h).softmax(-1)
        i = p.argmax(-1)
        m = F.one_hot(i, s.e)
        nxt = torch.zeros_like(h)
        for e in range(s.e):
            t = m[..., e].bool()
            nxt[t] = s.x[e](h[t])
        return nxt * p.max(-1, keepdim=True).values


class Split(Routed):  # megablocks-like / torchtune: sort and split
    def forward(s, h):
        sh = h.shape
        x = h.view(-1, sh[-1])
        w, i = torch.topk(s.r(x).softmax(-1), s.k, -1)
        f = i.view(-1)
        o = torch.argsort(f, stable=True)
        n = torch.bincount(f, minlength=s.e)
        parts = torch.split(x[o // s.k], n.tolist())
        y = torch.cat([s.x[e](p) for e, p in enumerate(parts)])
        y = y * w.view(-1)[o].unsqueeze(-1)
        return torch.zeros_like(x).scatter_add(0, (o // s.k).unsqueeze(-1).expand_as(y), y).view(sh)


def _strangers():
    def build(make):
        module, given = make()
        return module, module.example_input_array if given is None else given

    return {name: partial(build, make) for name, make in M.items()}


ALL: dict[str, Callable[[], dict[str, Build]]] = {
    "written, by strangers": _strangers,
    "written, experts in a loop": lambda: {
        kind.__name__: partial(lambda k: (k(), R(2, 16, 32)), kind)
        for kind in (Mixtral, MixtralHit, Continue, AnyMask, NonzeroTop1, DeepSeek, MoeInfer, Switch, Split)
    },
}
