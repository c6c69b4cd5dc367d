"""Variational autoencoder with zero inflated negative binomial likelihood for single cell RNA counts."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(7)

N_CELLS = 800 if SMOKE else 40000
N_GENES = 300 if SMOKE else 4000
N_TYPES = 12
N_BATCHES = 4  # sequencing batches
BATCH = 128 if SMOKE else 1024
EPOCHS = 2 if SMOKE else 3
LATENT = 20
HIDDEN = 256


class CountStore:
    """Cells x genes counts in compressed rows, as read from an h5ad file."""

    def __init__(self, indptr, indices, data, n_genes):
        self.indptr, self.indices, self.data, self.n_genes = indptr, indices, data, n_genes

    def dense_rows(self, rows):
        start = self.indptr[rows]
        length = self.indptr[rows + 1] - start
        cell = torch.repeat_interleave(torch.arange(rows.numel()), length)
        first = torch.cumsum(length, 0) - length
        pos = start[cell] + torch.arange(cell.numel()) - first[cell]
        out = torch.zeros(rows.numel(), self.n_genes)
        out[cell, self.indices[pos].long()] = self.data[pos].float()
        return out


def simulate():
    profile = torch.distributions.Gamma(0.3, 1.0).sample((N_TYPES, N_GENES)).to(device)
    profile = profile / profile.sum(1, keepdim=True)
    cell_type = torch.randint(N_TYPES, (N_CELLS,))
    batch_id = torch.randint(N_BATCHES, (N_CELLS,))
    depth = torch.exp(7.4 + 0.35 * torch.randn(N_CELLS))
    counts, cols, vals = [], [], []
    for s in range(0, N_CELLS, 2000):
        rate = profile[cell_type[s : s + 2000].to(device)] * depth[s : s + 2000, None].to(device)
        x = torch.poisson(rate)
        nz = x.nonzero(as_tuple=True)
        counts.append(torch.bincount(nz[0], minlength=x.shape[0]).cpu())
        cols.append(nz[1].int().cpu())
        vals.append(x[nz].short().cpu())
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), torch.cat(counts).cumsum(0)])
    return CountStore(indptr, torch.cat(cols), torch.cat(vals), N_GENES), batch_id


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, n_out), nn.LayerNorm(n_out), nn.ReLU(), nn.Dropout(0.1))


def zinb_log_prob(x, mu, theta, pi, eps=1e-8):
    softplus_pi = F.softplus(-pi)
    log_theta_mu = torch.log(theta + mu + eps)
    pi_theta_log = -pi + theta * (torch.log(theta + eps) - log_theta_mu)
    zero = F.softplus(pi_theta_log) - softplus_pi
    nonzero = (
        -softplus_pi
        + pi_theta_log
        + x * (torch.log(mu + eps) - log_theta_mu)
        + torch.lgamma(x + theta)
        - torch.lgamma(theta)
        - torch.lgamma(x + 1)
    )
    return torch.where(x < eps, zero, nonzero)


class CountVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(mlp(N_GENES + N_BATCHES, HIDDEN), mlp(HIDDEN, HIDDEN))
        self.z_mean = nn.Linear(HIDDEN, LATENT)
        self.z_logvar = nn.Linear(HIDDEN, LATENT)
        self.decoder = nn.Sequential(mlp(LATENT + N_BATCHES, HIDDEN), mlp(HIDDEN, HIDDEN))
        self.scale = nn.Linear(HIDDEN, N_GENES)
        self.dropout = nn.Linear(HIDDEN, N_GENES)
        self.log_theta = nn.Parameter(torch.randn(N_GENES) * 0.1)

    def forward(self, x, batch_id, kl_weight):
        onehot = F.one_hot(batch_id, N_BATCHES).to(x.dtype)
        library = x.sum(1, keepdim=True)
        h = self.encoder(torch.cat([torch.log1p(x), onehot], 1))
        mean, logvar = self.z_mean(h), self.z_logvar(h).clamp(-8, 8)
        z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        h = self.decoder(torch.cat([z, onehot], 1))
        mu = torch.softmax(self.scale(h), 1) * library
        rec = -zinb_log_prob(x, mu, torch.exp(self.log_theta), self.dropout(h)).sum(1)
        kl = -0.5 * (1 + logvar - mean.square() - logvar.exp()).sum(1)
        return (rec + kl_weight * kl).mean(), rec.mean().detach()


def main():
    store, batch_id = simulate()
    print(f"{N_CELLS} cells, {store.indices.numel() / N_CELLS:.0f} detected genes per cell")
    model = CountVAE().to(device)
    loss_fn = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-2, weight_decay=1e-6)
    order_gen = torch.Generator().manual_seed(1)
    kl_weight = torch.zeros((), device=device)
    for epoch in range(EPOCHS):
        kl_weight.fill_(min(1.0, (epoch + 1) / EPOCHS))
        order = torch.randperm(N_CELLS, generator=order_gen)
        steps = N_CELLS // BATCH
        total = torch.zeros((), device=device)
        for i in range(steps):
            if i == 5:
                if device == "cuda":
                    torch.cuda.synchronize()
                t0 = time.perf_counter()
            rows = order[i * BATCH : (i + 1) * BATCH]
            x = store.dense_rows(rows).to(device)
            b = batch_id[rows].to(device)
            loss, rec = loss_fn(x, b, kl_weight)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += rec
        if device == "cuda":
            torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) / (steps - 5) * 1e3
        print(f"epoch {epoch}  reconstruction {total.item() / steps:.2f}  {ms:.2f} ms/step")


if __name__ == "__main__":
    main()
