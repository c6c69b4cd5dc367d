"""A spiking network that detects seizures in intracranial EEG windows (SpikingJelly), trained with surrogate gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from spikingjelly.activation_based import functional, layer, neuron, surrogate

CHANNELS, LENGTH, STEPS, BATCH = 16, 128, 12, 24


class EEGWindows(torch.utils.data.IterableDataset):
    """Background 1/f-like activity; seizures add a spreading 3-8 Hz spike-and-wave discharge."""

    def __init__(self, batches, seed):
        self.batches, self.seed = batches, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        t = torch.arange(STEPS * LENGTH) / 256
        for _ in range(self.batches):
            noise = torch.randn(BATCH, CHANNELS, STEPS * LENGTH, generator=g)
            x = F.avg_pool1d(noise, 5, 1, 2) * 1.5 + 0.3 * noise
            label = (torch.rand(BATCH, generator=g) < 0.5).long()
            freq = 3 + 5 * torch.rand(BATCH, 1, 1, generator=g)
            delay = torch.rand(BATCH, CHANNELS, 1, generator=g)
            wave = torch.sin(2 * torch.pi * freq * (t - delay * 0.1))
            spike = torch.relu(wave - 0.7) * 6
            reach = (torch.rand(BATCH, CHANNELS, 1, generator=g) < 0.5).float()
            x = x + label[:, None, None] * reach * (0.5 * wave + spike)
            yield x.view(BATCH, CHANNELS, STEPS, LENGTH).permute(2, 0, 1, 3).contiguous(), label


def conv_block(c_in, c_out, tau):
    return nn.Sequential(
        layer.Conv1d(c_in, c_out, 5, padding=2, bias=False),
        layer.BatchNorm1d(c_out),
        neuron.LIFNode(tau=tau, surrogate_function=surrogate.ATan(), detach_reset=True),
        layer.MaxPool1d(2),
    )


class SeizureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            conv_block(CHANNELS, 32, 2.0),
            conv_block(32, 48, 2.0),
            conv_block(48, 64, 3.0),
        )
        self.head = nn.Sequential(
            layer.Flatten(),
            layer.Linear(64 * LENGTH // 8, 64, bias=False),
            neuron.ParametricLIFNode(surrogate_function=surrogate.ATan(), detach_reset=True),
            layer.Linear(64, 20, bias=False),
            neuron.LIFNode(surrogate_function=surrogate.ATan(), detach_reset=True),
        )
        functional.set_step_mode(self, "m")

    def forward(self, x):
        spikes = self.head(self.features(x))
        return spikes.view(*spikes.shape[:2], 2, 10).mean((0, 3)), spikes.mean()


def evaluate(model, net, loader):
    net.eval()
    right = total = 0
    rates = []
    with torch.no_grad():
        for x, label in loader:
            rate, activity = model(x)
            functional.reset_net(net)
            right += (rate.argmax(1) == label).sum().item()
            total += len(label)
            rates.append(activity.item())
    net.train()
    return right / total, sum(rates) / len(rates)


def main():
    torch.manual_seed(2)
    net = SeizureNet()
    model = torch.compile(net)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    train = torch.utils.data.DataLoader(EEGWindows(40, seed=0), batch_size=None)
    test = torch.utils.data.DataLoader(EEGWindows(12, seed=99), batch_size=None)
    running = 0.0
    for i, (x, label) in enumerate(train):
        rate, activity = model(x)
        loss = F.mse_loss(rate, F.one_hot(label, 2).float()) + 0.01 * (activity - 0.1) ** 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        functional.reset_net(net)
        running += loss.item()
        if i % 10 == 9:
            print(f"batch {i + 1:3d}  loss {running / 10:.4f}")
            running = 0.0
    acc, activity = evaluate(model, net, test)
    print(f"accuracy {100 * acc:.1f} %, output firing rate {activity:.3f}")


if __name__ == "__main__":
    main()
