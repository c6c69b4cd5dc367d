"""Explicit soft-body simulation: a hanging jelly block of tetrahedra.

St. Venant-Kirchhoff elasticity on a regular grid (six tets per cell), lumped
masses, semi-implicit Euler with a little damping.  The top face is clamped and
the block swings and stretches under gravity.
"""

import time

import torch

DEVICE = "cuda"


def block_mesh(n, size=1.0):
    """Vertices of an n^3 grid and six tets for every cell (Kuhn split)."""
    line = torch.linspace(0.0, size, n, dtype=torch.float64)
    x, y, z = torch.meshgrid(line, line, line, indexing="ij")
    verts = torch.stack([x, y, z], dim=-1).reshape(-1, 3)
    idx = torch.arange(n**3).reshape(n, n, n)
    base = idx[:-1, :-1, :-1].reshape(-1)
    step = {"x": n * n, "y": n, "z": 1}
    tets = []
    for order in ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx"):
        corner = [base]
        for axis in order:
            corner.append(corner[-1] + step[axis])
        tets.append(torch.stack(corner, dim=1))
    return verts, torch.cat(tets)


class SoftBody:
    def __init__(self, n=60, young=2.0e4, poisson=0.38, density=1000.0, dt=3e-4):
        verts, tets = block_mesh(n)
        p = verts[tets]
        dm = (p[:, 1:] - p[:, :1]).transpose(1, 2)  # columns = edges
        vol = torch.linalg.det(dm) / 6.0
        flip = vol < 0  # keep orientation positive
        tets[flip] = tets[flip][:, [0, 2, 1, 3]]
        p = verts[tets]
        dm = (p[:, 1:] - p[:, :1]).transpose(1, 2).contiguous()
        vol = torch.linalg.det(dm) / 6.0

        self.mu = young / (2 * (1 + poisson))
        self.lam = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
        self.dt = dt
        self.damping = 0.4
        mass = torch.zeros(verts.shape[0], dtype=torch.float64)
        mass.index_add_(0, tets.reshape(-1), (density * vol / 4).repeat_interleave(4))

        self.tets = tets.to(DEVICE)
        self.rest_inv = torch.linalg.inv(dm).float().to(DEVICE)
        self.vol = vol.float().to(DEVICE)
        self.inv_mass = (1.0 / mass).float().unsqueeze(1).to(DEVICE)
        self.free = (verts[:, 2] < 0.999).float().unsqueeze(1).to(DEVICE)
        self.gravity = torch.tensor([1.5, 0.0, -9.81], device=DEVICE)
        self.eye = torch.eye(3, device=DEVICE)
        self.pos = verts.float().to(DEVICE)
        self.vel = torch.zeros_like(self.pos)

    def elastic_forces(self, pos):
        p = pos[self.tets]
        ds = (p[:, 1:] - p[:, :1]).transpose(1, 2)
        f = ds @ self.rest_inv
        strain = 0.5 * (f.transpose(1, 2) @ f - self.eye)
        trace = strain.diagonal(dim1=1, dim2=2).sum(-1)
        second_pk = 2 * self.mu * strain + self.lam * trace[:, None, None] * self.eye
        first_pk = f @ second_pk
        h = -self.vol[:, None, None] * (first_pk @ self.rest_inv.transpose(1, 2))
        h = h.transpose(1, 2)  # rows = nodes 1..3
        per_node = torch.cat([-h.sum(dim=1, keepdim=True), h], dim=1)
        force = torch.zeros_like(pos)
        force = force.index_add(0, self.tets.reshape(-1), per_node.reshape(-1, 3))
        energy = self.vol * (self.mu * (strain * strain).sum((1, 2)) + 0.5 * self.lam * trace * trace)
        return force, energy.sum()

    @torch.compile
    def step(self, pos, vel):
        force, energy = self.elastic_forces(pos)
        acc = force * self.inv_mass + self.gravity - self.damping * vel
        vel = (vel + self.dt * acc) * self.free
        pos = pos + self.dt * vel
        return pos, vel, energy


@torch.no_grad()
def main():
    body = SoftBody()
    print(f"{body.pos.shape[0]} vertices, {body.tets.shape[0]} tetrahedra")
    pos, vel = body.pos, body.vel
    total = 0.0
    for frame in range(40):
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        pos, vel, energy = body.step(pos, vel)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - t0) * 1e3
        if frame >= 5:
            total += ms
        if frame % 5 == 0:
            print(
                f"step {frame:3d}: {ms:8.3f} ms   elastic energy {energy.item():.4e} J   "
                f"lowest point {pos[:, 2].min().item():+.5f} m"
            )
    print(
        f"mean {total / 35:.3f} ms per step, "
        f"kinetic {0.5 * (vel.square() / body.inv_mass).sum().item():.4e} J, "
        f"finite: {bool(torch.isfinite(pos).all())}"
    )


if __name__ == "__main__":
    main()
