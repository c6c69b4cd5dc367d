"""Matched-filter search of a detector's strain for the loudest trigger of each waveform template."""

import torch

dev = "cuda"
torch.manual_seed(0)
n, bank, rate = 1 << 22, 6, 4096
strain = torch.randn(n, device=dev)
t = torch.arange(n, device=dev) / rate
waves = torch.stack([torch.sin(6.28 * (30 + 4 * k + 0.8 * t) * t) * (t < 8) for k in range(bank)])
bank_f = torch.fft.rfft(waves)
freq = torch.fft.rfftfreq(n, 1 / rate).to(dev)
psd = 1.0 + (20.0 / freq.clamp_min(10.0)) ** 4


def search(strain, bank_f, psd):
    data = torch.fft.rfft(strain)
    norm = (bank_f.abs().square() / psd).sum(1).sqrt()
    z = torch.fft.irfft(data * bank_f.conj() / psd, n=strain.shape[0])
    snr = z.abs() / norm[:, None]
    snr = (snr - snr.mean(1, keepdim=True)) / snr.std(1, keepdim=True)
    peak, where = snr.max(dim=1)
    return peak, where.float() / rate


fast = torch.compile(search)
with torch.no_grad():
    for _ in range(40):
        peak, when = fast(strain, bank_f, psd)
print(peak.max().item(), when.tolist())
