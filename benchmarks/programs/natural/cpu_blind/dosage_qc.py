"""Checks imputed genotypes: frequency, missing rate, imputation quality and Hardy-Weinberg per variant."""

import torch


def quality(prob_het, prob_hom, missing):
    present = (~missing).float()
    n = present.sum(dim=1)
    dosage = (prob_het + 2 * prob_hom) * present
    second = (prob_het + 4 * prob_hom) * present
    freq = dosage.sum(dim=1) / (2 * n)
    uncertainty = (second - dosage * dosage).sum(dim=1)
    info = 1 - uncertainty / (2 * n * freq * (1 - freq)).clamp(min=1e-6)
    het = (prob_het * present).sum(dim=1)
    expected = 2 * n * freq * (1 - freq)
    chi2 = (het - expected) ** 2 / expected.clamp(min=1e-6)
    return freq, 1 - n / missing.shape[1], info, chi2


torch.manual_seed(0)
variants, people = 1500, 1200
probs = torch.softmax(3 * torch.randn(variants, people, 3), dim=-1)
het, hom = probs[..., 1].contiguous(), probs[..., 2].contiguous()
missing = torch.rand(variants, people) < 0.02

check = torch.compile(quality)
kept = 0
with torch.no_grad():
    for _ in range(50):
        freq, miss, info, chi2 = check(het, hom, missing)
        kept += int(((info > 0.3) & (miss < 0.05)).sum())
print("kept", kept / 50, "mean frequency", freq.mean().item())
