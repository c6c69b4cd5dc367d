"""Semi-supervised VAE in Pyro that assigns a floral origin to NMR spectra of honey from few labelled jars."""

import pyro
import pyro.distributions as dist
import torch
import torch._functorch.config
import torch.nn as nn
from pyro.infer import SVI, TraceEnum_ELBO, config_enumerate

ORIGINS = 6
BINS = 480
LATENT = 24
HIDDEN = 384


def mlp(sizes, out=None):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.Softplus()]
    if out is not None:
        layers.append(nn.Linear(sizes[-1], out))
    return nn.Sequential(*layers)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp([BINS, HIDDEN], ORIGINS)

    def forward(self, x):
        return self.net(x).softmax(-1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp([BINS + ORIGINS, HIDDEN, HIDDEN], 2 * LATENT)

    def forward(self, x, y):
        shape = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1])
        xy = torch.cat([x.expand(shape + (-1,)), y.expand(shape + (-1,))], -1)
        loc, raw = self.net(xy).chunk(2, -1)
        return loc, nn.functional.softplus(raw) + 1e-4


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp([LATENT + ORIGINS, HIDDEN, HIDDEN])
        self.loc = nn.Linear(HIDDEN, BINS)
        self.scale = nn.Linear(HIDDEN, BINS)

    def forward(self, z, y):
        shape = torch.broadcast_shapes(z.shape[:-1], y.shape[:-1])
        zy = torch.cat([z.expand(shape + (-1,)), y.expand(shape + (-1,))], -1)
        h = self.net(zy)
        return self.loc(h), torch.exp(self.scale(h).clamp(-5, 3))


class SSVAE(nn.Module):
    def __init__(self, aux_weight=40.0):
        super().__init__()
        self.encoder_y = Classifier()
        self.encoder_z = Encoder()
        self.decoder = Decoder()
        self.aux_weight = aux_weight

    def compile_parts(self):
        self.encoder_y.compile()
        self.encoder_z.compile()
        self.decoder.compile()

    def model(self, xs, ys=None):
        pyro.module("ss_vae", self)
        with pyro.plate("jars", xs.shape[0]):
            prior = xs.new_ones(xs.shape[0], ORIGINS) / ORIGINS
            y = pyro.sample("y", dist.OneHotCategorical(prior), obs=ys)
            z = pyro.sample("z", dist.Normal(xs.new_zeros(LATENT), 1.0).expand([LATENT]).to_event(1))
            loc, scale = self.decoder(z, y)
            pyro.sample("x", dist.Normal(loc, scale).to_event(1), obs=xs)

    def guide(self, xs, ys=None):
        with pyro.plate("jars", xs.shape[0]):
            if ys is None:
                ys = pyro.sample("y", dist.OneHotCategorical(self.encoder_y(xs)))
            loc, scale = self.encoder_z(xs, ys)
            pyro.sample("z", dist.Normal(loc, scale).to_event(1))

    def model_classify(self, xs, ys=None):
        pyro.module("ss_vae", self)
        with pyro.plate("jars", xs.shape[0]):
            if ys is not None:
                with pyro.poutine.scale(scale=self.aux_weight):
                    pyro.sample("y_aux", dist.OneHotCategorical(self.encoder_y(xs)), obs=ys)

    def guide_classify(self, xs, ys=None):
        pass


def spectra(n, templates, g):
    label = torch.randint(ORIGINS, (n,), generator=g)
    strength = 0.6 + 0.8 * torch.rand(n, 1, generator=g)
    drift = torch.randn(n, 1, generator=g) * torch.linspace(-1, 1, BINS)
    x = strength * templates[label] + 0.2 * drift + 0.35 * torch.randn(n, BINS, generator=g)
    return x, nn.functional.one_hot(label, ORIGINS).float()


def main():
    torch.set_num_threads(2)
    pyro.set_rng_seed(12)
    pyro.enable_validation(False)
    torch._functorch.config.donated_buffer = False
    g = torch.Generator().manual_seed(12)
    axis = torch.linspace(0, 1, BINS)
    centres = torch.rand(ORIGINS, 9, 1, generator=g)
    heights = torch.rand(ORIGINS, 9, 1, generator=g)
    templates = (heights * torch.exp(-(((axis - centres) / 0.012) ** 2))).sum(1) * 2
    x_all, y_all = spectra(4096, templates, g)
    x_lab, y_lab = spectra(256, templates, g)
    x_test, y_test = spectra(1024, templates, g)

    vae = SSVAE()
    vae.compile_parts()
    optim = pyro.optim.Adam({"lr": 8e-4, "betas": (0.9, 0.999)})
    elbo = SVI(
        vae.model, config_enumerate(vae.guide, expand=True), optim, loss=TraceEnum_ELBO(max_plate_nesting=1)
    )
    aux = SVI(vae.model_classify, vae.guide_classify, optim, loss=TraceEnum_ELBO(max_plate_nesting=1))

    batch = 128
    for epoch in range(2):
        total = 0.0
        order = torch.randperm(len(x_all), generator=g)
        for i, idx in enumerate(order.split(batch)):
            total += elbo.step(x_all[idx])
            if i % 4 == 0:
                pick = torch.randint(len(x_lab), (batch,), generator=g)
                total += elbo.step(x_lab[pick], y_lab[pick])
                aux.step(x_lab[pick], y_lab[pick])
        print(f"epoch {epoch}: loss per jar {total / len(x_all):.2f}")

    with torch.no_grad():
        pred = vae.encoder_y(x_test).argmax(-1)
    print(f"test accuracy {(pred == y_test.argmax(-1)).float().mean():.3f}")


if __name__ == "__main__":
    main()
