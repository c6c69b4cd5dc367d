"""Spike sorting on a multi-electrode probe: greedy template matching on whitened snippets."""

import time

import numpy as np
import torch
import torch.nn.functional as F

CHANNELS = 32
SAMPLES = 1200
UNITS = 24
WIDTH = 41
MAX_SPIKES = 24
THRESHOLD = 14.0
SNIPPETS = 40


def make_templates(gen):
    t = torch.arange(WIDTH) - WIDTH // 3
    out = torch.zeros(UNITS, CHANNELS, WIDTH)
    for u in range(UNITS):
        centre = torch.rand(1, generator=gen) * CHANNELS
        footprint = torch.exp(-0.5 * ((torch.arange(CHANNELS) - centre) / 2.0) ** 2)
        w1, w2 = 2.0 + 3 * torch.rand(1, generator=gen), 5.0 + 5 * torch.rand(1, generator=gen)
        shape = -torch.exp(-0.5 * (t / w1) ** 2) + 0.4 * torch.exp(-0.5 * ((t - 10) / w2) ** 2)
        out[u] = footprint[:, None] * shape[None]
    norm = out.flatten(1).norm(dim=1).view(-1, 1, 1)
    return out / norm


def make_recording(templates, gen, rng):
    """Snippets with overlapping spikes, correlated noise and slow drift."""
    mix = torch.eye(CHANNELS) + 0.25 * torch.rand(CHANNELS, CHANNELS, generator=gen)
    data = torch.einsum("ij,bjt->bit", mix, torch.randn(SNIPPETS, CHANNELS, SAMPLES, generator=gen))
    drift = torch.sin(torch.linspace(0, 6.28, SAMPLES))[None, None]
    truth = 0
    for b in range(SNIPPETS):
        for _ in range(int(rng.integers(8, 20))):
            u = int(rng.integers(UNITS))
            s = int(rng.integers(0, SAMPLES - WIDTH))
            data[b, :, s : s + WIDTH] += float(rng.uniform(25, 45)) * templates[u]
            truth += 1
    return data + 3.0 * drift, truth


def whitening_matrix(data):
    x = data.transpose(0, 1).reshape(CHANNELS, -1)
    x = x - x.mean(1, keepdim=True)
    cov = x @ x.t() / x.shape[1]
    val, vec = torch.linalg.eigh(cov)
    return vec @ torch.diag(1.0 / torch.sqrt(val + 1e-3)) @ vec.t()


def preprocess(snippet, white, taps):
    """Common-average reference, high pass (running mean removed), whiten."""
    x = snippet - snippet.median(dim=0, keepdim=True).values
    pad = taps // 2
    slow = F.avg_pool1d(F.pad(x.unsqueeze(0), (pad, pad), mode="reflect"), taps, stride=1)[0]
    x = white @ (x - slow)
    scale = x.abs().median(dim=1, keepdim=True).values / 0.6745
    return x / scale.clamp(min=1e-3)


def match(residual, templates):
    return F.conv1d(residual.unsqueeze(0), templates)[0]


def subtract(residual, templates, unit, start, amp):
    t = torch.arange(residual.shape[1])
    offset = t - start
    inside = (offset >= 0) & (offset < WIDTH)
    wave = templates[unit][:, offset.clamp(0, WIDTH - 1)]
    return residual - amp * wave * inside


def sort_snippet(snippet, white, templates, taps=61):
    residual = preprocess(snippet, white, taps)
    units, times, amps = [], [], []
    for _ in range(MAX_SPIKES):
        score = match(residual, templates)
        peak, flat = score.flatten().max(dim=0)
        if peak.item() < THRESHOLD:
            break
        unit = flat // score.shape[1]
        start = flat % score.shape[1]
        residual = subtract(residual, templates, unit, start, peak)
        units.append(unit)
        times.append(start)
        amps.append(peak)
    energy = residual.pow(2).mean()
    if not units:
        empty = torch.zeros(0)
        return empty.long(), empty.long(), empty, energy
    return torch.stack(units), torch.stack(times), torch.stack(amps), energy


def main():
    gen = torch.Generator().manual_seed(17)
    rng = np.random.default_rng(17)
    templates = make_templates(gen)
    recording, truth = make_recording(templates, gen, rng)
    white = whitening_matrix(recording)
    # templates seen through the whitening
    wt = torch.einsum("ij,ujt->uit", white, templates)
    wt = wt / wt.flatten(1).norm(dim=1).view(-1, 1, 1)

    sorter = torch.compile(sort_snippet)
    with torch.no_grad():
        for b in range(3):
            sorter(recording[b], white, wt)

        counts = torch.zeros(UNITS)
        energy = 0.0
        found = 0
        t0 = time.perf_counter()
        for b in range(SNIPPETS):
            units, times, amps, e = sorter(recording[b], white, wt)
            counts += torch.bincount(units, minlength=UNITS)
            energy += e.item()
            found += len(units)
        dt = (time.perf_counter() - t0) / SNIPPETS

    print(f"{found} spikes found, {truth} planted, residual energy {energy / SNIPPETS:.3f}")
    print("busiest units", counts.topk(4).indices.tolist(), counts.topk(4).values.int().tolist())
    print(f"{dt * 1e3:.2f} ms per snippet ({SAMPLES / 30:.0f} ms of recording)")


if __name__ == "__main__":
    main()
