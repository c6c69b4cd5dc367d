import torch
import torch._dynamo
from torch import nn

torch._dynamo.config.suppress_errors = True


def strict_backend(graph, inputs):
    raise RuntimeError("lowering of aten.custom_norm is not supported")


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


head = torch.compile(Head().eval(), backend=strict_backend)
with torch.no_grad():
    for _ in range(60):
        head(torch.randn(32, 128))
