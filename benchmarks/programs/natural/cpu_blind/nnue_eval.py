"""Batch evaluation of chess positions with a quantised NNUE network, bit-exact
with the engine's integer inference (used to label self-play positions)."""

import time

import torch
import torch.nn as nn

N_FEATURES = 64 * 10 * 64 + 1  # king square x piece x square, last row is padding
PAD = N_FEATURES - 1
HIDDEN = 256
MAX_ACTIVE = 30
SHIFT = 6  # weights of the later layers are scaled by 64
QA = 127


class Nnue(nn.Module):
    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(1)

        def ints(lo, hi, *shape, dtype):
            return torch.randint(lo, hi, shape, generator=g).to(dtype)

        ft = ints(-30, 31, N_FEATURES, HIDDEN, dtype=torch.int16)
        ft[PAD] = 0
        self.register_buffer("ft_weight", ft)
        self.register_buffer("ft_bias", ints(-20, 60, HIDDEN, dtype=torch.int16))
        self.register_buffer("w1", ints(-64, 65, 32, 2 * HIDDEN, dtype=torch.int8))
        self.register_buffer("b1", ints(-4000, 4000, 32, dtype=torch.int32))
        self.register_buffer("w2", ints(-64, 65, 32, 32, dtype=torch.int8))
        self.register_buffer("b2", ints(-4000, 4000, 32, dtype=torch.int32))
        self.register_buffer("w3", ints(-64, 65, 1, 32, dtype=torch.int8))
        self.register_buffer("b3", ints(-500, 500, 1, dtype=torch.int32))

    def accumulate(self, feats):
        rows = self.ft_weight[feats]
        return self.ft_bias + rows.sum(dim=1, dtype=torch.int16)

    @staticmethod
    def dense(x, w, b):
        return torch.matmul(x, w.to(torch.int32).t()) + b

    @staticmethod
    def crelu(x, shift=SHIFT):
        return (x >> shift).clamp(0, QA)

    def forward(self, white, black, stm):
        aw = self.accumulate(white)
        ab = self.accumulate(black)
        ours = torch.where(stm[:, None], aw, ab)
        theirs = torch.where(stm[:, None], ab, aw)
        x = torch.cat([ours, theirs], dim=1).to(torch.int32).clamp(0, QA)
        x = self.crelu(self.dense(x, self.w1, self.b1))
        x = self.crelu(self.dense(x, self.w2, self.b2))
        return self.dense(x, self.w3, self.b3).squeeze(1) // 16


def random_positions(n, gen):
    """Active feature indices for both perspectives; unused slots hold PAD."""
    count = torch.randint(6, MAX_ACTIVE + 1, (n, 1), generator=gen)
    used = torch.arange(MAX_ACTIVE)[None, :] < count
    piece = torch.randint(0, 10, (n, MAX_ACTIVE), generator=gen)
    square = torch.randint(0, 64, (n, MAX_ACTIVE), generator=gen)
    kings = torch.randint(0, 64, (n, 2), generator=gen)
    white = (kings[:, :1] * 10 + piece) * 64 + square
    black = ((kings[:, 1:] ^ 56) * 10 + (piece + 5) % 10) * 64 + (square ^ 56)
    stm = torch.rand(n, generator=gen) < 0.5
    return torch.where(used, white, PAD), torch.where(used, black, PAD), stm


def main():
    torch.set_num_threads(2)
    gen = torch.Generator().manual_seed(5)
    net = Nnue().eval()
    evaluate = torch.compile(net)
    batch = 1024

    with torch.inference_mode():
        for _ in range(3):
            evaluate(*random_positions(batch, gen))

        scores, spent, n_batches = [], 0.0, 25
        for i in range(n_batches):
            pos = random_positions(batch, gen)
            t = time.perf_counter()
            cp = evaluate(*pos)
            spent += time.perf_counter() - t
            scores.append(cp)
            if i % 10 == 0:
                print(f"batch {i:3d}  mean {cp.float().mean():8.2f} cp  min {cp.min()}  max {cp.max()}")

    scores = torch.cat(scores)
    print(f"{scores.numel()} positions, |cp|>200: {(scores.abs() > 200).float().mean():.3f}")
    print(f"{1e3 * spent / n_batches:.2f} ms/batch, {scores.numel() / spent:,.0f} positions/s")


if __name__ == "__main__":
    main()
