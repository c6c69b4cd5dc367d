"""Fuel depletion of an assembly: Bateman equations of every pin with CRAM-16, predictor-corrector in the flux."""

import time

import torch

torch.manual_seed(5)
DT = torch.float64
N_PIN, N_NUC, N_STEP = 96, 40, 84
DAY = 86400.0

# Chebyshev rational approximation of order 16 (Pusa 2011)
THETA = torch.tensor(
    [
        -10.843917078696988026 + 19.277446167181652284j,
        -5.2649713434426468895 + 16.220221473167927305j,
        5.9481522689511774808 + 3.5874573620183222829j,
        3.5091036084149180974 + 8.4361989858843750826j,
        6.4161776990994341923 + 1.1941223933701386874j,
        1.4193758971856659786 + 10.925363484496722585j,
        4.9931747377179963991 + 5.9968817136039422260j,
        -1.4139284624888862114 + 13.497725698892745389j,
    ],
    dtype=torch.complex128,
)
ALPHA = torch.tensor(
    [
        -0.0000005090152186522491565 - 0.00002422001765285228797j,
        0.00021151742182466030907 + 0.0043892969647380673918j,
        113.39775178483930527 + 101.9472170421585645j,
        15.059585270023467528 - 5.7514052776421819979j,
        -64.500878025539646595 - 224.59440762652096056j,
        -1.4793007113557999718 + 1.7686588323782937906j,
        -62.518392463207918892 - 11.19039109428322848j,
        0.041023136835410021273 - 0.15743466173455468191j,
    ],
    dtype=torch.complex128,
)
ALPHA0 = 2.1248537104952237488e-16


class Chain:
    """A made-up chain: nuclide k captures to k+1, decays to k-1 or k-2, the first few fission to the last ones."""

    def __init__(self, n):
        half_life = 10 ** (torch.rand(n, dtype=DT) * 9 + 2)
        lam = 0.693147 / half_life
        lam[:4] = 0.0
        capture = 10 ** (torch.rand(n, dtype=DT) * 2.5 - 1) * 1e-24
        fission = torch.zeros(n, dtype=DT)
        fission[:6] = torch.tensor([580.0, 1.2, 750.0, 0.3, 1000.0, 40.0], dtype=DT) * 1e-24
        yields = torch.softmax(torch.randn(6, n // 2, dtype=DT), -1) * 2
        decay = torch.diag(-lam)
        for k in range(1, n):
            decay[k - 1, k] += 0.9 * lam[k]
            if k > 1:
                decay[k - 2, k] += 0.1 * lam[k]
        react = torch.diag(-(capture + fission))
        for k in range(n - 1):
            react[k + 1, k] += capture[k]
        for k in range(6):
            react[n - n // 2 :, k] += yields[k] * fission[k]
        self.decay, self.react, self.fission = decay, react, fission


def burnup_matrix(decay, react, flux):
    return decay[None] + react[None] * flux[:, None, None]


@torch.compile
def cram16(A, n0, dt):
    """exp(A dt) n0 for a batch of burnup matrices."""
    At = (A * dt).to(torch.complex128)
    eye = torch.eye(A.shape[-1], dtype=torch.complex128)
    y = torch.zeros_like(n0)
    rhs = n0.to(torch.complex128)
    for k in range(THETA.shape[0]):
        sol = torch.linalg.solve(At - THETA[k] * eye, ALPHA[k] * rhs)
        y = y + 2.0 * sol.real
    y = y + ALPHA0 * n0
    return y.clamp_min(0.0)


@torch.compile
def pin_flux(n, fission, shape, power):
    """Flux of each pin such that the assembly makes its power; a local self-shielding from the density of fissile."""
    sig_f = (n * fission).sum(-1)
    local = shape / (1.0 + 0.3 * sig_f / sig_f.mean())
    rate = (local * sig_f).sum()
    return local * power / rate


def main():
    chain = Chain(N_NUC)
    n = torch.zeros(N_PIN, N_NUC, dtype=DT)
    enrich = 0.03 + 0.015 * torch.rand(N_PIN, dtype=DT)
    n[:, 0] = enrich * 2.3e22
    n[:, 1] = (1 - enrich) * 2.3e22
    shape = 1.0 + 0.2 * torch.randn(N_PIN, dtype=DT).clamp(-2, 2)
    power = 1.2e14 * (n * chain.fission).sum(-1).sum()

    # check of the approximation against a dense exponential, one short step
    A = burnup_matrix(chain.decay, chain.react, torch.full((4,), 3e13, dtype=DT))
    ref = (torch.linalg.matrix_exp(A * 600.0) @ n[:4, :, None])[..., 0]
    err = ((cram16(A, n[:4], 600.0) - ref).abs().sum() / ref.sum()).item()
    print(f"CRAM against matrix_exp: {err:.2e}")

    t0 = time.perf_counter()
    for step in range(N_STEP):
        dt = (0.5 if step < 4 else 3.5) * DAY
        phi0 = pin_flux(n, chain.fission, shape, power)
        A0 = burnup_matrix(chain.decay, chain.react, phi0)
        pred = cram16(A0, n, dt)
        phi1 = pin_flux(pred, chain.fission, shape, power)
        A1 = burnup_matrix(chain.decay, chain.react, phi1)
        n = cram16(0.5 * (A0 + A1), n, dt)
        if step % 21 == 20:
            print(
                f"step {step + 1:3d}  U235 left {(n[:, 0] / (enrich * 2.3e22)).mean():.4f}  "
                f"flux {phi1.mean():.3e}  products {n[:, N_NUC // 2 :].sum():.4e}"
            )
    print(f"depletion {time.perf_counter() - t0:.2f} s")


if __name__ == "__main__":
    main()
