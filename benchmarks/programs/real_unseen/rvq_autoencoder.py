"""Residual VQ autoencoder for audio frames."""

import torch
from torch import nn
from vector_quantize_pytorch import ResidualVQ

torch.manual_seed(0)


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(1, 32, 7, 4, 3),
            nn.ELU(),
            nn.Conv1d(32, 64, 7, 4, 3),
            nn.ELU(),
            nn.Conv1d(64, 64, 3, 2, 1),
        )
        self.rvq = ResidualVQ(dim=64, num_quantizers=4, codebook_size=256, decay=0.9)
        self.dec = nn.Sequential(
            nn.ConvTranspose1d(64, 64, 4, 2, 1),
            nn.ELU(),
            nn.ConvTranspose1d(64, 32, 8, 4, 2),
            nn.ELU(),
            nn.ConvTranspose1d(32, 1, 8, 4, 2),
        )

    def forward(self, wav):
        z = self.enc(wav).transpose(1, 2)
        q, codes, commit = self.rvq(z)
        return self.dec(q.transpose(1, 2)), commit.sum()


net = Codec()
fast = torch.compile(net)
opt = torch.optim.Adam(net.parameters(), 3e-4)
for it in range(20):
    wav = torch.randn(4, 1, 8192)
    rec, commit = fast(wav)
    loss = (rec - wav).abs().mean() + commit
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
