"""Classify faults of domestic heat pumps from eight hours of one-minute telemetry (ignite training loop)."""

import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHANNELS = [
    "suction_t",
    "discharge_t",
    "evap_p",
    "cond_p",
    "fan",
    "compressor_w",
    "flow_t",
    "return_t",
    "outdoor_t",
]
FAULTS = ["healthy", "undercharge", "fouled_evaporator", "stuck_valve", "short_cycling"]
MINUTES = 480


def make_telemetry(n, gen):
    t = torch.arange(MINUTES) / 60.0
    label = torch.randint(len(FAULTS), (n,), generator=gen)
    severity = 0.4 + 0.6 * torch.rand(n, 1, generator=gen)
    period = 0.8 + 0.6 * torch.rand(n, 1, generator=gen)
    period = torch.where(label[:, None] == 4, period * 0.45, period)
    phase = torch.rand(n, 1, generator=gen) * 6.28
    on = torch.sigmoid(8 * (torch.sin(6.28 * t / period + phase) + 0.3))
    outdoor = 4 + 5 * torch.sin(6.28 * (t - 14) / 24) + 4 * torch.randn(n, 1, generator=gen)
    under = severity * (label == 1)[:, None]
    fouled = severity * (label == 2)[:, None]
    stuck = severity * (label == 3)[:, None]
    hunting = torch.sin(6.28 * t * 7 + phase)
    drift = t / t[-1]
    suction = outdoor - 6 - 5 * on * (1 + under) - 9 * fouled * drift + 2.5 * stuck * hunting * on
    discharge = 35 + 40 * on * (1 + 0.25 * under) + 3 * stuck * hunting
    evap = 6 + 0.15 * suction - 0.8 * under * on
    cond = 18 + 8 * on - 1.5 * under * on
    fan = 60 * on * (1 + 0.6 * fouled * drift)
    power = 1.8 * on * (1 + 0.15 * fouled * drift - 0.1 * under) + 0.05
    flow = 38 + 5 * on - 2 * (under + fouled) * on
    back = flow - 4.5 * on
    x = torch.stack([suction, discharge, evap, cond, fan, power, flow, back, outdoor], dim=1)
    x = x + 0.6 * torch.randn(x.shape, generator=gen)
    return (x - x.mean((0, 2), keepdim=True)) / x.std((0, 2), keepdim=True), label


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of (batch, channel, time)."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        var = (x - mean).square().mean(1, keepdim=True)
        x = (x - mean) * torch.rsqrt(var + self.eps)
        return x * self.weight[:, None] + self.bias[:, None]


class Block(nn.Module):
    def __init__(self, dim, kernel=9, scale=0.1):
        super().__init__()
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = ChannelNorm(dim)
        self.up = nn.Conv1d(dim, 2 * dim, 1)
        self.down = nn.Conv1d(2 * dim, dim, 1)
        self.scale = nn.Parameter(torch.full((dim, 1), scale))

    def forward(self, x):
        h = F.gelu(self.up(self.norm(self.depthwise(x))))
        return x + self.scale * self.down(h)


class FaultNet(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.stem = nn.Conv1d(len(CHANNELS), dim, 4, stride=4)
        self.early = nn.Sequential(Block(dim), Block(dim))
        self.shrink = nn.Conv1d(dim, 2 * dim, 2, stride=2)
        self.late = nn.Sequential(Block(2 * dim), Block(2 * dim))
        self.head = nn.Sequential(nn.LayerNorm(2 * dim), nn.Linear(2 * dim, len(FAULTS)))

    def forward(self, x):
        return self.head(self.late(self.shrink(self.early(self.stem(x)))).mean(-1))


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    train = DataLoader(TensorDataset(*make_telemetry(1440, gen)), batch_size=96, shuffle=True)
    valid = DataLoader(TensorDataset(*make_telemetry(480, gen)), batch_size=96)
    model = FaultNet()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    def train_step(engine, batch):
        model.train()
        x, y = batch
        optimizer.zero_grad()
        loss = criterion(compiled(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def eval_step(engine, batch):
        model.eval()
        with torch.no_grad():
            x, y = batch
            return compiled(x), y

    trainer, evaluator = Engine(train_step), Engine(eval_step)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    Accuracy().attach(evaluator, "accuracy")
    Loss(criterion).attach(evaluator, "nll")
    confusion = ConfusionMatrix(num_classes=len(FAULTS))
    confusion.attach(evaluator, "confusion")
    evaluator.add_event_handler(
        Events.COMPLETED, EarlyStopping(4, lambda engine: -engine.state.metrics["nll"], trainer)
    )

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(valid)
        m = evaluator.state.metrics
        print(
            f"epoch {engine.state.epoch}: loss {engine.state.metrics['loss']:.3f}, "
            f"val accuracy {m['accuracy']:.3f}, nll {m['nll']:.3f}"
        )

    trainer.run(train, max_epochs=5)
    matrix = evaluator.state.metrics["confusion"]
    recall = matrix.diag() / matrix.sum(1).clamp(min=1)
    print("recall", {name: round(r.item(), 2) for name, r in zip(FAULTS, recall)})


if __name__ == "__main__":
    main()
