# Deep-ensemble surrogate for alloy yield strength / ductility.
#
# E independent residual MLPs are trained at once by stacking their weights and
# using batched matmuls; each member sees its own bootstrap of the data.  The
# members predict mean and log-variance for each of T targets (heteroscedastic
# NLL) and the spread of the members is used as epistemic uncertainty by the
# active-learning loop (not in this file).

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")
SMALL = bool(int(os.environ.get("ALLOY_SMALL", "0")))

MEMBERS = 8
N_ELEMENTS = 24  # composition features
N_PROCESS = 12  # heat treatment etc.
N_TARGETS = 6
WIDTH = 128 if SMALL else 1536
BLOCKS = 4
BATCH = 64 if SMALL else 2048
N_TRAIN = 2_000 if SMALL else 60_000
STEPS = 10 if SMALL else 60
WARMUP = 5
LR = 5e-4
WEIGHT_DECAY = 1e-5


class EnsembleLinear(nn.Module):
    """One Linear per ensemble member, (E, B, in) -> (E, B, out)."""

    def __init__(self, members, d_in, d_out):
        super().__init__()
        bound = d_in**-0.5
        self.weight = nn.Parameter(torch.empty(members, d_in, d_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(members, 1, d_out))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleNorm(nn.Module):
    def __init__(self, members, dim):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(members, 1, dim))
        self.shift = nn.Parameter(torch.zeros(members, 1, dim))

    def forward(self, x):
        mu = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)
        return (x - mu) / torch.sqrt(var + 1e-5) * self.gain + self.shift


class Block(nn.Module):
    def __init__(self, members, dim, p=0.05):
        super().__init__()
        self.norm = EnsembleNorm(members, dim)
        self.fc1 = EnsembleLinear(members, dim, dim)
        self.fc2 = EnsembleLinear(members, dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return x + self.fc2(self.drop(F.silu(self.fc1(self.norm(x)))))


class AlloyEnsemble(nn.Module):
    def __init__(self):
        super().__init__()
        d_in = N_ELEMENTS + N_ELEMENTS * (N_ELEMENTS - 1) // 2 + N_PROCESS
        self.register_buffer("iu", torch.triu_indices(N_ELEMENTS, N_ELEMENTS, 1))
        self.stem = EnsembleLinear(MEMBERS, d_in, WIDTH)
        self.blocks = nn.ModuleList(Block(MEMBERS, WIDTH) for _ in range(BLOCKS))
        self.norm = EnsembleNorm(MEMBERS, WIDTH)
        self.head = EnsembleLinear(MEMBERS, WIDTH, 2 * N_TARGETS)

    def forward(self, comp, proc):
        # pairwise interaction features c_i * c_j
        pairs = comp[..., self.iu[0]] * comp[..., self.iu[1]]
        x = torch.cat([comp, pairs * 10.0, proc], dim=-1)
        x = F.silu(self.stem(x))
        for blk in self.blocks:
            x = blk(x)
        mean, logvar = self.head(self.norm(x)).chunk(2, dim=-1)
        return mean, logvar.clamp(-8.0, 4.0)


def nll(mean, logvar, y):
    return 0.5 * (logvar + (y - mean) ** 2 * torch.exp(-logvar)).mean(dim=(1, 2)).sum()


def synthetic_alloys(n, gen):
    comp = torch.rand(n, N_ELEMENTS, generator=gen).pow(4)
    comp = comp / comp.sum(1, keepdim=True)
    proc = torch.randn(n, N_PROCESS, generator=gen)
    w1 = torch.randn(N_ELEMENTS, N_TARGETS, generator=gen)
    w2 = torch.randn(N_ELEMENTS, N_ELEMENTS, N_TARGETS, generator=gen)
    wp = torch.randn(N_PROCESS, N_TARGETS, generator=gen) * 0.3
    y = comp @ w1 + torch.einsum("ni,nj,ijt->nt", comp, comp, w2) + torch.tanh(proc @ wp)
    y = (y - y.mean(0)) / y.std(0)
    y = y + 0.1 * torch.randn(y.shape, generator=gen)
    return comp, proc, y


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    comp, proc, y = (t.to(DEVICE) for t in synthetic_alloys(N_TRAIN, gen))

    net = AlloyEnsemble().to(DEVICE).train()
    net_c = torch.compile(net, mode="reduce-overhead")
    opt = torch.optim.Adam(net.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    n_par = sum(p.numel() for p in net.parameters())
    print(f"{MEMBERS} members, {n_par / 1e6:.1f}M parameters, device {DEVICE}")

    running = 0.0
    tic = None
    for step in range(STEPS + WARMUP):
        if step == WARMUP:
            if DEVICE.type == "cuda":
                torch.cuda.synchronize()
            tic = time.perf_counter()

        # bootstrap: every member draws its own minibatch
        idx = torch.randint(N_TRAIN, (MEMBERS, BATCH), device=DEVICE)
        mean, logvar = net_c(comp[idx], proc[idx])
        loss = nll(mean, logvar, y[idx])

        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()

        running = 0.9 * running + 0.1 * loss.item() / MEMBERS
        if step % 20 == 0:
            print(f"step {step:4d}  nll/member {running:.4f}")

    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    toc = time.perf_counter()

    net.eval()
    with torch.no_grad():
        c = comp[:256].expand(MEMBERS, -1, -1)
        p = proc[:256].expand(MEMBERS, -1, -1)
        mean, logvar = net(c, p)
        epistemic = mean.std(0).mean().item()
        rmse = (mean.mean(0) - y[:256]).pow(2).mean().sqrt().item()
    print(f"rmse {rmse:.3f}  epistemic std {epistemic:.3f}")
    print(f"{1e3 * (toc - tic) / STEPS:.2f} ms per step")


if __name__ == "__main__":
    main()
