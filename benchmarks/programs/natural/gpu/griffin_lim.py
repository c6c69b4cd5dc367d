"""Phase reconstruction by a few Griffin-Lim rounds."""

import os

import torch

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


def griffin_lim(magnitude, window, angles, n_fft=1024, hop=256, rounds=6, momentum=0.99):
    previous = torch.zeros_like(angles)
    for _ in range(rounds):
        audio = torch.istft(magnitude * angles, n_fft, hop, window=window)
        rebuilt = torch.stft(audio, n_fft, hop, window=window, return_complex=True)
        angles = rebuilt - previous * (momentum / (1 + momentum))
        angles = angles / (angles.abs() + 1e-8)
        previous = rebuilt
    return torch.istft(magnitude * angles, n_fft, hop, window=window)


def build(device, compiled):
    torch.manual_seed(0)
    window = torch.hann_window(1024, device=device)
    n, frames = pick(16, 1), pick(400, 16)
    magnitude = torch.rand(n, 513, frames, device=device)
    angles = torch.polar(
        torch.ones(n, 513, frames, device=device), 6.28 * torch.rand(n, 513, frames, device=device)
    )
    run = torch.compile(griffin_lim, backend=BACKEND) if compiled else griffin_lim

    def step():
        return run(magnitude, window, angles)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
