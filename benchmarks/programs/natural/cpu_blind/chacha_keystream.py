"""ChaCha20 (RFC 8439) in tensor form: encrypts a stream of large records, many blocks at a time.

The state of all blocks is four rows of words, each (4, blocks).  A column round works on the rows as they are,
a diagonal round after rotating the rows.  torch has no good unsigned 32-bit arithmetic, so words live in int64.
"""

import time

import torch

MASK = 0xFFFFFFFF
CONSTANTS = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]


def rotl(x, n):
    return ((x << n) | (x >> (32 - n))) & MASK


def quarter_round(a, b, c, d):
    a = (a + b) & MASK
    d = rotl(d ^ a, 16)
    c = (c + d) & MASK
    b = rotl(b ^ c, 12)
    a = (a + b) & MASK
    d = rotl(d ^ a, 8)
    c = (c + d) & MASK
    b = rotl(b ^ c, 7)
    return a, b, c, d


@torch.compile
def double_round(a, b, c, d):
    a, b, c, d = quarter_round(a, b, c, d)
    b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
    a, b, c, d = quarter_round(a, b, c, d)
    return a, b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)


@torch.compile
def xor_with_keystream(data, words):
    """data: (blocks, 64) bytes; words: (16, blocks) keystream words, least significant byte first."""
    shifts = torch.arange(0, 32, 8)
    stream = (words.t()[:, :, None] >> shifts) & 0xFF
    return data ^ stream.reshape(data.shape).to(torch.uint8)


def words_of(raw):
    b = torch.tensor(list(raw), dtype=torch.int64).view(-1, 4)
    return (b << torch.tensor([0, 8, 16, 24])).sum(1)


class ChaCha20:
    def __init__(self, key):
        assert len(key) == 32
        self.key = words_of(key)

    def keystream(self, nonce, counter, blocks):
        fixed = torch.cat([torch.tensor(CONSTANTS), self.key])
        count = (counter + torch.arange(blocks)) & MASK
        state = torch.cat(
            [
                fixed[:, None].expand(12, blocks),
                count[None],
                words_of(nonce)[:, None].expand(3, blocks),
            ]
        )
        rows = state.view(4, 4, blocks).unbind(0)
        for _ in range(10):
            rows = double_round(*rows)
        return (torch.cat(rows) + state) & MASK

    def apply(self, data, nonce, counter=1):
        """Encrypts or decrypts a 1-d tensor of bytes."""
        blocks = -(-data.numel() // 64)
        padded = torch.nn.functional.pad(data, (0, blocks * 64 - data.numel()))
        words = self.keystream(nonce, counter, blocks)
        return xor_with_keystream(padded.view(blocks, 64), words).view(-1)[: data.numel()]


def self_test():
    cipher = ChaCha20(bytes(range(32)))
    nonce = bytes([0, 0, 0, 9, 0, 0, 0, 0x4A, 0, 0, 0, 0])
    words = cipher.keystream(nonce, 1, 1)[:, 0].tolist()
    expected = [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3]
    assert words[:4] == expected, [hex(w) for w in words]
    print("RFC 8439 block test passed")


def main():
    torch.manual_seed(7)
    self_test()
    cipher = ChaCha20(bytes((i * 37 + 11) % 256 for i in range(32)))
    record_bytes, records = 2 << 20, 60
    plain = torch.randint(0, 256, (record_bytes,), dtype=torch.uint8)
    checksum, last = 0, None
    start = time.perf_counter()
    for i in range(records):
        nonce = i.to_bytes(12, "little")
        last = cipher.apply(plain, nonce)
        checksum = (checksum * 31 + int(last[:4096].long().sum())) % (1 << 31)
    seconds = time.perf_counter() - start
    print(
        f"{records} records of {record_bytes >> 20} MiB: {records * record_bytes / seconds / 1e6:.1f} MB/s, "
        f"checksum {checksum}"
    )

    back = cipher.apply(last, (records - 1).to_bytes(12, "little"))
    print("round trip exact:", bool((back == plain).all()))
    hist = torch.bincount(last.long(), minlength=256).double()
    chi2 = ((hist - hist.mean()) ** 2 / hist.mean()).sum()
    print(f"chi-square of the cipher bytes over 255 degrees of freedom: {chi2:.1f}")


if __name__ == "__main__":
    main()
