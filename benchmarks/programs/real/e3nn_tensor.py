"""An equivariant layer: e3nn's tensor product and gate on random edges."""

import torch
from e3nn import o3

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
irreps = o3.Irreps("16x0e + 16x1o")
sh = o3.Irreps("1x0e + 1x1o + 1x2e")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tp = o3.FullyConnectedTensorProduct(irreps, sh, irreps)
        self.linear = o3.Linear(irreps, irreps)

    def forward(self, x, attrs, src, dst):
        messages = self.tp(x[src], attrs)
        return self.linear(x) + torch.zeros_like(x).index_add(0, dst, messages)


model = Layer().to(device)
compiled = torch.compile(model)
n, e = 1000, 8000
x = irreps.randn(n, -1).to(device)
pos = torch.randn(e, 3, device=device)
attrs = o3.spherical_harmonics(sh, pos, normalize=True)
src, dst = torch.randint(0, n, (2, e), device=device)
with torch.no_grad():
    for _ in range(30):
        out = compiled(x, attrs, src, dst)
print(out.norm().item())
