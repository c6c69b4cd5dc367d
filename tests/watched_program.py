"""A program whose compilation the recorder must not change: `python watched_program.py KIND...`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x))) + x


@contextlib.contextmanager
def scaled(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x * 2


def numbers(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for number in range(3):
        yield x + number


def trained(model: nn.Module) -> None:
    for _ in range(3):
        model(torch.ones(4, 16, requires_grad=True)).sum().backward()


def hooks() -> None:
    model = nn.Sequential(Block(), Block())
    model[0].register_forward_hook(lambda module, given, result: result * 1.5)
    model[1].register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    model[1].get_submodule("a").register_full_backward_hook(lambda module, given, result: None)
    trained(torch.compile(model, backend="eager"))


def in_place() -> None:
    model = nn.Sequential(Block(), Block())
    model.compile(backend="eager")
    trained(model)


def nested() -> None:
    model = nn.Sequential(*(torch.compile(Block(), backend="eager") for _ in range(2)))
    outer = torch.compile(lambda x: model(x) * 2, backend="eager")
    for _ in range(3):
        outer(torch.ones(4, 16))
        model(torch.ones(4, 16))


def generators() -> None:
    def total(x: torch.Tensor) -> torch.Tensor:
        result = torch.zeros(5)
        for y in numbers(x):
            result = result + y
        return result

    compiled = torch.compile(total, backend="eager")
    generator = torch.compile(numbers, backend="eager")
    for _ in range(3):
        compiled(torch.ones(5))
        with contextlib.suppress(Exception):
            list(generator(torch.ones(5)))


def managers() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        with scaled(x) as y, torch.no_grad():
            y = y + 1
        print("break")
        return y * 3

    compiled = torch.compile(broken, backend="eager")
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            compiled(torch.ones(5, 5))
        with torch.inference_mode():
            compiled(torch.ones(5, 5))


def ddp() -> None:
    trained(torch.compile(nn.parallel.DistributedDataParallel(Block()), backend="eager"))


def fsdp() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(Block(), Block())
    mesh = init_device_mesh("cpu", (2,))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    trained(torch.compile(model, backend="eager"))


if __name__ == "__main__":
    torch.manual_seed(0)
    kinds = {
        function.__name__: function for function in (hooks, in_place, nested, generators, managers, ddp, fsdp)
    }
    if launched := "RANK" in os.environ:
        dist.init_process_group("gloo")
    for kind in sys.argv[1:]:
        torch._dynamo.reset()
        kinds[kind]()
    if launched:
        dist.destroy_process_group()
    print("rank", os.environ.get("RANK", "0"))
