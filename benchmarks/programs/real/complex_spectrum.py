"""A filter in the spectrum: complex numbers and FFTs."""

import torch


@torch.compile
def filtered(signal, response):
    spectrum = torch.fft.rfft(signal) * response
    spectrum = spectrum * torch.exp(1j * spectrum.abs().clamp(max=0.1))
    return torch.fft.irfft(spectrum, n=signal.shape[-1])


torch.manual_seed(0)
for _ in range(10):
    out = filtered(torch.randn(8, 1024), torch.randn(513, dtype=torch.complex64))
print(tuple(out.shape))
