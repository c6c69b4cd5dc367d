"""Membership of stars in a stellar stream: background density by a neural spline flow (normflows)."""

import math

import normflows as nf
import torch

DIM = 6  # phi2, pm_phi1, pm_phi2, distance modulus, colour, magnitude


def field_stars(n, gen):
    z = torch.randn(n, DIM, generator=gen)
    thick = torch.rand(n, generator=gen) < 0.35
    x = z * torch.tensor([1.2, 0.9, 0.7, 0.6, 0.4, 0.8])
    x[:, 1] += 0.6 * torch.sin(1.5 * x[:, 0])
    x[:, 2] += 0.35 * x[:, 0] ** 2 - 0.5
    x[:, 5] += torch.where(x[:, 4] > 0, 1.1, -0.7) * x[:, 4].abs()
    x[thick] = 0.6 * x[thick] + torch.tensor([0.0, -1.4, 0.8, 0.9, 0.5, -0.4])
    return x


def stream_stars(n, gen):
    centre = torch.tensor([0.1, 1.1, -0.9, -0.5, -0.2, 0.3])
    spread = torch.tensor([0.10, 0.08, 0.08, 0.12, 0.15, 0.5])
    return centre + spread * torch.randn(n, DIM, generator=gen), centre, spread


def build_flow(layers=3, hidden=48):
    flows = []
    for k in range(layers):
        flows.append(
            nf.flows.CoupledRationalQuadraticSpline(
                DIM,
                num_blocks=2,
                num_hidden_channels=hidden,
                num_bins=8,
                tail_bound=4.0,
                reverse_mask=bool(k % 2),
            )
        )
        flows.append(nf.flows.LULinearPermute(DIM))
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(DIM, trainable=False), flows)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.nll = torch.compile(model.forward_kld)

    def step(self, batch):
        self.opt.zero_grad()
        loss = self.nll(batch)
        if torch.isfinite(loss):
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
        return loss.detach()


def mixture_em(log_bg, log_st, rounds=50):
    frac = torch.tensor(0.05)
    for _ in range(rounds):
        a = torch.log(frac) + log_st
        b = torch.log1p(-frac) + log_bg
        member = torch.sigmoid(a - b)
        frac = member.mean().clamp(1e-4, 0.5)
    return frac, member


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(21)
    stars = field_stars(10000, gen)
    mean, std = stars.mean(0), stars.std(0)
    train = (stars - mean) / std
    model = build_flow()
    trainer = Trainer(model)

    batch = 500
    for epoch in range(6):
        order = torch.randperm(len(train), generator=gen)
        losses = []
        for k in range(0, len(train) - batch + 1, batch):
            losses.append(trainer.step(train[order[k : k + batch]]))
        print(f"epoch {epoch} nll {torch.stack(losses).mean():.4f}")

    # survey field: background and a few hundred stars of the stream
    members, centre, spread = stream_stars(300, gen)
    field = torch.cat([field_stars(4000, gen), members])
    label = torch.cat([torch.zeros(4000), torch.ones(300)])
    model.eval()
    with torch.no_grad():
        log_bg = torch.cat([model.log_prob(c) for c in ((field - mean) / std).split(1000)]) - std.log().sum()
    log_st = (-0.5 * ((field - centre) / spread) ** 2 - spread.log() - 0.5 * math.log(2 * math.pi)).sum(1)
    frac, prob = mixture_em(log_bg, log_st)
    picked = prob > 0.5
    print(
        f"stream fraction {frac:.4f} (true {300 / 4300:.4f}), purity {label[picked].mean():.3f}, "
        f"completeness {(picked & (label > 0)).sum() / 300:.3f}"
    )


if __name__ == "__main__":
    main()
