"""torch.export with a dynamic batch, compiled ahead of time into a package and run from it."""

import tempfile
from pathlib import Path

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.LayerNorm(32), torch.nn.Softmax(-1)).eval()
example = (torch.randn(8, 64),)
batch = torch.export.Dim("batch", min=2, max=64)
with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
    program = torch.export.export(model, example, dynamic_shapes=({0: batch},))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "model.pt2"))
    run = torch._inductor.aoti_load_package(package)
    for size in (8, 16, 32):
        x = torch.randn(size, 64)
        print(size, torch.allclose(run(x), model(x), atol=1e-5))
