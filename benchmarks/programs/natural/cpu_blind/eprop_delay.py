"""
Delayed-response task in a spiking network with e-prop eligibility traces.

1400 sensory afferents fire during a short cue, then are quiet through the delay.
A hidden layer of LIF neurons keeps a noisy background state.  We follow
the eligibility traces of the input synapses and, late in the delay, ask how
much credit a reward would still assign to the cue.
"""

import math
import time

import torch
import torch.nn as nn

torch.manual_seed(91)

N_IN = 1400
N_HID = 700
CHUNK = 16  # ms simulated per call
CUE_MS = 64
EARLY_DELAY_MS = 480
LATE_CHUNKS = 28


class LIFLayer(nn.Module):
    def __init__(self, n_in, n_hid, tau_m=20.0, tau_syn=4.0, tau_elig=5.0, dt=1.0):
        super().__init__()
        self.w_in = nn.Parameter(torch.randn(n_hid, n_in) * 0.9 / math.sqrt(n_in))
        self.w_rec = nn.Parameter(torch.randn(n_hid, n_hid) * 0.6 / math.sqrt(n_hid))
        self.alpha = math.exp(-dt / tau_m)
        self.syn = math.exp(-dt / tau_syn)
        self.kappa = math.exp(-dt / tau_elig)
        self.v_th = 1.0
        self.width = 0.8

    def forward(self, spikes_in, noise, v, z, pre, elig):
        # spikes_in (T, n_in), noise (T, n_hid); states of one trial
        current = spikes_in @ self.w_in.T + noise
        counts = torch.zeros_like(v)
        for t in range(spikes_in.shape[0]):
            v = self.alpha * v + current[t] + self.w_rec @ z - z * self.v_th
            z = (v > self.v_th).float()
            counts = counts + z
            # surrogate derivative of the spike function
            psi = 0.3 / self.width * torch.clamp(1 - (v - self.v_th).abs() / self.width, min=0.0)
            pre = self.syn * pre + spikes_in[t]
            elig = self.kappa * elig + psi[:, None] * pre[None, :]
        return v, z, pre, elig, counts


class Trial:
    def __init__(self, n_in, rate_hz=60.0):
        self.n_in = n_in
        # tuning curve over the afferents, everybody takes part a bit
        pref = torch.linspace(0, 2 * math.pi, n_in)
        self.rate = rate_hz * (0.6 + 0.4 * torch.cos(pref - 1.1))

    def spikes(self, t0, n):
        out = torch.zeros(n, self.n_in)
        for k in range(n):
            if t0 + k < CUE_MS:
                out[k] = (torch.rand(self.n_in) < self.rate * 1e-3).float()
        return out


def main():
    layer = LIFLayer(N_IN, N_HID).requires_grad_(False)
    run_chunk = torch.compile(layer, fullgraph=True)
    trial = Trial(N_IN)

    v = torch.zeros(N_HID)
    z = torch.zeros(N_HID)
    pre = torch.zeros(N_IN)
    elig = torch.zeros(N_HID, N_IN)
    state = (v, z, pre, elig)

    now = 0
    peak = 0.0
    t0 = time.perf_counter()
    while now < CUE_MS + EARLY_DELAY_MS:
        noise = 0.12 * torch.randn(CHUNK, N_HID) + 0.03
        *state, _ = run_chunk(trial.spikes(now, CHUNK), noise, *state)
        peak = max(peak, state[3].abs().max().item())
        now += CHUNK
    print(f"cue and early delay done in {time.perf_counter() - t0:.2f} s, peak eligibility {peak:.3f}")

    fired = 0.0
    for c in range(LATE_CHUNKS):
        s = trial.spikes(now, CHUNK)
        noise = 0.12 * torch.randn(CHUNK, N_HID) + 0.03
        t0 = time.perf_counter()
        *state, counts = run_chunk(s, noise, *state)
        dt = time.perf_counter() - t0
        now += CHUNK
        fired += counts.sum().item()
        print(f"t = {now:5d} ms   {dt * 1e3:8.2f} ms/chunk")
    rate = fired / N_HID / (LATE_CHUNKS * CHUNK * 1e-3)
    credit = state[3].sum().item() / (peak * N_HID)
    print(f"background rate {rate:.1f} Hz, remaining credit {credit:.2e}")


if __name__ == "__main__":
    main()
