"""Trains a small torchaudio ConvTasNet to separate two synthetic speakers with a permutation-invariant SI-SNR loss."""

import math

import torch
from torchaudio.models import ConvTasNet


def synth_sources(batch, length, sr, gen):
    t = torch.arange(length, device="cuda") / sr
    f0 = torch.empty(batch, 2, 1, device="cuda").uniform_(90, 300, generator=gen)
    vib = torch.empty(batch, 2, 1, device="cuda").uniform_(3, 7, generator=gen)
    phase = 2 * math.pi * f0 * t + 0.8 * torch.sin(2 * math.pi * vib * t)
    src = sum(torch.sin(k * phase) / k for k in range(1, 7))
    env = torch.sin(math.pi * vib * t).abs()
    return 0.3 * src * env


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) * ref / (ref.pow(2).sum(-1, keepdim=True) + eps)
    noise = est - proj
    return 10 * torch.log10(proj.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps) + eps)


@torch.compile
def pit_loss(est, ref):
    direct = si_snr(est, ref).mean(1)
    swapped = si_snr(est, ref.flip(1)).mean(1)
    return -torch.maximum(direct, swapped).mean()


def main():
    torch.manual_seed(2)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    gen = torch.Generator(device="cuda").manual_seed(2)
    model = ConvTasNet(
        num_sources=2,
        enc_kernel_size=16,
        enc_num_feats=512,
        msk_kernel_size=3,
        msk_num_feats=128,
        msk_num_hidden_feats=512,
        msk_num_layers=4,
        msk_num_stacks=2,
        msk_activate="relu",
    ).cuda()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(25):
        src = synth_sources(8, 16000, 8000, gen)
        mix = src.sum(1, keepdim=True)
        mix = mix + 0.01 * torch.randn(mix.shape, device="cuda", generator=gen)
        est = net(mix)
        loss = pit_loss(est, src)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        losses.append(loss.detach())
    losses = torch.stack(losses)
    print("first SI-SNR %.3f dB" % -losses[0].item())
    print("last SI-SNR %.3f dB" % -losses[-5:].mean().item())


if __name__ == "__main__":
    main()
