"""What a call takes of whose result a part is read, and what one takes that computes that part alone.

``python benchmarks/unread.py [--device cuda]`` prints both, in turns in one process, medians, the part of the
time that is saved, and the part of the result that is not read, which the rule `unread_results` goes by.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from awkward_calls import once
from torch import Tensor
from torch.nn import functional

ROUNDS = 15
Call = Callable[..., Tensor]


def cases(scale: int) -> dict[str, tuple[float, Call, Call, tuple[Tensor, ...]]]:
    """Name -> the part that is read, both ways to write it, what they are given."""
    rand, heads = torch.rand, torch.randint(0, 64, (8 * scale, 64))

    def scores(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.transpose(1, 2)).gather(2, heads.to(a.device)[..., None])[..., 0]

    def of_heads(a: Tensor, b: Tensor) -> Tensor:
        rows = heads.to(a.device)[..., None].expand(-1, -1, b.shape[2])
        return (a * b.gather(1, rows)).sum(-1)

    def layers(x: Tensor, v: Tensor, w: Tensor) -> Tensor:
        return functional.gelu(x @ v) @ w

    made: dict[str, tuple[float, Call, Call, tuple[Tensor, ...]]] = {}
    for tokens, width, words in ((16, 256, 4000), (128, 256, 4000), (128, 512, 1000)):
        made[f"the last of {tokens} tokens, {width} to {words}"] = (
            1 / tokens,
            lambda x, w: (x @ w)[:, -1],
            lambda x, w: x[:, -1] @ w,
            (rand(8 * scale, tokens, width), rand(width, words)),
        )
    made["half of 128 tokens, 512 to 1000"] = (
        0.5,
        lambda x, w: (x @ w)[:, :64],
        lambda x, w: x[:, :64] @ w,
        (rand(8 * scale, 128, 512), rand(512, 1000)),
    )
    made["a third of the columns, 512 to 1536"] = (
        1 / 3,
        lambda x, w: (x @ w)[..., :512],
        lambda x, w: x @ w[:, :512],
        (rand(8 * scale, 128, 512), rand(512, 1536)),
    )
    made["two layers for the first of 64 tokens, 256 to 1024 to 256"] = (
        1 / 64,
        lambda x, v, w: layers(x, v, w)[:, 0],
        lambda x, v, w: layers(x[:, 0], v, w),
        (rand(16 * scale, 64, 256), rand(256, 1024), rand(1024, 256)),
    )
    for rows, width in ((256, 64), (2048, 64), (1024, 512)):
        made[f"the diagonal of {rows} by {rows}, over {width}"] = (
            1 / rows,
            lambda a, b: (a @ b.T).diagonal(),
            lambda a, b: (a * b).sum(-1),
            (rand(rows, width), rand(rows, width)),
        )
    made["one of 64 scores for each of 64, over 128"] = (
        1 / 64, scores, of_heads, (rand(8 * scale, 64, 128), rand(8 * scale, 64, 128))
    )  # fmt: skip
    made["one of 4 scores for each, over 256"] = (
        0.25,
        lambda x, w: (x @ w).gather(1, (x[:, :1] * 4).long()),
        lambda x, w: (x * w.T[(x[:, 0] * 4).long()]).sum(-1, keepdim=True),
        (rand(4096 * scale, 256), rand(256, 4)),
    )
    made["every other place of a convolution's"] = (
        0.25,
        lambda x, w: functional.conv2d(x, w, padding=1)[:, :, ::2, ::2],
        lambda x, w: functional.conv2d(x, w, padding=1, stride=2),
        (rand(2 * scale, 32, 64, 64), rand(64, 32, 3, 3)),
    )
    return made


def trained(call: Call) -> Call:
    def run(*given: Tensor) -> Tensor:
        for item in given:
            item.grad = None
        made = call(*given)
        made.square().sum().backward()
        return made

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    print(f"torch {torch.__version__}, {device}: as written, as advised, saved, not read")
    for name, (read, written, advised, given) in cases(8 if device == "cuda" else 1).items():
        for training in (False, True):
            torch._dynamo.reset()
            inputs = [item.to(device).requires_grad_(training) for item in given]
            calls = [torch.compile(call) for call in (written, advised)]
            torch.testing.assert_close(calls[0](*inputs), calls[1](*inputs), rtol=1e-3, atol=1e-2)
            runs = [trained(call) if training else call for call in calls]
            for run in runs * 3:
                run(*inputs)
            times: list[list[float]] = [[], []]
            for _ in range(ROUNDS):
                for run, own in zip(runs, times, strict=True):
                    own.append(once(partial(run, *inputs), device))
            one, other = (statistics.median(own) for own in times)
            what = f"{name}{', trained' if training else ''}"
            print(
                f"  {what:66} {one:10.1f} {other:10.1f} us {1 - other / one:6.2f} {1 - read:6.2f}", flush=True
            )


if __name__ == "__main__":
    main()
