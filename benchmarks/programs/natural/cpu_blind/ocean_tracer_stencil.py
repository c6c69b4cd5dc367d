"""Advect and diffuse biogeochemical tracers in a closed ocean basin."""

import math
import statistics
import time

import torch
import torch.nn.functional as F

TRACERS = 3
NY, NX = 480, 512
DX = 1.0 / NX
DT = 2.0e-4
KAPPA = 1.0e-4


class OceanTracers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        yf = torch.linspace(0, 1, NY + 1)
        xf = torch.linspace(0, 1, NX + 1)
        psi = torch.sin(math.pi * yf)[:, None] * torch.sin(2 * math.pi * xf)[None, :]
        u = -(psi[1:, :] - psi[:-1, :]) / DX / (2 * math.pi)
        v = (psi[:, 1:] - psi[:, :-1]) / DX / (2 * math.pi)
        self.register_buffer("u", u)
        self.register_buffer("v", v)
        light = torch.exp(-3.0 * torch.linspace(0, 1, NY))[:, None]
        self.register_buffer("light", light.expand(NY, NX).contiguous())

    def tendency(self, c):
        east = c[:, :, 1:]
        west = c[:, :, :-1]
        u = self.u[:, 1:-1]
        fx = 0.5 * u * (east + west) - 0.5 * u.abs() * (east - west)
        fx = fx - KAPPA * (east - west) / DX
        fx = F.pad(fx, (1, 1))

        north = c[:, 1:, :]
        south = c[:, :-1, :]
        v = self.v[1:-1, :]
        fy = 0.5 * v * (north + south) - 0.5 * v.abs() * (north - south)
        fy = fy - KAPPA * (north - south) / DX
        fy = F.pad(fy, (0, 0, 1, 1))

        div = (fx[:, :, 1:] - fx[:, :, :-1]) + (fy[:, 1:, :] - fy[:, :-1, :])
        return -div / DX

    def biology(self, c):
        nutrient, phyto, detritus = c.unbind(0)
        growth = 1.2 * self.light * nutrient / (0.2 + nutrient) * phyto
        loss = 0.15 * phyto + 0.4 * phyto.square() / (0.1 + phyto)
        remin = 0.3 * detritus * torch.exp(-0.5 * self.light)
        return torch.stack((remin - growth, growth - loss, loss - remin))

    def forward(self, c):
        transport = self.tendency(c)
        mid = c + DT * transport
        c = mid + 10.0 * DT * self.biology(mid)
        return c.clamp_min(0.0)


def initial_state():
    y = torch.linspace(0, 1, NY)[:, None]
    x = torch.linspace(0, 1, NX)[None, :]
    nutrient = 0.5 + 0.5 * y + 0 * x
    phyto = 0.1 + 0.3 * torch.exp(-((x - 0.3) ** 2 + (y - 0.6) ** 2) / 0.01)
    detritus = 0.05 + 0.05 * torch.cos(6 * math.pi * x) * torch.cos(4 * math.pi * y)
    return torch.stack((nutrient, phyto, detritus.abs()))


def main():
    torch.set_num_threads(2)
    model = OceanTracers()
    step = torch.compile(model, dynamic=False)
    c = initial_state()
    with torch.no_grad():
        for _ in range(5):
            c = step(c)
        times = []
        for _ in range(60):
            start = time.perf_counter()
            c = step(c)
            times.append(time.perf_counter() - start)

    print("inventory:", [round(v, 5) for v in c.mean(dim=(1, 2)).tolist()])
    print(f"time per step: {statistics.median(times) * 1e3:.3f} ms")
    print(f"checksum: {c.double().sum().item():.4f}")


if __name__ == "__main__":
    main()
