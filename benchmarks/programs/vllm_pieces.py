"""A model of two layers that vLLM compiles on a CPU, without its own kernels, for its torch_compile_cache.

    pip install --no-deps vllm==0.33.0, and what `python -c "import vllm.compilation.backends"` asks for
    VLLM_USE_AOT_COMPILE=0 VLLM_CACHE_ROOT=FOLDER python vllm_pieces.py

The attention splits the graph, as vLLM's own does; pieces are compiled for lengths of 1 to 2,048 and for 16.
"""

import torch
import vllm.compilation.backends
import vllm.platforms
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CompilationConfig, CompilationMode, CUDAGraphMode, VllmConfig, set_current_vllm_config
from vllm.forward_context import set_forward_context
from vllm.platforms.cpu import CpuPlatform

vllm.platforms._current_platform = CpuPlatform()
# Its passes replace operators by kernels of its own, which are not built.
vllm.compilation.backends.VllmBackend.configure_post_pass = lambda self: None

library = torch.library.Library("toy", "FRAGMENT")
library.define("attend(Tensor q, Tensor k, Tensor v, Tensor(a!) out) -> ()")


def attend(q, k, v, out):
    out.copy_(torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v)


library.impl("attend", attend, "CPU")
library.impl("attend", lambda q, k, v, out: None, "Meta")


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Model(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(32, 96) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.up, self.down, strict=True):
            q, k, v = up(torch.nn.functional.rms_norm(x, (32,))).chunk(3, -1)
            out = torch.empty_like(q)
            torch.ops.toy.attend(q, k, v, out)
            x = x + torch.nn.functional.silu(down(out))
        return x


config = VllmConfig(compilation_config=CompilationConfig(cudagraph_mode=CUDAGraphMode.NONE))
compilation = config.compilation_config
# A CPU's platform sets these anew.
compilation.mode, compilation.backend = CompilationMode.VLLM_COMPILE, "inductor"
compilation.splitting_ops, compilation.compile_sizes = ["toy::attend"], [16]
for name in vars(compilation.pass_config):
    if name.startswith(("fuse_", "enable_")):
        setattr(compilation.pass_config, name, False)
with set_current_vllm_config(config):
    torch.manual_seed(0)
    model = Model(vllm_config=config)
with torch.inference_mode(), set_forward_context(None, vllm_config=config):
    for length in (9, 16):
        print(model(torch.randn(length, 32)).sum().item())
