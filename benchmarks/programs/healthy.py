"""Programs in which nothing is worth changing: `python healthy.py NAME`, or `--measure` for all.

Makes thirty calls of the compiled function. `--measure` prints what the tool has no part in, of each: the
median of calls between two CUDA events (a clock on a CPU), bytes and operations counted by hand, the
rate of a copy.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

CALLS = 30
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
HALF = torch.bfloat16 if GPU else torch.float32
ITEM = 2 if GPU else 4


def n(gpu, cpu):
    return gpu if GPU else cpu


def chain():
    x = torch.randn(n(64, 8) << 20, device=DEVICE)
    return (lambda x: F.gelu(x * 2 + 1).tanh() * x), (x,), 2 * x.nbytes, 0


def layer_norm():
    rows, width = n(32768, 4096), n(4096, 1024)
    x, weight = (
        torch.randn(rows, width, device=DEVICE, dtype=HALF),
        torch.ones(width, device=DEVICE, dtype=HALF),
    )
    return (lambda x, w: F.layer_norm(x, (width,), w)), (x, weight), 2 * x.nbytes, 0


def softmax():
    x = torch.randn(n(65536, 4096), n(2048, 1024), device=DEVICE)
    return (lambda x: torch.softmax(x * 0.5, -1)), (x,), 2 * x.nbytes, 0


def attention():
    batch, heads, length = n((16, 16, 4096), (2, 8, 512))
    q, k, v = (torch.randn(batch, heads, length, 64, device=DEVICE, dtype=HALF) for _ in range(3))
    return (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 2,
        (q, k, v),
        6 * q.nbytes,
        4 * batch * heads * length**2 * 64,
    )


def mlp():
    rows, width = n(8192, 512), n(4096, 512)
    layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).to(
        DEVICE, HALF
    )
    x = torch.randn(rows, width, device=DEVICE, dtype=HALF)
    moved = 2 * x.nbytes + 2 * 4 * width * width * ITEM + 4 * rows * 4 * width * ITEM
    return layers, (x,), moved, 2 * 2 * rows * 4 * width * width


def convolutions():
    batch, side = n((64, 112), (4, 56))
    layers = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()
    )
    layers = layers.to(
        DEVICE, torch.float16 if GPU else torch.float32, memory_format=torch.channels_last
    ).eval()
    x = torch.randn(batch, 64, side, side, device=DEVICE).to(
        layers[0].weight.dtype, memory_format=torch.channels_last
    )
    return layers, (x,), 8 * x.nbytes, 2 * 2 * batch * side * side * 64 * 64 * 9


def reductions():
    x = torch.randn(n(16384, 2048), n(8192, 2048), device=DEVICE)
    return (lambda x: (x.sum(1), x.amax(1), (x * x).sum(1))), (x,), x.nbytes, 0


def embeddings():
    table, rows, each = torch.randn(n(1000, 200) * 1000, 128, device=DEVICE), n(16384, 1024), 64
    index = torch.randint(len(table), (rows, each), device=DEVICE)
    return (
        lambda index, table: F.embedding(index, table).sum(1),
        (index, table),
        index.nbytes + rows * each * 512 + rows * 512,
        0,
    )


def optimiser():
    parameters = [nn.Parameter(torch.randn(n(2, 1) << 20, device=DEVICE)) for _ in range(n(40, 8))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    step = torch.optim.AdamW(parameters, lr=1e-3, foreach=True, capturable=GPU).step
    return step, (), 7 * sum(parameter.nbytes for parameter in parameters), 0


def rope():
    heads, length = n((8 * 32, 4096), (16, 1024))
    q, angles = (
        torch.randn(heads, length, 128, device=DEVICE, dtype=HALF),
        torch.randn(length, 64, device=DEVICE),
    )
    sin, cos = (torch.cat([t, t], -1).to(HALF) for t in (angles.sin(), angles.cos()))
    return (
        lambda q, cos, sin: q * cos + torch.cat([-q[..., 64:], q[..., :64]], -1) * sin,
        (q, cos, sin),
        2 * q.nbytes,
        0,
    )


def cross_entropy():
    logits = torch.randn(n(8192, 512), n(50304, 8192), device=DEVICE, dtype=HALF)
    target = torch.randint(logits.shape[1], (len(logits),), device=DEVICE)
    return (
        (lambda logits, target: F.cross_entropy(logits.float(), target)),
        (logits, target),
        logits.nbytes,
        0,
    )


def transposes():
    x, y = (torch.randn(n(8192, 2048), n(8192, 2048), device=DEVICE) for _ in range(2))
    return (lambda x, y: x.t() + y), (x, y), 3 * x.nbytes, 0


PROGRAMS = (
    chain, layer_norm, softmax, attention, mlp, convolutions, reductions, embeddings, optimiser, rope,
    cross_entropy, transposes,
)  # fmt: skip


def times(compiled, inputs):
    if not GPU:
        for _ in range(CALLS):
            start = time.perf_counter()
            compiled(*inputs)
            yield (time.perf_counter() - start) * 1e3
        return
    for _ in range(CALLS):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # The host runs ahead meanwhile, so that only the device's work is between the events.
        torch.cuda._sleep(2_000_000)
        first.record()
        compiled(*inputs)
        last.record()
        torch.cuda.synchronize()
        yield first.elapsed_time(last)


def copy_rate():
    """Bytes a second of a copy, read and written."""
    source = torch.randn(n(256, 32) << 20, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (min(times(target.copy_, (source,))) * 1e-3)


if __name__ == "__main__":
    measure = sys.argv[1] == "--measure"
    for program in PROGRAMS:
        if not measure and program.__name__ != sys.argv[1]:
            continue
        torch.manual_seed(0)
        function, inputs, moved, operations = program()
        fast = torch.compile(function)
        with torch.no_grad():
            for _ in range(CALLS):
                out = fast(*inputs)
            if measure:
                taken = {"ms": statistics.median(times(fast, inputs)), "bytes": moved, "flop": operations}
                print(json.dumps({"name": program.__name__, **taken, "copy": copy_rate()}), flush=True)
