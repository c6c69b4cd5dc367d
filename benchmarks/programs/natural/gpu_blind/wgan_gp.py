"""WGAN-GP on 64x64 images (DCGAN generator, instance-norm critic)."""

import os
import time

import torch
import torch.nn as nn

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1"))

Z_DIM = 128
LAMBDA_GP = 10.0
N_CRITIC = 5

if DEVICE == "cuda":
    torch.backends.cudnn.benchmark = True


class Generator(nn.Module):
    def __init__(self, z_dim, channels, features):
        super().__init__()
        self.net = nn.Sequential(
            self._block(z_dim, features * 8, 4, 1, 0),
            self._block(features * 8, features * 4, 4, 2, 1),
            self._block(features * 4, features * 2, 4, 2, 1),
            self._block(features * 2, features, 4, 2, 1),
            nn.ConvTranspose2d(features, channels, 4, 2, 1),
            nn.Tanh(),
        )

    def _block(self, cin, cout, k, s, p):
        return nn.Sequential(
            nn.ConvTranspose2d(cin, cout, k, s, p, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels, features, 4, 2, 1),
            nn.LeakyReLU(0.2),
            self._block(features, features * 2),
            self._block(features * 2, features * 4),
            self._block(features * 4, features * 8),
            nn.Conv2d(features * 8, 1, 4, 2, 0),
        )

    def _block(self, cin, cout):
        return nn.Sequential(
            nn.Conv2d(cin, cout, 4, 2, 1, bias=False),
            nn.InstanceNorm2d(cout, affine=True),
            nn.LeakyReLU(0.2),
        )

    def forward(self, x):
        return self.net(x).flatten()


def init_weights(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    scores = critic(mixed)
    (grad,) = torch.autograd.grad(
        outputs=scores,
        inputs=mixed,
        grad_outputs=torch.ones_like(scores),
        create_graph=True,
        retain_graph=True,
    )
    norm = grad.flatten(1).norm(2, dim=1)
    return ((norm - 1) ** 2).mean()


def main():
    torch.manual_seed(0)
    batch = max(4, int(256 * SCALE))
    features = 64 if SCALE >= 1 else 16
    warmup, iters = 4, 30
    if SCALE < 1:
        iters = 3

    gen = Generator(Z_DIM, 3, features).to(DEVICE)
    critic = Critic(3, features).to(DEVICE)
    gen.apply(init_weights)
    critic.apply(init_weights)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))

    gen_c = torch.compile(gen)
    critic_c = torch.compile(critic)

    dataset = torch.rand(batch * 8, 3, 64, 64, device=DEVICE) * 2 - 1

    def train_iteration(it):
        for k in range(N_CRITIC):
            idx = torch.randint(0, dataset.size(0), (batch,), device=DEVICE)
            real = dataset[idx]
            noise = torch.randn(batch, Z_DIM, 1, 1, device=DEVICE)
            with torch.no_grad():
                fake = gen_c(noise)
            score_real = critic_c(real)
            score_fake = critic_c(fake)
            gp = gradient_penalty(critic, real, fake)
            loss_c = score_fake.mean() - score_real.mean() + LAMBDA_GP * gp
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()

        noise = torch.randn(batch, Z_DIM, 1, 1, device=DEVICE)
        loss_g = -critic_c(gen_c(noise)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        return loss_c.detach(), loss_g.detach(), gp.detach()

    for it in range(warmup if SCALE >= 1 else 1):
        train_iteration(it)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for it in range(iters):
        loss_c, loss_g, gp = train_iteration(it)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    print(f"loss_c {loss_c.item():.4f}  loss_g {loss_g.item():.4f}  gp {gp.item():.4f}")
    print(f"{1000 * elapsed / iters:.2f} ms/iteration  {batch * N_CRITIC * iters / elapsed:.0f} img/s")


if __name__ == "__main__":
    main()
