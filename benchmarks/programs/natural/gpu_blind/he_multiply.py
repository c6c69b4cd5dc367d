"""Ciphertext multiplication of a lattice scheme (residue number system, negacyclic number theoretic transform)."""

import os
import time

import torch

SMOKE = os.environ.get("SMOKE") == "1"
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)

DEGREE = 64 if SMOKE else 4096
LIMBS = 2 if SMOKE else 4
BATCH = 3 if SMOKE else 48
ROUNDS = 5 if SMOKE else 90


def is_prime(n):
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13, 17):
        x = pow(a, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def ntt_primes(count, degree, bits=30):
    q, out = (1 << bits) + 1, []
    while len(out) < count:
        q -= 2 * degree
        if is_prime(q):
            out.append(q)
    return out


def root_of_unity(q, order):
    g = 2
    while True:
        psi = pow(g, (q - 1) // order, q)
        if pow(psi, order // 2, q) == q - 1:
            return psi
        g += 1


def bit_reversed_powers(base, q, n):
    bits = n.bit_length() - 1
    powers = [1] * n
    for i in range(1, n):
        powers[i] = powers[i - 1] * base % q
    return [powers[int(format(i, f"0{bits}b")[::-1], 2)] for i in range(n)]


class Ring:
    def __init__(self, degree, limbs):
        self.n = degree
        self.primes = ntt_primes(limbs, degree)
        fwd, inv, n_inv = [], [], []
        for q in self.primes:
            psi = root_of_unity(q, 2 * degree)
            fwd.append(bit_reversed_powers(psi, q, degree))
            inv.append(bit_reversed_powers(pow(psi, -1, q), q, degree))
            n_inv.append(pow(degree, -1, q))
        self.q = torch.tensor(self.primes, device=device)
        self.psi = torch.tensor(fwd, device=device)
        self.psi_inv = torch.tensor(inv, device=device)
        self.n_inv = torch.tensor(n_inv, device=device)

    def ntt(self, x):
        shape, q = x.shape, self.q[:, None, None]
        m, t = 1, self.n
        while m < self.n:
            t //= 2
            x = x.reshape(*shape[:-1], m, 2, t)
            u = x[..., 0, :]
            v = x[..., 1, :] * self.psi[:, m : 2 * m, None] % q
            x = torch.stack([(u + v) % q, (u - v) % q], dim=-2)
            m *= 2
        return x.reshape(shape)

    def intt(self, x):
        shape, q = x.shape, self.q[:, None, None]
        m, t = self.n, 1
        while m > 1:
            m //= 2
            x = x.reshape(*shape[:-1], m, 2, t)
            u, v = x[..., 0, :], x[..., 1, :]
            x = torch.stack([(u + v) % q, (u - v) * self.psi_inv[:, m : 2 * m, None] % q], dim=-2)
            t *= 2
        return x.reshape(shape) * self.n_inv[:, None] % self.q[:, None]

    def multiply(self, ct_a, ct_b):
        """(a0, a1) x (b0, b1) -> (a0 b0, a0 b1 + a1 b0, a1 b1); inputs are batch x 2 x limbs x degree."""
        q = self.q[:, None]
        a = self.ntt(ct_a)
        b = self.ntt(ct_b)
        a0, a1, b0, b1 = a[:, 0], a[:, 1], b[:, 0], b[:, 1]
        c0 = a0 * b0 % q
        c1 = (a0 * b1 % q + a1 * b0 % q) % q
        c2 = a1 * b1 % q
        return self.intt(torch.stack([c0, c1, c2], dim=1))


def check(ring, ct_a, ct_b, ct_c):
    """Constant coefficient of the first product against schoolbook arithmetic."""
    for limb, q in enumerate(ring.primes):
        a, b = ct_a[0, 0, limb].tolist(), ct_b[0, 0, limb].tolist()
        c = a[0] * b[0] - sum(a[i] * b[ring.n - i] for i in range(1, ring.n))
        assert c % q == int(ct_c[0, 0, limb, 0]), (limb, q)


def main():
    ring = Ring(DEGREE, LIMBS)
    print("moduli", ring.primes)
    cts = [
        torch.stack([torch.randint(q, (BATCH, 2, DEGREE), device=device) for q in ring.primes], dim=2)
        for _ in range(4)
    ]
    multiply = torch.compile(ring.multiply)
    check(ring, cts[0], cts[1], multiply(cts[0], cts[1]))

    digest, times = 0, []
    for r in range(ROUNDS):
        if device == "cuda":
            torch.cuda.synchronize()
        t0 = time.perf_counter()
        c = multiply(cts[r % 4], cts[(r + 1) % 4])
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - t0) * 1e3)
        digest = (digest * 31 + int(c[r % BATCH, r % 3].sum())) % 1000003
    times = sorted(times[ROUNDS // 5 :])
    print(f"digest {digest}   median {times[len(times) // 2]:.3f} ms for {BATCH} products")


if __name__ == "__main__":
    main()
