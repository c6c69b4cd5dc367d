"""Match tandem mass spectra from one LC-MS run against a peptide spectral library.

Every query spectrum is binned, square-root scaled and compared by cosine with all library
entries whose precursor mass lies within the tolerance; the best five go to the result table.
Both library and run are synthetic here: a query is a noisy copy of one library entry.
"""

import argparse
import time
from dataclasses import dataclass

import torch

MZ_MIN, MZ_MAX = 150.0, 1750.0
N_PEAKS = 96


@dataclass
class Library:
    vectors: torch.Tensor  # (n_lib, n_bins), unit length
    precursor: torch.Tensor  # (n_lib,) neutral mass in Da
    is_decoy: torch.Tensor  # (n_lib,)


def vectorise(mz, intensity, n_bins):
    """Peaks (batch, n_peaks) -> unit vectors (batch, n_bins)."""
    width = (MZ_MAX - MZ_MIN) / n_bins
    pos = (mz - MZ_MIN) / width
    low = pos.floor()
    frac = pos - low
    idx = low.long().clamp(0, n_bins - 2)
    base = intensity.amax(dim=1, keepdim=True)
    weight = torch.where(intensity > 0.01 * base, (intensity / base).sqrt(), 0.0)
    vec = torch.zeros(mz.shape[0], n_bins, device=mz.device)
    # share a peak between the two neighbouring bins
    vec = vec.scatter_add(1, idx, weight * (1 - frac))
    vec = vec.scatter_add(1, idx + 1, weight * frac)
    return vec / vec.norm(dim=1, keepdim=True).clamp_min(1e-6)


def search_batch(mz, intensity, precursor, lib_vectors, lib_precursor, tol_ppm, top=5):
    query = vectorise(mz, intensity, lib_vectors.shape[1])
    score = query @ lib_vectors.T
    ppm = (precursor[:, None] - lib_precursor[None, :]).abs() / lib_precursor[None, :] * 1e6
    candidate = ppm < tol_ppm
    score = torch.where(candidate, score, -1.0)
    best, entry = score.topk(top, dim=1)
    n_candidates = candidate.sum(dim=1)
    delta = best[:, 0] - best[:, 1].clamp_min(0.0)
    return best, entry, delta, n_candidates


def random_spectra(n, gen, device):
    mz = MZ_MIN + (MZ_MAX - MZ_MIN) * torch.rand(n, N_PEAKS, generator=gen, device=device)
    inten = torch.rand(n, N_PEAKS, generator=gen, device=device).pow(3) * 1e5
    return mz, inten


def make_library(n_lib, n_bins, gen, device):
    mz, inten = random_spectra(n_lib, gen, device)
    vectors = torch.cat([vectorise(m, i, n_bins) for m, i in zip(mz.split(8192), inten.split(8192))])
    mass = 700 + 2500 * torch.rand(n_lib, generator=gen, device=device).pow(1.5)
    decoy = torch.rand(n_lib, generator=gen, device=device) < 0.5
    return Library(vectors, mass, decoy), mz, inten


def read_run(n_spectra, batch, lib, lib_mz, lib_inten, gen):
    """Stand-in for the mzML reader: yields CPU batches as the parser would."""
    device = lib_mz.device
    pool = []
    for _ in range(8):
        src = torch.randint(lib_mz.shape[0], (batch,), generator=gen, device=device)
        mz = lib_mz[src] + 0.05 * torch.randn(batch, N_PEAKS, generator=gen, device=device)
        inten = lib_inten[src] * torch.exp(0.6 * torch.randn(batch, N_PEAKS, generator=gen, device=device))
        lost = torch.rand(batch, N_PEAKS, generator=gen, device=device) < 0.3
        noise_mz, noise_i = random_spectra(batch, gen, device)
        mz = torch.where(lost, noise_mz, mz)
        inten = torch.where(lost, noise_i, inten)
        mass = lib.precursor[src] * (1 + 4e-6 * torch.randn(batch, generator=gen, device=device))
        pool.append(tuple(t.cpu() for t in (mz, inten, mass, src)))
    for b in range(n_spectra // batch):
        yield pool[b % len(pool)]


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--library", type=int, default=180_000)
    ap.add_argument("--bins", type=int, default=2000)
    ap.add_argument("--spectra", type=int, default=400_000)
    ap.add_argument("--batch", type=int, default=1024)
    ap.add_argument("--ppm", type=float, default=20.0)
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gen = torch.Generator(device=device).manual_seed(11)

    lib, lib_mz, lib_inten = make_library(args.library, args.bins, gen, device)
    print(f"library: {args.library} entries, {lib.vectors.numel() * 4 / 1e9:.2f} GB")
    search = torch.compile(search_batch, mode="max-autotune-no-cudagraphs")

    rows = []
    right = total = 0
    t0 = time.perf_counter()
    for n, (mz, inten, mass, truth) in enumerate(
        read_run(args.spectra, args.batch, lib, lib_mz, lib_inten, gen)
    ):
        best, entry, delta, n_cand = search(
            mz.to(device), inten.to(device), mass.to(device), lib.vectors, lib.precursor, args.ppm
        )
        decoy = lib.is_decoy[entry[:, 0]]
        rows.append(torch.stack([best[:, 0], delta, n_cand.float(), decoy.float()], dim=1).cpu())
        right += (entry[:, 0].cpu() == truth).sum().item()
        total += len(truth)
        if n % 50 == 49:
            print(f"  {total:7d} spectra, {total / (time.perf_counter() - t0):8.0f}/s", flush=True)
    table = torch.cat(rows)
    print(f"{total} spectra in {time.perf_counter() - t0:.1f} s; right entry first: {right / total:.3%}")
    print(
        f"median cosine {table[:, 0].median():.3f}, median delta {table[:, 1].median():.3f}, "
        f"mean candidates {table[:, 2].mean():.1f}"
    )


if __name__ == "__main__":
    main()
