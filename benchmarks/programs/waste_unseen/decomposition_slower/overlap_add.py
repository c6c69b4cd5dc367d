"""Frames of speech put together again by overlap and add, with their window."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
LENGTH = 512 + 128 * 599


@torch.library.custom_op("waste::overlap_add", mutates_args=())
def overlap_add(frames: torch.Tensor) -> torch.Tensor:
    return F.fold(frames, (1, LENGTH), (1, 512), stride=(1, 128))


@overlap_add.register_fake
def _(frames):
    return frames.new_empty(frames.shape[0], 1, 1, LENGTH)


def inputs():
    return torch.randn(16, 512, 600), torch.hann_window(512)


def step(frames, window):
    return F.fold(frames * window[:, None], (1, LENGTH), (1, 512), stride=(1, 128))[:, 0, 0, 256:-256]


def twin(frames, window):
    return overlap_add(frames * window[:, None])[:, 0, 0, 256:-256]


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(25):
            result = run(*args)
