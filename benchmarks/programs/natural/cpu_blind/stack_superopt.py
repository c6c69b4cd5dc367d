"""
Evolutionary search for short integer programs (checksum reverse engineering).

A legacy PLC protocol signs each telegram with an unknown 16-bit checksum.  We
have captured (word, checksum) pairs, and evolve straight-line programs of a
small register machine until one reproduces them.  The whole population is
run on all captured words at once.
"""

import time

import torch

torch.manual_seed(64)

PRIME = 65521  # Adler's
POP = 3000
CASES = 48
LENGTH = 6
GENERATIONS = 22

OPS = ["add", "sub", "mul", "mod", "div", "xor", "shr", "horner"]


def hidden_checksum(w):
    a = (w * 31 + 7) % PRIME
    return (a ^ (w // 256)) % PRIME


class RegisterMachine:
    """acc <- acc OP operand; operand is an immediate or the input word"""

    def __init__(self, length):
        self.length = length

    def run(self, opcode, imm, use_word, words):
        # opcode/imm/use_word: (pop, length), words: (cases,)
        pop = opcode.shape[0]
        acc = words[None, :].expand(pop, -1)
        for i in range(self.length):
            op = opcode[:, i : i + 1]
            b = torch.where(use_word[:, i : i + 1], words[None, :], imm[:, i : i + 1])
            b1 = b.clamp_min(1)
            out = acc + b
            out = torch.where(op == 1, acc - b, out)
            out = torch.where(op == 2, acc * b, out)
            out = torch.where(op == 3, acc % b1, out)
            out = torch.where(op == 4, acc // b1, out)
            out = torch.where(op == 5, acc ^ b, out)
            out = torch.where(op == 6, acc >> (b & 7), out)
            out = torch.where(op == 7, acc * 31 + b, out)
            acc = out % PRIME
        return acc

    def fitness(self, opcode, imm, use_word, words, target):
        got = self.run(opcode, imm, use_word, words)
        exact = (got == target).float().mean(dim=1)
        near = 1.0 / (1.0 + (got - target).abs().float().log1p())
        return exact + 0.25 * near.mean(dim=1)


class Population:
    def __init__(self, n, length):
        self.opcode = torch.randint(0, len(OPS), (n, length))
        self.imm = torch.randint(0, 300, (n, length))
        self.use_word = torch.rand(n, length) < 0.3

    def breed(self, score):
        n, length = self.opcode.shape
        # tournaments of four
        cand = torch.randint(0, n, (n, 4))
        win = cand.gather(1, score[cand].argmax(dim=1, keepdim=True)).squeeze(1)
        mate = win[torch.randperm(n)]
        cut = torch.rand(n, length) < 0.5
        for name, new in (
            ("opcode", torch.randint(0, len(OPS), (n, length))),
            ("imm", torch.randint(0, 300, (n, length))),
            ("use_word", torch.rand(n, length) < 0.3),
        ):
            g = getattr(self, name)
            child = torch.where(cut, g[win], g[mate])
            mut = torch.rand(n, length) < 0.06
            child = torch.where(mut, new, child)
            child[0] = g[score.argmax()]  # elite
            setattr(self, name, child)


def main():
    words = torch.randint(0, 65536, (CASES,))
    target = hidden_checksum(words)
    vm = RegisterMachine(LENGTH)
    fitness = torch.compile(vm.fitness, mode="reduce-overhead")
    pop = Population(POP, LENGTH)

    for gen in range(GENERATIONS):
        t0 = time.perf_counter()
        score = fitness(pop.opcode, pop.imm, pop.use_word, words, target)
        dt = time.perf_counter() - t0
        best = score.argmax().item()
        print(f"gen {gen:3d}  {dt * 1e3:8.2f} ms  best {score[best]:.4f}  mean {score.mean():.4f}")
        genome = [
            (OPS[o], "w" if u else int(c))
            for o, c, u in zip(pop.opcode[best].tolist(), pop.imm[best].tolist(), pop.use_word[best].tolist())
        ]
        pop.breed(score.clone())
    print("best program:", genome)


if __name__ == "__main__":
    main()
