"""One decoding step of a small llama with grouped heads and a written key cache."""

import torch
import torch.nn.functional as F
from torch import nn

dev = "cuda"
D, HQ, HK, HD, L, B, S = 2048, 16, 4, 128, 8, 8, 4096


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (
            nn.Linear(D, HQ * HD, False),
            nn.Linear(D, HK * HD, False),
            nn.Linear(D, HK * HD, False),
            nn.Linear(HQ * HD, D, False),
        )
        self.up, self.gate, self.down = (
            nn.Linear(D, 5632, False),
            nn.Linear(D, 5632, False),
            nn.Linear(5632, D, False),
        )
        self.n1, self.n2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.register_buffer("kc", torch.zeros(B, HK, S, HD))
        self.register_buffer("vc", torch.zeros(B, HK, S, HD))

    def forward(self, x, pos, cos, sin):
        h = self.n1(x)
        q = self.q(h).view(B, 1, HQ, HD).transpose(1, 2)
        k = self.k(h).view(B, 1, HK, HD).transpose(1, 2)
        v = self.v(h).view(B, 1, HK, HD).transpose(1, 2)
        rot = lambda t: t * cos + torch.cat([-t[..., HD // 2 :], t[..., : HD // 2]], -1) * sin
        q, k = rot(q), rot(k)
        self.kc[:, :, pos] = k
        self.vc[:, :, pos] = v
        mask = torch.arange(S, device=x.device) <= pos
        a = F.scaled_dot_product_attention(
            q, self.kc, self.vc, attn_mask=mask[None, None, None], enable_gqa=True
        )
        x = x + self.o(a.transpose(1, 2).reshape(B, 1, -1))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(L))
        self.head = nn.Linear(D, 32000, False)

    def forward(self, x, pos, cos, sin):
        for layer in self.layers:
            x = layer(x, pos, cos, sin)
        return self.head(x).argmax(-1)


m = Model().to(dev, torch.bfloat16)
fast = torch.compile(m)
x = torch.randn(B, 1, D, device=dev, dtype=torch.bfloat16)
ang = torch.outer(
    torch.arange(S, device=dev).float(), 1e4 ** (-torch.arange(0, HD, 2, device=dev) / HD)
).repeat(1, 2)
cos, sin = ang.cos().bfloat16(), ang.sin().bfloat16()
with torch.inference_mode():
    for i in range(60):
        pos = torch.tensor([i + 100], device=dev)
        t = fast(x, pos, cos[pos], sin[pos])
print(t[:, 0].tolist())
