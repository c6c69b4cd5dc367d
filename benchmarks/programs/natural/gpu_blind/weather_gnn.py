# Encoder / processor / decoder graph network for 6-hourly global fields, trained on a two-step rollout.
# The "reanalysis" is a set of travelling spherical waves; the graph is lat-lon grid <-> Fibonacci mesh.
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn

SMOKE = os.environ.get("SMOKE", "0") == "1"
device = torch.device("cpu") if SMOKE else torch.device("cuda")


def sphere_points(lat, lon):
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)


def latlon_grid(nlat, nlon):
    lat = np.linspace(-np.pi / 2, np.pi / 2, nlat)
    lon = np.arange(nlon) * 2 * np.pi / nlon
    lat, lon = np.meshgrid(lat, lon, indexing="ij")
    return lat.ravel(), lon.ravel()


def fibonacci_mesh(n):
    i = np.arange(n) + 0.5
    return sphere_points(np.pi / 2 - np.arccos(1 - 2 * i / n), np.pi * (1 + 5**0.5) * i)


def knn_edges(src, dst, k, drop_self=False):
    """For each destination point the k nearest source points: (src_index, dst_index)."""
    d = torch.cdist(torch.as_tensor(dst), torch.as_tensor(src))
    idx = d.topk(k + drop_self, largest=False).indices[:, int(drop_self) :]
    return idx.reshape(-1), torch.arange(len(dst)).repeat_interleave(k)


def edge_features(src, dst, s, r):
    rel = torch.as_tensor(src)[s] - torch.as_tensor(dst)[r]
    return torch.cat([rel, rel.norm(dim=-1, keepdim=True)], -1).float()


def mlp(n_in, n_hidden, n_out=None):
    layers = [nn.Linear(n_in, n_hidden), nn.SiLU(), nn.Linear(n_hidden, n_out or n_hidden)]
    if n_out is None:
        layers.append(nn.LayerNorm(n_hidden))
    return nn.Sequential(*layers)


class Interaction(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.edge = mlp(3 * dim, dim)
        self.node = mlp(2 * dim, dim)

    def forward(self, h_src, h_dst, e, s, r):
        e = e + self.edge(torch.cat([h_src[s], h_dst[r], e], dim=-1))
        agg = torch.zeros_like(h_dst).index_add(0, r, e)
        return h_dst + self.node(torch.cat([h_dst, agg], dim=-1)), e


class GraphForecaster(nn.Module):
    def __init__(self, n_var, dim, n_proc, grid, mesh, k_mesh):
        super().__init__()
        graphs = {
            "g2m": knn_edges(grid, mesh, 12) + (grid, mesh),
            "m2m": knn_edges(mesh, mesh, k_mesh, drop_self=True) + (mesh, mesh),
            "m2g": knn_edges(mesh, grid, 3) + (mesh, grid),
        }
        for name, (s, r, a, b) in graphs.items():
            self.register_buffer(f"{name}_s", s)
            self.register_buffer(f"{name}_r", r)
            self.register_buffer(f"{name}_f", edge_features(a, b, s, r))
        self.register_buffer("grid_xyz", torch.as_tensor(grid).float())
        self.register_buffer("mesh_xyz", torch.as_tensor(mesh).float())
        self.embed_grid, self.embed_mesh = mlp(n_var + 3, dim), mlp(3, dim)
        self.embed_g2m, self.embed_m2m, self.embed_m2g = mlp(4, dim), mlp(4, dim), mlp(4, dim)
        self.encode, self.decode = Interaction(dim), Interaction(dim)
        self.process = nn.ModuleList(Interaction(dim) for _ in range(n_proc))
        self.readout = mlp(dim, dim, n_var)

    def forward(self, state):
        hg = self.embed_grid(torch.cat([state, self.grid_xyz], -1))
        hm = self.embed_mesh(self.mesh_xyz)
        hm, _ = self.encode(hg, hm, self.embed_g2m(self.g2m_f), self.g2m_s, self.g2m_r)
        e = self.embed_m2m(self.m2m_f)
        for layer in self.process:
            hm, e = layer(hm, hm, e, self.m2m_s, self.m2m_r)
        hg, _ = self.decode(hm, hg, self.embed_m2g(self.m2g_f), self.m2g_s, self.m2g_r)
        return state + self.readout(hg)


class Waves:
    def __init__(self, lat, lon, n_var, rng, n_waves=12):
        self.lat, self.lon = lat, lon
        self.m = rng.integers(1, 9, (n_var, n_waves))
        self.c = rng.normal(0, 0.15, (n_var, n_waves))
        self.p = rng.uniform(0, 2 * np.pi, (n_var, n_waves))
        self.q = rng.integers(1, 5, (n_var, n_waves))

    def at(self, t):
        arg = self.m * (self.lon[:, None, None] - self.c * t) + self.p
        return (np.cos(arg) * np.cos(self.lat)[:, None, None] ** self.q).mean(-1).astype(np.float32) * 3


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=3 if SMOKE else 50)
    ap.add_argument("--dim", type=int, default=16 if SMOKE else 320)
    ap.add_argument("--layers", type=int, default=2 if SMOKE else 8)
    ap.add_argument("--mesh", type=int, default=100 if SMOKE else 5120)
    ap.add_argument("--nlat", type=int, default=13 if SMOKE else 91)
    args = ap.parse_args()
    n_var = 24
    rng = np.random.default_rng(5)
    torch.manual_seed(5)
    lat, lon = latlon_grid(args.nlat, 2 * (args.nlat - 1))
    model = GraphForecaster(
        n_var, args.dim, args.layers, sphere_points(lat, lon), fibonacci_mesh(args.mesh), 8
    )
    model = model.to(device)
    w = torch.as_tensor(np.cos(lat) + 1e-3).float().to(device)[:, None]
    w = w / w.mean()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05)
    forecast = torch.compile(model, fullgraph=True)

    waves = Waves(lat, lon, n_var, rng)
    times = np.arange(24 if not SMOKE else 6)
    archive = [torch.from_numpy(waves.at(t)) for t in times]
    print(f"{len(lat)} grid points, {args.mesh} mesh nodes, {model.m2m_s.numel()} mesh edges")

    tic = time.time()
    for it in range(args.steps):
        k = int(rng.integers(0, len(times) - 2))
        state, targets = archive[k].to(device), [archive[k + 1].to(device), archive[k + 2].to(device)]
        opt.zero_grad()
        loss = 0.0
        for tgt in targets:
            state = forecast(state)
            loss = loss + (w * (state - tgt) ** 2).mean() / len(targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 32.0)
        opt.step()
        if it % 10 == 0 or it == args.steps - 1:
            print(f"iter {it:3d}  rmse {math.sqrt(loss.item()):.4f}  elapsed {time.time() - tic:.1f}s")


if __name__ == "__main__":
    main()
