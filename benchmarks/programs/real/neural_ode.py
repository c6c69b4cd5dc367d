"""A neural ODE with torchdiffeq: the right-hand side compiled, dopri5 outside."""

import torch
from torchdiffeq import odeint

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64))

    def forward(self, t, y):
        return self.net(y**3) - 0.1 * y


field = Field().to(device)
rhs = torch.compile(field)
opt = torch.optim.Adam(field.parameters(), 1e-3)
y0 = torch.randn(256, 64, device=device)
times = torch.linspace(0, 1, 10, device=device)
for step in range(12):
    opt.zero_grad()
    path = odeint(rhs, y0, times, method="dopri5", rtol=1e-4, atol=1e-5)
    loss = path[-1].square().mean()
    loss.backward()
    opt.step()
print(loss.item())
