"""Energy-based model of small stroke glyphs, trained by contrastive divergence with Langevin
samples from a replay buffer (after Du & Mordatch)."""

import logging
import random

import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("ebm")

SIZE = 28


class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Energy(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, c, 5, 2, 4),
            Swish(),
            nn.Conv2d(c, 2 * c, 3, 2, 1),
            Swish(),
            nn.Conv2d(2 * c, 4 * c, 3, 2, 1),
            Swish(),
            nn.Conv2d(4 * c, 4 * c, 3, 2, 1),
            Swish(),
            nn.Flatten(),
            nn.Linear(4 * 4 * c, 4 * c),
            Swish(),
            nn.Linear(4 * c, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(-1)


def make_glyphs(n, gen):
    """Soft quadratic strokes on a grid, in [-1, 1]."""
    yy, xx = torch.meshgrid(torch.linspace(0, 1, SIZE), torch.linspace(0, 1, SIZE), indexing="ij")
    t = torch.linspace(0, 1, 24)[None, :, None]
    img = torch.zeros(n, SIZE, SIZE)
    for _ in range(2):
        p = torch.rand(n, 3, 2, generator=gen) * 0.7 + 0.15
        curve = (1 - t) ** 2 * p[:, :1] + 2 * t * (1 - t) * p[:, 1:2] + t**2 * p[:, 2:]
        d2 = (xx - curve[..., 0, None, None]) ** 2 + (yy - curve[..., 1, None, None]) ** 2
        img = torch.maximum(img, torch.exp(-d2.amin(1) / (2 * 0.035**2)))
    return (img * 2 - 1).unsqueeze(1)


class Sampler:
    def __init__(self, model, batch, max_len=2048):
        self.model = model
        self.batch = batch
        self.max_len = max_len
        self.examples = [torch.rand(1, 1, SIZE, SIZE) * 2 - 1 for _ in range(batch)]

    def draw(self, steps=20, step_size=10.0):
        n_new = sum(random.random() < 0.05 for _ in range(self.batch))
        fresh = torch.rand(n_new, 1, SIZE, SIZE) * 2 - 1
        old = torch.cat(random.choices(self.examples, k=self.batch - n_new), 0)
        x = langevin(self.model, torch.cat([fresh, old], 0), steps, step_size)
        self.examples = list(x.chunk(self.batch, 0)) + self.examples
        self.examples = self.examples[: self.max_len]
        return x


def langevin(model, x, steps, step_size):
    # the network's own parameters need no gradient while we sample
    training = model.training
    model.eval()
    for p in model.parameters():
        p.requires_grad = False
    x = x.clone().requires_grad_(True)
    noise = torch.empty_like(x)
    for _ in range(steps):
        noise.normal_(0, 0.005)
        x.data.add_(noise).clamp_(-1.0, 1.0)
        out = -model(x)
        out.sum().backward()
        x.grad.data.clamp_(-0.03, 0.03)
        x.data.add_(x.grad.data, alpha=-step_size)
        x.grad.zero_()
        x.data.clamp_(-1.0, 1.0)
    for p in model.parameters():
        p.requires_grad = True
    model.train(training)
    return x.detach()


def ood_auc(model, real, fake):
    model.eval()
    with torch.no_grad():
        a, b = model(real), model(fake)
    model.train()
    return (a[:, None] > b[None]).float().mean().item()


def main():
    torch.manual_seed(42)
    random.seed(42)
    gen = torch.Generator().manual_seed(42)
    data = make_glyphs(3000, gen)
    held_out = make_glyphs(256, gen)
    flipped = held_out.flatten(2)[:, :, torch.randperm(SIZE * SIZE, generator=gen)].view_as(held_out)

    batch, iters, alpha = 64, 40, 0.1
    model = torch.compile(Energy(), mode="max-autotune-no-cudagraphs")
    opt = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.0, 0.999))
    sched = torch.optim.lr_scheduler.StepLR(opt, 20, gamma=0.9)
    sampler = Sampler(model, batch)

    for it in range(1, iters + 1):
        real = data[torch.randint(len(data), (batch,), generator=gen)]
        real = (real + 0.005 * torch.randn(real.shape, generator=gen)).clamp(-1, 1)
        fake = sampler.draw()
        both = model(torch.cat([real, fake]))
        e_real, e_fake = both.chunk(2)
        reg = alpha * (e_real**2 + e_fake**2).mean()
        cd = e_fake.mean() - e_real.mean()
        loss = reg + cd
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        sched.step()
        if it % 10 == 0:
            log.info(
                "iter %3d  cd %+.4f  reg %.4f  AUC vs shuffled %.3f",
                it,
                cd.item(),
                reg.item(),
                ood_auc(model, held_out, flipped),
            )

    samples = langevin(model, torch.rand(64, 1, SIZE, SIZE) * 2 - 1, 40, 10.0)
    print(f"mean ink of samples {samples.mean().item():.4f}, of data {data.mean().item():.4f}")
    print("buffer size", len(sampler.examples), f"final AUC {ood_auc(model, held_out, flipped):.4f}")


if __name__ == "__main__":
    main()
