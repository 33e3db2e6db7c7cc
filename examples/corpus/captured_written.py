"""Models in the style of popular repositories, which bench_captures.py tries too: diffusion, vision and language,
state spaces, points and graphs, speech, recommendation, agents, tables, experts, attention, numbers of few bits."""

# Written as such repositories are: short names, no types.
# mypy: ignore-errors
# ruff: noqa

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from examples.corpus.captured_families import Build


def t(*shape):
    return torch.rand(*shape)


def ids(*shape, high=100):
    return torch.randint(0, high, shape)


class ResBlock(nn.Module):
    def __init__(self, i, o, temb):
        super().__init__()
        self.n1, self.c1 = (nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1))
        self.temb = nn.Linear(temb, 2 * o)
        self.n2, self.c2 = (nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, emb):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.temb(F.silu(emb))[:, :, None, None].chunk(2, 1)
        h = self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        return h + self.skip(x)


class SelfAttn2d(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.qkv = nn.Conv1d(c, 3 * c, 1)
        self.proj = nn.Conv1d(c, c, 1)
        self.h = heads

    def forward(self, x):
        b, c, *s = x.shape
        y = self.norm(x).reshape(b, c, -1)
        q, k, v = self.qkv(y).reshape(b * self.h, 3 * c // self.h, -1).chunk(3, 1)
        s2 = (c // self.h) ** (-0.25)
        w = torch.softmax(torch.einsum("bct,bcs->bts", q * s2, k * s2).float(), -1).type(v.dtype)
        a = torch.einsum("bts,bcs->bct", w, v).reshape(b, c, -1)
        return x + self.proj(a).reshape(b, c, *s)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.cos(), a.sin()], -1)


class GuidedUNet(nn.Module):
    def __init__(self, c=32, mults=(1, 2, 2), classes=10):
        super().__init__()
        self.c = c
        e = 4 * c
        self.temb = nn.Sequential(nn.Linear(c, e), nn.SiLU(), nn.Linear(e, e))
        self.label = nn.Embedding(classes, e)
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.ModuleList()
        chans = [c]
        ch = c
        for l, m in enumerate(mults):
            for _ in range(2):
                self.down.append(nn.ModuleList([ResBlock(ch, m * c, e)] + ([SelfAttn2d(m * c)] if l == 1 else [])))
                ch = m * c
                chans.append(ch)
            if l < len(mults) - 1:
                self.down.append(nn.ModuleList([nn.Conv2d(ch, ch, 3, 2, 1)]))
                chans.append(ch)
        self.mid = nn.ModuleList([ResBlock(ch, ch, e), SelfAttn2d(ch), ResBlock(ch, ch, e)])
        self.up = nn.ModuleList()
        for l, m in reversed(list(enumerate(mults))):
            for i in range(3):
                layers = [ResBlock(ch + chans.pop(), m * c, e)]
                ch = m * c
                if i == 2 and l:
                    layers.append(nn.Upsample(scale_factor=2))
                self.up.append(nn.ModuleList(layers))
        self.out = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, 6, 3, padding=1))

    def run(self, layers, x, emb):
        for layer in layers:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x

    def forward(self, x, timesteps, y=None):
        emb = self.temb(timestep_embedding(timesteps, self.c))
        if y is not None:
            emb = emb + self.label(y)
        h = self.inp(x)
        hs = [h]
        for d in self.down:
            h = self.run(d, h, emb)
            hs.append(h)
        h = self.run(self.mid, h, emb)
        for u in self.up:
            h = self.run(u, torch.cat([h, hs.pop()], 1), emb)
        return self.out(h)


class DiTBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x, c):
        a, b, g, d, e, f = self.ada(c)[:, None].chunk(6, -1)
        y = self.n1(x) * (1 + b) + a
        x = x + g * self.attn(y, y, y, need_weights=False)[0]
        return x + f * self.mlp(self.n2(x) * (1 + e) + d)


class DiT(nn.Module):
    def __init__(self, d=128, depth=3, p=2, size=16):
        super().__init__()
        self.p = p
        self.patch = nn.Conv2d(4, d, p, p)
        self.pos = nn.Parameter(torch.randn(1, (size // p) ** 2, d))
        self.t = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks = nn.ModuleList((DiTBlock(d, 4) for _ in range(depth)))
        self.final = nn.Linear(d, p * p * 4)
        self.d = d

    def velocity(self, x, tt):
        b, c, h, w = x.shape
        y = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        e = self.t(timestep_embedding(tt, self.d))
        for blk in self.blocks:
            y = blk(y, e)
        y = self.final(y).reshape(b, h // self.p, w // self.p, self.p, self.p, 4)
        return torch.einsum("nhwpqc->nchpwq", y).reshape(b, 4, h, w)

    def forward(self, x, steps: int = 4):
        for i in range(steps):
            tt = torch.full((x.shape[0],), i / steps, device=x.device)
            x = x + self.velocity(x, tt) / steps
        return x


class ModConv(nn.Module):
    def __init__(self, i, o, k=3, s=64):
        super().__init__()
        self.w = nn.Parameter(torch.randn(1, o, i, k, k))
        self.a = nn.Linear(s, i)
        self.k = k

    def forward(self, x, s):
        b, c, h, w = x.shape
        st = self.a(s).view(b, 1, c, 1, 1)
        wt = self.w * (st + 1)
        wt = wt * torch.rsqrt(wt.pow(2).sum([2, 3, 4], keepdim=True) + 1e-08)
        y = F.conv2d(x.reshape(1, b * c, h, w), wt.reshape(-1, c, self.k, self.k), padding=self.k // 2, groups=b)
        return y.reshape(b, -1, h, w)


class StyleGAN2(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Sequential(*[l for _ in range(4) for l in (nn.Linear(64, 64), nn.LeakyReLU(0.2))])
        self.const = nn.Parameter(torch.randn(1, 64, 4, 4))
        self.convs = nn.ModuleList((ModConv(64, 64) for _ in range(3)))
        self.rgb = ModConv(64, 3, 1)

    def forward(self, z):
        s = self.map(z / z.norm(dim=1, keepdim=True))
        x = self.const.repeat(z.shape[0], 1, 1, 1)
        img = None
        for c in self.convs:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            x = F.leaky_relu(c(x, s) + torch.randn(x.shape[0], 1, *x.shape[2:], device=x.device) * 0.1, 0.2)
            y = self.rgb(x, s)
            img = y if img is None else y + F.interpolate(img, scale_factor=2)
        return img


class Llava(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.vis = nn.Sequential(nn.Conv2d(3, 64, 16, 16), nn.Flatten(2))
        self.proj = nn.Sequential(nn.Linear(64, d), nn.GELU(), nn.Linear(d, d))
        self.tok = nn.Embedding(100, d)
        self.lm = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 4, batch_first=True), 2, enable_nested_tensor=False
        )
        self.head = nn.Linear(d, 100, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, input_ids, pixel_values):
        img = self.proj(self.vis(pixel_values).transpose(1, 2))
        e = self.tok(input_ids)
        mask = (input_ids == 7)[..., None].expand_as(e)
        e = e.masked_scatter(mask, img)
        return self.head(
            self.lm(e, mask=nn.Transformer.generate_square_subsequent_mask(e.shape[1], device=e.device), is_causal=True)
        )


class Flamingo(nn.Module):
    def __init__(self, d=64, n=8):
        super().__init__()
        self.lat = nn.Parameter(torch.randn(n, d))
        self.x = nn.MultiheadAttention(d, 4, batch_first=True, kdim=32, vdim=32)
        self.gate = nn.Parameter(torch.zeros(1))
        self.c = nn.MultiheadAttention(d, 4, batch_first=True)
        self.tok = nn.Embedding(50, d)

    def forward(self, text, features):
        l, _ = self.x(self.lat.expand(features.shape[0], -1, -1), features, features)
        h = self.tok(text)
        return h + torch.tanh(self.gate) * self.c(h, l, l)[0]


class SelectiveScan(nn.Module):
    def __init__(self, d=64, n=16, r=4):
        super().__init__()
        self.inp = nn.Linear(d, 4 * d, bias=False)
        e = 2 * d
        self.conv = nn.Conv1d(e, e, 4, groups=e, padding=3)
        self.xp = nn.Linear(e, r + 2 * n, bias=False)
        self.dt = nn.Linear(r, e)
        self.A = nn.Parameter(torch.rand(e, n))
        self.D = nn.Parameter(torch.ones(e))
        self.out = nn.Linear(e, d, bias=False)
        self.n, self.r = (n, r)

    def forward(self, x):
        b, l, _ = x.shape
        u, z = self.inp(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :l]).transpose(1, 2)
        dt, B, C = self.xp(u).split([self.r, self.n, self.n], -1)
        dt = F.softplus(self.dt(dt))
        dA = torch.exp(torch.einsum("bld,dn->bldn", dt, -torch.exp(self.A)))
        dB = torch.einsum("bld,bln,bld->bldn", dt, B, u)
        h = torch.zeros(b, dA.shape[2], self.n, device=x.device)
        ys = []
        for i in range(l):
            h = dA[:, i] * h + dB[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i]))
        return self.out((torch.stack(ys, 1) + u * self.D) * F.silu(z))


class S4D(nn.Module):
    def __init__(self, h=32, n=16):
        super().__init__()
        self.C = nn.Parameter(torch.randn(h, n // 2, 2))
        self.dt = nn.Parameter(torch.rand(h))
        self.are = nn.Parameter(torch.rand(h, n // 2))
        self.aim = nn.Parameter(torch.rand(h, n // 2))
        self.out = nn.Sequential(nn.Conv1d(h, 2 * h, 1), nn.GLU(1))

    def forward(self, u):
        L = u.shape[-1]
        dt = self.dt.exp()
        C = torch.view_as_complex(self.C)
        A = -self.are.exp() + 1j * self.aim
        dtA = A * dt[:, None]
        K = dtA[..., None] * torch.arange(L, device=u.device)
        C = C * (torch.exp(dtA) - 1) / A
        K = 2 * torch.einsum("hn,hnl->hl", C, torch.exp(K)).real
        kf = torch.fft.rfft(K, n=2 * L)
        uf = torch.fft.rfft(u, n=2 * L)
        return self.out(F.gelu(torch.fft.irfft(uf * kf, n=2 * L)[..., :L]))


class RetNet(nn.Module):
    def __init__(self, d=64, h=4):
        super().__init__()
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, 2 * d, bias=False)
        self.g = nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(2 * d, d, bias=False)
        self.gn = nn.GroupNorm(h, 2 * d, affine=False)
        self.h = h
        self.register_buffer("gamma", 1 - torch.exp(torch.linspace(-3.4, -6.2, h)))

    def forward(self, x):
        b, n, d = x.shape
        sp = lambda y: y.view(b, n, self.h, -1).transpose(1, 2)
        i = torch.arange(n, device=x.device)
        D = torch.where(i[:, None] >= i, self.gamma[:, None, None] ** (i[:, None] - i).float(), 0.0)
        y = sp(self.q(x)) @ sp(self.k(x)).mT * D @ sp(self.v(x))
        y = self.gn(y.transpose(1, 2).reshape(b * n, -1)).view(b, n, -1)
        return self.o(F.silu(self.g(x)) * y)


class XLSTM(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.g = nn.Linear(d, 2 * h)
        self.h = h
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, l, d = x.shape
        q, k, v = self.qkv(x).view(b, l, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i, f = self.g(x).transpose(1, 2).chunk(2, 1)
        lf = F.logsigmoid(f).cumsum(-1)
        D = (lf[..., :, None] - lf[..., None, :] + i[..., None, :]).masked_fill(
            torch.ones(l, l, dtype=torch.bool, device=x.device).triu(1), -torch.inf
        )
        m = D.amax(-1, keepdim=True)
        S = q @ k.mT / math.sqrt(d / self.h) * torch.exp(D - m)
        n = torch.maximum(S.sum(-1, keepdim=True).abs(), torch.exp(-m))
        return self.o((S / n @ v).transpose(1, 2).reshape(b, l, d))


class GatedDelta(nn.Module):
    def __init__(self, d=64, h=2):
        super().__init__()
        self.p = nn.Linear(d, 3 * d + 2 * h)
        self.h = h

    def forward(self, x):
        b, l, d = x.shape
        q, k, v, be, a = self.p(x).split([d, d, d, self.h, self.h], -1)
        f = lambda y: y.view(b, l, self.h, -1).transpose(1, 2)
        q, k, v = (F.normalize(f(q), dim=-1), F.normalize(f(k), dim=-1), f(v))
        be = be.sigmoid().transpose(1, 2)
        a = F.logsigmoid(a).transpose(1, 2)
        S = torch.zeros(b, self.h, d // self.h, d // self.h, device=x.device)
        o = []
        for i in range(l):
            S = S * a[:, :, i, None, None].exp()
            u = (v[:, :, i] - (S * k[:, :, i, :, None]).sum(-2)) * be[:, :, i, None]
            S = S + k[:, :, i, :, None] * u[:, :, None]
            o.append(torch.einsum("bhkv,bhk->bhv", S, q[:, :, i]))
        return torch.stack(o, 2)


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.c = nn.Sequential(nn.Conv1d(k, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, k * k))
        self.k = k

    def forward(self, x):
        return self.f(self.c(x).max(2)[0]).view(-1, self.k, self.k) + torch.eye(self.k, device=x.device)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = TNet(3)
        self.b = TNet(64)
        self.c1 = nn.Conv1d(3, 64, 1)
        self.c2 = nn.Conv1d(64, 512, 1)
        self.h = nn.Linear(512, 40)

    def forward(self, pts):
        x = torch.bmm(pts.transpose(2, 1), self.a(pts)).transpose(2, 1)
        x = F.relu(self.c1(x))
        x = torch.bmm(x.transpose(2, 1), self.b(x)).transpose(2, 1)
        return F.log_softmax(self.h(self.c2(x).amax(-1)), -1)


class DGCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Sequential(nn.Conv2d(6, 64, 1, bias=False), nn.BatchNorm2d(64), nn.LeakyReLU(0.2))
        self.c2 = nn.Conv2d(128, 64, 1)

    def feat(self, x, k=8):
        b, c, n = x.shape
        inner = -2 * x.transpose(2, 1) @ x
        xx = (x**2).sum(1, keepdim=True)
        idx = (-xx - inner - xx.transpose(2, 1)).topk(k)[1]
        idx = (idx + torch.arange(b, device=x.device).view(-1, 1, 1) * n).view(-1)
        y = x.transpose(2, 1).reshape(b * n, -1)[idx].view(b, n, k, c)
        z = x.transpose(2, 1).unsqueeze(2).expand(-1, -1, k, -1)
        return torch.cat([y - z, z], 3).permute(0, 3, 1, 2)

    def forward(self, x):
        h = self.c1(self.feat(x)).max(-1)[0]
        return self.c2(self.feat(h)).max(-1)[0]


class PointTransformer(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.d = nn.Sequential(nn.Linear(3, d), nn.ReLU(), nn.Linear(d, d))
        self.g = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, xyz, f):
        idx = torch.cdist(xyz, xyz).argsort()[:, :, :8]
        gather = lambda p: torch.gather(p, 1, idx.reshape(idx.shape[0], -1, 1).expand(-1, -1, p.shape[-1])).view(
            *idx.shape, -1
        )
        pos = self.d(xyz[:, :, None] - gather(xyz))
        a = self.g(self.q(f)[:, :, None] - gather(self.k(f)) + pos).softmax(-2)
        return torch.einsum("bmnf,bmnf->bmf", a, gather(self.v(f)) + pos)


class GAT(nn.Module):
    def __init__(self, i=16, o=32, h=4):
        super().__init__()
        self.w = nn.Linear(i, h * o, bias=False)
        self.a = nn.Parameter(torch.randn(1, h, o))
        self.b = nn.Parameter(torch.randn(1, h, o))
        self.h, self.o = (h, o)

    def forward(self, x, edge_index):
        n = x.size(0)
        s, d = edge_index
        z = self.w(x).view(n, self.h, self.o)
        e = F.leaky_relu((z * self.a).sum(-1)[s] + (z * self.b).sum(-1)[d], 0.2)
        m = torch.full((n, self.h), -1000000000.0, device=x.device).scatter_reduce(
            0, d[:, None].expand_as(e), e, "amax"
        )
        p = (e - m[d]).exp()
        den = torch.zeros(n, self.h, device=x.device).index_add(0, d, p)
        al = p / (den[d] + 1e-16)
        return torch.zeros_like(z).index_add(0, d, z[s] * al[..., None]).flatten(1)


def ring(n=64):
    i = torch.arange(n)
    return torch.stack([i, (i + 1) % n])


class SchNet(nn.Module):
    def __init__(self, d=32, g=25):
        super().__init__()
        self.e = nn.Embedding(100, d)
        self.f = nn.Sequential(nn.Linear(g, d), nn.Softplus(), nn.Linear(d, d))
        self.a = nn.Linear(d, d)
        self.b = nn.Linear(d, 1)
        self.register_buffer("off", torch.linspace(0, 5, g))

    def forward(self, z, pos, edge_index):
        i, j = edge_index
        r = (pos[i] - pos[j]).norm(dim=-1)
        w = (
            self.f(torch.exp(-10 * (r[:, None] - self.off) ** 2))
            * (0.5 * (torch.cos(r * math.pi / 5) + 1) * (r < 5))[:, None]
        )
        h = self.e(z)
        h = h + torch.zeros_like(h).index_add(0, j, self.a(h)[i] * w)
        return self.b(h).sum()


class ConvModule(nn.Module):
    def __init__(self, d, k=15):
        super().__init__()
        self.n = nn.LayerNorm(d)
        self.a = nn.Conv1d(d, 2 * d, 1)
        self.d = nn.Conv1d(d, d, k, padding=k // 2, groups=d)
        self.bn = nn.BatchNorm1d(d)
        self.b = nn.Conv1d(d, d, 1)

    def forward(self, x):
        return self.b(F.silu(self.bn(self.d(F.glu(self.a(self.n(x).transpose(1, 2)), 1))))).transpose(1, 2)


class RelAttn(nn.Module):
    def __init__(self, d, h=4):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.p = nn.Linear(d, d, bias=False)
        self.u = nn.Parameter(torch.zeros(h, d // h))
        self.w = nn.Parameter(torch.zeros(h, d // h))
        self.h = h
        self.o = nn.Linear(d, d)

    def forward(self, x, pos):
        b, n, d = x.shape
        f = lambda y: y.view(b, -1, self.h, d // self.h)
        q = f(self.q(x))
        k = f(self.k(x)).transpose(1, 2)
        v = f(self.v(x)).transpose(1, 2)
        p = self.p(pos).view(1, -1, self.h, d // self.h).transpose(1, 2)
        ac = (q + self.u).transpose(1, 2) @ k.mT
        bd = (q + self.w).transpose(1, 2) @ p.mT
        z = F.pad(bd, (1, 0)).view(b, self.h, -1, n)[:, :, 1:].view_as(bd)[..., :n]
        return (
            self.o(((ac + z) / math.sqrt(d // self.h)).softmax(-1) @ v).transpose(1, 2)
            if False
            else self.o((((ac + z) / math.sqrt(d // self.h)).softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        )


class Conformer(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, d, 3, 2), nn.ReLU(), nn.Conv2d(d, d, 3, 2), nn.ReLU())
        self.lin = nn.Linear(d * 19, d)
        self.f1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
        self.at = RelAttn(d)
        self.c = ConvModule(d)
        self.ctc = nn.Linear(d, 500)
        self.d = d

    def forward(self, feats):
        x = self.sub(feats[:, None])
        b, c, tt, f = x.shape
        x = self.lin(x.transpose(1, 2).reshape(b, tt, c * f))
        pe = timestep_embedding(torch.arange(tt - 1, -tt, -1, device=x.device), self.d)[None]
        x = x + 0.5 * self.f1(x)
        x = x + self.at(x, pe)
        return self.ctc(x + self.c(x)).log_softmax(-1)


class Tacotron(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.e = nn.Embedding(50, d)
        self.enc = nn.LSTM(d, d // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(d + 80, d)
        self.q = nn.Linear(d, 32, bias=False)
        self.m = nn.Linear(d, 32, bias=False)
        self.loc = nn.Conv1d(2, 8, 31, padding=15)
        self.ll = nn.Linear(8, 32, bias=False)
        self.v = nn.Linear(32, 1, bias=False)
        self.out = nn.Linear(2 * d, 80)

    def forward(self, text, mel):
        mem, _ = self.enc(self.e(text))
        b, n, d = mem.shape
        pm = self.m(mem)
        h = c = mem.new_zeros(b, d)
        ctx = mem.new_zeros(b, d)
        w = mem.new_zeros(b, n)
        cum = mem.new_zeros(b, n)
        outs = []
        for fr in mel.unbind(2):
            h, c = self.cell(torch.cat([ctx, fr], 1), (h, c))
            l = self.ll(self.loc(torch.stack([w, cum], 1)).transpose(1, 2))
            w = self.v(torch.tanh(self.q(h)[:, None] + pm + l)).squeeze(-1).softmax(1)
            cum = cum + w
            ctx = torch.bmm(w[:, None], mem)[:, 0]
            outs.append(self.out(torch.cat([h, ctx], 1)))
        return torch.stack(outs, 2)


class DLRM(nn.Module):
    def __init__(self, d=16, tables=4):
        super().__init__()
        self.b = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, d))
        self.e = nn.ModuleList((nn.EmbeddingBag(1000, d, mode="sum") for _ in range(tables)))
        n = tables + 1
        self.t = nn.Sequential(nn.Linear(d + n * (n - 1) // 2, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, sparse, offsets):
        x = self.b(dense)
        T = torch.stack([x] + [e(sparse[i], offsets[i]) for i, e in enumerate(self.e)], 1)
        Z = torch.bmm(T, T.mT)
        i, j = torch.tril_indices(Z.shape[1], Z.shape[1], -1, device=Z.device)
        return self.t(torch.cat([x, Z[:, i, j]], 1)).sigmoid()


class DIN(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.i = nn.Embedding(1000, d)
        self.a = nn.Sequential(nn.Linear(4 * d, 36), nn.PReLU(), nn.Linear(36, 1))
        self.m = nn.Sequential(nn.BatchNorm1d(2 * d), nn.Linear(2 * d, 80), nn.PReLU(80), nn.Linear(80, 1))

    def forward(self, history, target, length):
        h = self.i(history)
        q = self.i(target)[:, None].expand_as(h)
        w = self.a(torch.cat([q, h, q - h, q * h], -1)).squeeze(-1)
        w = w.masked_fill(torch.arange(h.shape[1], device=h.device) >= length[:, None], 0)
        return self.m(torch.cat([(w[..., None] * h).sum(1), q[:, 0]], -1))


class Hstu(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.e = nn.Embedding(500, d)
        self.uvqk = nn.Linear(d, 4 * d)
        self.o = nn.Linear(d, d)
        self.b = nn.Parameter(torch.zeros(128))
        self.h = h

    def forward(self, items):
        x = self.e(items)
        b, n, d = x.shape
        u, v, q, k = F.silu(self.uvqk(F.layer_norm(x, (d,)))).split(d, -1)
        f = lambda y: y.view(b, n, self.h, -1)
        i = torch.arange(n, device=x.device)
        bias = self.b[(i[:, None] - i).abs()]
        a = F.silu(torch.einsum("bnhd,bmhd->bhnm", f(q), f(k)) + bias) / n * torch.ones(n, n, device=x.device).tril()
        return x + self.o(u * F.layer_norm(torch.einsum("bhnm,bmhd->bnhd", a, f(v)).reshape(b, n, d), (d,)))


class Ppo(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(17, 64), nn.Tanh(), nn.Linear(64, 6))
        self.v = nn.Linear(17, 1)
        self.s = nn.Parameter(torch.zeros(6))

    def forward(self, obs):
        d = torch.distributions.Normal(self.pi(obs), self.s.exp())
        a = d.rsample()
        return (a, d.log_prob(a).sum(-1), d.entropy().sum(-1), self.v(obs))


class Sac(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.Linear(17, 12)
        self.q = nn.ModuleList((nn.Sequential(nn.Linear(23, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2)))

    def forward(self, obs):
        mu, ls = self.n(obs).chunk(2, -1)
        base = torch.distributions.Independent(torch.distributions.Normal(mu, ls.clamp(-5, 2).exp()), 1)
        d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform(cache_size=1)])
        a = d.rsample()
        return (torch.min(*[q(torch.cat([obs, a], -1)) for q in self.q]), d.log_prob(a))


class Impala(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.MaxPool2d(3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.MaxPool2d(3, 2, 1),
            nn.Flatten(),
        )
        self.f = nn.Linear(32 * 16 * 16, 64)
        self.l = nn.LSTM(64 + 4, 64)
        self.p = nn.Linear(64, 4)

    def forward(self, obs, last_action, done, state):
        T, B = obs.shape[:2]
        x = torch.cat([F.relu(self.f(self.c(obs.flatten(0, 1)))).view(T, B, -1), F.one_hot(last_action, 4).float()], -1)
        out = []
        for x_t, nd in zip(x.unbind(), (1 - done.float()).unbind()):
            state = tuple((nd.view(1, -1, 1) * s for s in state))
            y, state = self.l(x_t[None], state)
            out.append(y)
        return (torch.distributions.Categorical(logits=self.p(torch.cat(out))).sample(), state)


def sparsemax(x):
    s, _ = x.sort(-1, descending=True)
    k = torch.arange(1, x.shape[-1] + 1, device=x.device)
    cs = s.cumsum(-1)
    sup = 1 + k * s > cs
    n = sup.sum(-1, keepdim=True)
    tau = (cs.gather(-1, n - 1) - 1) / n
    return (x - tau).clamp(min=0)


class TabNet(nn.Module):
    def __init__(self, f=20, d=16):
        super().__init__()
        self.bn = nn.BatchNorm1d(f)
        self.a = nn.ModuleList((nn.Sequential(nn.Linear(d, f), nn.BatchNorm1d(f)) for _ in range(3)))
        self.t = nn.ModuleList((nn.Linear(f, 4 * d) for _ in range(4)))
        self.o = nn.Linear(d, 2)
        self.d = d

    def forward(self, x):
        x = self.bn(x)
        prior = torch.ones_like(x)
        out = 0
        a = F.glu(self.t[0](x))[:, self.d :]
        for i in range(3):
            m = sparsemax(self.a[i](a) * prior)
            prior = prior * (1.3 - m)
            h = F.glu(self.t[i + 1](m * x))
            out = out + F.relu(h[:, : self.d])
            a = h[:, self.d :]
        return self.o(out)


class FTT(nn.Module):
    def __init__(self, n=6, c=(4, 7, 9), d=32):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, d))
        self.b = nn.Parameter(torch.randn(n, d))
        self.c = nn.ModuleList((nn.Embedding(k, d) for k in c))
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        self.l = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 4, 64, activation=F.relu, batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        )
        self.o = nn.Linear(d, 1)

    def forward(self, *, x_num, x_cat=None):
        x = self.w * x_num[..., None] + self.b
        if x_cat is not None:
            x = torch.cat([x] + [e(x_cat[:, i])[:, None] for i, e in enumerate(self.c)], 1)
        return self.o(self.l(torch.cat([self.cls.expand(len(x), -1, -1), x], 1))[:, 0])


class GroupedMoE(nn.Module):
    def __init__(self, d=32, e=4, k=2):
        super().__init__()
        self.g = nn.Linear(d, e)
        self.w = nn.Parameter(torch.randn(e, d, 64, dtype=torch.bfloat16))
        self.v = nn.Parameter(torch.randn(e, 64, d, dtype=torch.bfloat16))
        self.k = k

    def forward(self, x):
        w, i = self.g(x).softmax(-1).topk(self.k)
        o = i.flatten().argsort(stable=True)
        off = torch.bincount(i.flatten(), minlength=4).cumsum(0).to(torch.int32)
        h = torch._grouped_mm(x[o // self.k].bfloat16(), self.w, offs=off)
        y = torch._grouped_mm(F.silu(h), self.v, offs=off)
        return torch.zeros_like(x).index_add(0, o // self.k, y.float() * w.flatten()[o, None])


class Depth(nn.Module):
    """mixture of depths"""

    def __init__(self, d=32):
        super().__init__()
        self.r = nn.Linear(d, 1)
        self.l = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True)

    def forward(self, x):
        w, i = self.r(x).squeeze(-1).topk(x.shape[1] // 4)
        i, o = i.sort()
        g = i[..., None].expand(-1, -1, x.shape[-1])
        y = self.l(torch.gather(x, 1, g))
        return x.scatter_add(1, g, y * w.gather(1, o)[..., None])


class MSDeform(nn.Module):
    def __init__(self, d=64, h=4, l=2, p=4):
        super().__init__()
        self.s = nn.Linear(d, h * l * p * 2)
        self.a = nn.Linear(d, h * l * p)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)
        self.h, self.l, self.p = (h, l, p)

    def forward(self, q, ref, f, shapes: tuple = ((8, 8), (4, 4))):
        b, n, d = q.shape
        v = self.v(f).view(b, -1, self.h, d // self.h).split([y * x for y, x in shapes], 1)
        off = self.s(q).view(b, n, self.h, self.l, self.p, 2)
        a = self.a(q).view(b, n, self.h, -1).softmax(-1)
        g = 2 * (ref[:, :, None, None, None] + off / 8) - 1
        s = [
            F.grid_sample(
                v[i].flatten(2).transpose(1, 2).reshape(b * self.h, -1, y, x),
                g[:, :, :, i].transpose(1, 2).flatten(0, 1),
                align_corners=False,
            )
            for i, (y, x) in enumerate(shapes)
        ]
        return self.o(
            (torch.stack(s, -2).flatten(-2) * a.transpose(1, 2).reshape(b * self.h, 1, n, -1)).sum(-1).view(b, d, n).mT
        )


class Gauss(nn.Module):
    def __init__(self, n=64):
        super().__init__()
        self.xyz = nn.Parameter(torch.rand(n, 3))
        self.q = nn.Parameter(torch.rand(n, 4))
        self.s = nn.Parameter(torch.rand(n, 3))
        self.c = nn.Parameter(torch.rand(n, 3))
        self.o = nn.Parameter(torch.rand(n))

    def forward(self, view, pix):
        q = F.normalize(self.q, dim=-1)
        w, x, y, z = q.unbind(-1)
        R = torch.stack(
            [
                1 - 2 * (y * y + z * z),
                2 * (x * y - w * z),
                2 * (x * z + w * y),
                2 * (x * y + w * z),
                1 - 2 * (x * x + z * z),
                2 * (y * z - w * x),
                2 * (x * z - w * y),
                2 * (y * z + w * x),
                1 - 2 * (x * x + y * y),
            ],
            -1,
        ).view(-1, 3, 3)
        M = R * self.s.exp()[:, None]
        S = M @ M.mT
        p = F.pad(self.xyz, (0, 1), value=1.0) @ view.T
        i = p[:, 2].argsort()
        W = view[:2, :3]
        C = torch.inverse(W @ S @ W.T + 0.3 * torch.eye(2, device=pix.device))
        d = pix[:, None] - p[:, :2]
        a = (self.o.sigmoid() * torch.exp(-0.5 * torch.einsum("pgi,gij,pgj->pg", d, C, d))).clamp(max=0.99)[:, i]
        T = torch.cumprod(1 - a, 1)
        return a * T @ self.c[i]


class Flex(nn.Module):
    def __init__(self, d=64, h=4):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.h = h

    def forward(self, x, doc):
        from torch.nn.attention.flex_attention import flex_attention

        b, n, d = x.shape
        q, k, v = self.q(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4).unbind(0)
        sl = 2.0 ** (-8 / self.h * (torch.arange(self.h, device=x.device) + 1))

        def score(s, b, h, i, j):
            return torch.where((doc[i] == doc[j]) & (i >= j), s + sl[h] * (j - i), float("-inf"))

        return flex_attention(q, k, v, score_mod=score).transpose(1, 2).reshape(b, n, d)


class Varlen(nn.Module):
    def __init__(self, d=64, h=4):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.h = h

    def forward(self, x, cu):
        n = x.shape[0]
        q, k, v = self.q(x).view(n, 3, self.h, -1).permute(1, 2, 0, 3).unbind(0)
        seg = torch.bucketize(torch.arange(n, device=x.device), cu[1:], right=True)
        m = seg[:, None] == seg
        return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=m)[0].transpose(0, 1).reshape(n, -1)


class MLA(nn.Module):
    def __init__(self, d=128, h=4, r=32, dr=8, dn=16):
        super().__init__()
        self.qa = nn.Linear(d, 48)
        self.qb = nn.Linear(48, h * (dn + dr))
        self.kva = nn.Linear(d, r + dr)
        self.kvb = nn.Linear(r, h * 2 * dn)
        self.o = nn.Linear(h * dn, d)
        self.c = (h, r, dr, dn)

    def forward(self, x, cache):
        h, r, dr, dn = self.c
        b, n, _ = x.shape
        q = self.qb(F.rms_norm(self.qa(x), (48,))).view(b, n, h, -1)
        kv = torch.cat([cache, self.kva(x)], 1)
        c, kr = kv.split([r, dr], -1)
        W = self.kvb.weight.view(h, 2 * dn, r)
        qn = torch.einsum("bnhd,hdr->bnhr", q[..., :dn], W[:, :dn])
        a = (
            (torch.einsum("bnhr,bmr->bhnm", qn, c) + torch.einsum("bnhd,bmd->bhnm", q[..., dn:], kr))
            / math.sqrt(dn + dr)
        ).softmax(-1)
        return (self.o(torch.einsum("bhnr,hdr->bnhd", torch.einsum("bhnm,bmr->bhnr", a, c), W[:, dn:]).flatten(2)), kv)


class PagedKV(nn.Module):
    def __init__(self, d=64, h=4):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.h = h
        self.register_buffer("k", torch.zeros(32, 16, h, d // h))
        self.register_buffer("v", torch.zeros(32, 16, h, d // h))

    def forward(self, x, slot, table, length):
        b, d = x.shape
        q, k, v = self.q(x).view(b, 3, self.h, -1).unbind(1)
        self.k.view(-1, self.h, d // self.h)[slot] = k
        self.v.view(-1, self.h, d // self.h)[slot] = v
        K = self.k[table].flatten(1, 2)
        V = self.v[table].flatten(1, 2)
        a = (
            torch.einsum("bhd,bmhd->bhm", q, K)
            .masked_fill(torch.arange(K.shape[1], device=x.device)[None, None] >= length[:, None, None], -torch.inf)
            .softmax(-1)
        )
        return torch.einsum("bhm,bmhd->bhd", a, V).flatten(1)


class Mlp(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.a = nn.Linear(d, 4 * d)
        self.b = nn.Linear(4 * d, d)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


class Int4(nn.Module):
    def __init__(self, i=64, o=64, g=32):
        super().__init__()
        self.register_buffer("q", torch.randint(0, 255, (o, i // 2), dtype=torch.uint8))
        self.s = nn.Parameter(torch.rand(o, i // g))
        self.z = nn.Parameter(torch.rand(o, i // g))
        self.g = g

    def forward(self, x):
        w = torch.stack([self.q & 15, self.q >> 4], -1).flatten(1).to(x.dtype).unflatten(1, (-1, self.g))
        return x @ ((w - self.z[..., None]) * self.s[..., None]).flatten(1).T


class W8A8(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.register_buffer("w", torch.randint(-127, 127, (d, d), dtype=torch.int8))
        self.register_buffer("s", torch.rand(d))

    def forward(self, x):
        a = x.abs().amax(-1, keepdim=True) / 127
        q = (x / a).round().clamp(-128, 127).to(torch.int8)
        return torch._int_mm(q, self.w.t()).float() * a * self.s


class Fp8(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.register_buffer("w", torch.randn(d, d).to(torch.float8_e4m3fn))
        self.register_buffer("s", torch.tensor(0.1))

    def forward(self, x):
        a = x.abs().amax() / 448
        return torch._scaled_mm(
            (x / a).to(torch.float8_e4m3fn), self.w.t(), scale_a=a, scale_b=self.s, out_dtype=torch.bfloat16
        )


def pt2e():
    from torch.ao.quantization import QConfigMapping, get_default_qat_qconfig_mapping
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    return (
        prepare_qat_fx(
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).train(),
            get_default_qat_qconfig_mapping("x86"),
            (t(1, 3, 8, 8),),
        ),
        t(1, 3, 8, 8),
    )


def lora_param():
    import torch.nn.utils.parametrize as P

    class L(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.A = nn.Parameter(torch.randn(4, w.shape[1]))
            self.B = nn.Parameter(torch.zeros(w.shape[0], 4))

        def forward(self, w):
            return w + self.B @ self.A

    m = Mlp()
    P.register_parametrization(m.a, "weight", L(m.a.weight))
    return (m, t(1, 64))


class Ens(nn.Module):
    def __init__(self):
        super().__init__()
        ms = [Mlp() for _ in range(3)]
        p, b = torch.func.stack_module_state(ms)
        self.p = nn.ParameterDict({k.replace(".", "_"): nn.Parameter(v) for k, v in p.items()})
        self.k = list(p)
        object.__setattr__(self, "m", Mlp())

    def forward(self, x):
        return torch.vmap(lambda p, x: torch.func.functional_call(self.m, p, (x,)), in_dims=(0, None))(
            {k: self.p[k.replace(".", "_")] for k in self.k}, x
        ).mean(0)


class AutoCorr(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)

    def forward(self, x):
        q, k, v = self.q(x).chunk(3, -1)
        c = torch.fft.irfft(torch.fft.rfft(q, dim=1) * torch.fft.rfft(k, dim=1).conj(), n=x.shape[1], dim=1).mean(-1)
        w, i = c.topk(3, 1)
        n = x.shape[1]
        idx = (torch.arange(n, device=x.device)[None, :, None] + i[:, None]) % n
        return (
            torch.gather(v[:, :, None].expand(-1, -1, 3, -1), 1, idx[..., None].expand(-1, -1, -1, v.shape[-1]))
            * w.softmax(-1)[:, None, :, None]
        ).sum(2)


class PatchTST(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Linear(16, 64)
        self.l = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.h = nn.Linear(64 * 11, 24)

    def forward(self, x):
        m = x.mean(1, keepdim=True)
        s = (x.var(1, keepdim=True, unbiased=False) + 1e-05).sqrt()
        y = ((x - m) / s).mT.unfold(-1, 16, 8)
        b, c, n, _ = y.shape
        return self.h(self.l(self.p(y).flatten(0, 1)).flatten(1)).view(b, c, -1).mT * s + m


_BUILDS: dict[str, dict[str, Build]] = {
    "written, diffusion": {
        "guided UNet": lambda: (
            GuidedUNet(),
            {"x": t(1, 3, 32, 32), "timesteps": torch.tensor([10]), "y": torch.tensor([3])},
        ),
        "DiT, four Euler steps": lambda: (DiT(), t(1, 4, 16, 16)),
        "StyleGAN2 generator": lambda: (StyleGAN2(), t(1, 64)),
    },
    "written, vision and language": {
        "LLaVA, masked_scatter": lambda: (Llava(), {"input_ids": ids(1, 32), "pixel_values": t(1, 3, 64, 64)}),
        "Perceiver resampler, gated cross attention": lambda: (
            Flamingo(),
            {"text": ids(1, 12, high=50), "features": t(1, 49, 32)},
        ),
    },
    "written, state space": {
        "Mamba, loop": lambda: (SelectiveScan(), t(1, 32, 64)),
        "S4D": lambda: (S4D(), t(1, 32, 64)),
        "RetNet, parallel": lambda: (RetNet(), t(1, 32, 64)),
        "xLSTM, mLSTM": lambda: (XLSTM(), t(1, 24, 32)),
        "gated delta rule": lambda: (GatedDelta(), t(1, 16, 64)),
    },
    "written, points and graphs": {
        "PointNet": lambda: (PointNet(), t(1, 3, 256)),
        "DGCNN": lambda: (DGCNN(), t(1, 3, 64)),
        "Point Transformer": lambda: (PointTransformer(), {"xyz": t(1, 64, 3), "f": t(1, 64, 32)}),
        "GAT by index_add": lambda: (GAT(), {"x": t(64, 16), "edge_index": ring()}),
        "SchNet": lambda: (SchNet(), {"z": ids(64), "pos": t(64, 3), "edge_index": ring()}),
    },
    "written, speech": {
        "Conformer, relative positions": lambda: (Conformer(), t(1, 100, 80)),
        "Tacotron 2 decoder loop": lambda: (Tacotron(), {"text": ids(1, 20, high=50), "mel": t(1, 80, 16)}),
    },
    "written, recommendation": {
        "DLRM, EmbeddingBag with offsets": lambda: (
            DLRM(),
            {
                "dense": t(1, 13),
                "sparse": [ids(4, high=1000) for _ in range(4)],
                "offsets": [torch.arange(1) for _ in range(4)],
            },
        ),
        "DIN": lambda: (
            DIN(),
            {"history": ids(1, 20, high=1000), "target": ids(1, high=1000), "length": torch.tensor([20])},
        ),
        "HSTU": lambda: (Hstu(), ids(1, 64, high=500)),
    },
    "written, agents": {
        "PPO, Normal": lambda: (Ppo(), t(1, 17)),
        "SAC, tanh transform": lambda: (Sac(), t(1, 17)),
        "IMPALA, LSTM reset by done": lambda: (
            Impala(),
            {
                "obs": t(4, 1, 3, 64, 64),
                "last_action": ids(4, 1, high=4),
                "done": torch.zeros(4, 1, dtype=torch.bool),
                "state": (t(1, 1, 64), t(1, 1, 64)),
            },
        ),
    },
    "written, tables": {
        "TabNet, sparsemax": lambda: (TabNet(), t(1, 20)),
        "FT-Transformer, keyword only": lambda: (FTT(), {"x_num": t(1, 6), "x_cat": ids(1, 3, high=4)}),
    },
    "written, experts": {
        "sorted, torch._grouped_mm": lambda: (GroupedMoE(), t(16, 32)),
        "mixture of depths": lambda: (Depth(), t(1, 32, 32)),
    },
    "written, detection": {
        "multi-scale deformable attention": lambda: (
            MSDeform(),
            {"q": t(1, 20, 64), "ref": t(1, 20, 2), "f": t(1, 80, 64)},
        ),
        "Gaussian splatting": lambda: (Gauss(), {"view": torch.eye(4), "pix": t(100, 2)}),
    },
    "written, attention": {
        "flex_attention, packed, ALiBi": lambda: (Flex(), {"x": t(1, 128, 64), "doc": torch.arange(128) // 32}),
        "packed, mask of cu_seqlens": lambda: (Varlen(), {"x": t(128, 64), "cu": torch.tensor([0, 32, 64, 128])}),
        "MLA, absorbed, with a cache": lambda: (MLA(), {"x": t(1, 1, 128), "cache": t(1, 255, 40)}),
        "paged cache": lambda: (
            PagedKV(),
            {
                "x": t(1, 64),
                "slot": torch.tensor([3]),
                "table": torch.tensor([[0, 1]]),
                "length": torch.tensor([4]),
            },
        ),
    },
    "written, forms": {
        "int4 packed, groups": lambda: (Int4(), t(1, 64)),
        "W8A8, torch._int_mm": lambda: (W8A8(), t(32, 64)),
        "fp8, torch._scaled_mm": lambda: (Fp8(), t(32, 64)),
        "torch.ao QAT, fx": pt2e,
        "LoRA by parametrization": lora_param,
        "ensemble by vmap": lambda: (Ens(), t(1, 64)),
    },
    "written, sequences": {
        "auto-correlation by FFT": lambda: (AutoCorr(), t(1, 64, 32)),
        "PatchTST": lambda: (PatchTST(), t(1, 96, 7)),
    },
}
ALL: dict[str, Callable[[], dict[str, Build]]] = {family: partial(dict, builds) for family, builds in _BUILDS.items()}
