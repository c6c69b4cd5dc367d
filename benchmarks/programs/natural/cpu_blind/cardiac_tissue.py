"""Spiral-wave induction in a 2-D sheet of ventricular tissue (Fenton-Karma 3V).

S1-S2 protocol on a 12.8 cm x 12.8 cm sheet, no-flux edges, forward Euler.
Parameter set 3 of Fenton et al. 2002 (approximately).
"""

import math

import torch
import torch.nn.functional as F

N = 512
DX = 0.025  # cm
DT = 0.1  # ms
DIFF = 0.001  # cm^2/ms
T_END = 500.0  # ms
S2_AT = 310.0  # ms

TAU_V_PLUS = 3.33
TAU_V1_MINUS = 19.6
TAU_V2_MINUS = 1250.0
TAU_W_PLUS = 870.0
TAU_W_MINUS = 41.0
TAU_D = 0.25
TAU_0 = 12.5
TAU_R = 33.33
TAU_SI = 29.0
K_SI = 10.0
UC_SI = 0.85
UC = 0.13
UV = 0.04


def laplacian(u):
    p = F.pad(u[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    return (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * u) / (DX * DX)


@torch.compile
def step(u, v, w, stim):
    above = (u >= UC).to(u.dtype)
    slow = (u >= UV).to(u.dtype)

    j_fi = -v * above * (1.0 - u) * (u - UC) / TAU_D
    j_so = u * (1.0 - above) / TAU_0 + above / TAU_R
    j_si = -w * (1.0 + torch.tanh(K_SI * (u - UC_SI))) / (2.0 * TAU_SI)

    tau_v_minus = slow * TAU_V1_MINUS + (1.0 - slow) * TAU_V2_MINUS
    dv = (1.0 - above) * (1.0 - v) / tau_v_minus - above * v / TAU_V_PLUS
    dw = (1.0 - above) * (1.0 - w) / TAU_W_MINUS - above * w / TAU_W_PLUS
    du = DIFF * laplacian(u) - (j_fi + j_so + j_si) + stim

    u = (u + DT * du).clamp(-0.2, 1.6)
    v = (v + DT * dv).clamp(0.0, 1.0)
    w = (w + DT * dw).clamp(0.0, 1.0)
    return u, v, w


def electrode_kernel(row, col, height=0.5):
    ys = (torch.arange(N) - row) * DX
    xs = (torch.arange(N) - col) * DX
    r = torch.sqrt(ys[:, None] ** 2 + xs[None, :] ** 2 + height**2)
    return 1.0 / r


def pseudo_ecg(u, kernel):
    return float((laplacian(u) * kernel).sum()) * DX * DX


def count_tips(u, u_prev):
    """Phase singularities: cells where the u=0.5 line meets du/dt=0."""
    a = u - 0.5
    b = u - u_prev

    def crosses(f):
        s = torch.stack([f[:-1, :-1], f[1:, :-1], f[:-1, 1:], f[1:, 1:]]) > 0
        return s.any(0) & ~s.all(0)

    return int((crosses(a) & crosses(b)).sum())


def main():
    torch.manual_seed(0)
    u = torch.zeros(N, N)
    v = torch.ones(N, N)
    w = torch.ones(N, N)
    quiet = torch.zeros(N, N)
    s1 = torch.zeros(N, N)
    s1[:, :8] = 0.4
    s2 = torch.zeros(N, N)
    s2[: N // 2, : N // 2] = 0.4
    kernel = electrode_kernel(N // 2, N + 20)

    ecg = []
    with torch.no_grad():
        for k in range(int(T_END / DT)):
            t = k * DT
            if t < 2.0:
                stim = s1
            elif S2_AT <= t < S2_AT + 2.0:
                stim = s2
            else:
                stim = quiet
            u_prev = u
            u, v, w = step(u, v, w, stim)
            if k % 20 == 0:
                ecg.append(pseudo_ecg(u, kernel))
            if k % 1000 == 999:
                frac = float((u > 0.5).float().mean())
                print(f"t={t + DT:6.1f} ms  excited={frac:6.3f}  tips~{count_tips(u, u_prev)}")
    ecg = torch.tensor(ecg)
    spec = torch.fft.rfft(ecg - ecg.mean()).abs()
    f_dom = int(spec[1:].argmax() + 1) / (T_END / 1000.0)
    print(
        f"pseudo-ECG rms {float(ecg.std()):.4f}, dominant {f_dom:.1f} Hz, "
        f"finite={math.isfinite(float(u.sum()))}"
    )


if __name__ == "__main__":
    main()
