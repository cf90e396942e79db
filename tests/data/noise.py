"""Writes the expected values of tests/noise.rs, by an independent implementation: ChaCha20 by RFC 8439's block function
with a 64-bit counter and a zero nonce, fast key erasure, and the samplers, on 100 decimal digits."""

from decimal import Decimal, getcontext

getcontext().prec = 100
MASK = 2**32 - 1


def chacha_block(key, counter):
    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & MASK
            t = s[z] ^ s[x]
            s[z] = (t << turn | t >> 32 - turn) & MASK

    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key, counter & MASK, counter >> 32, 0, 0]
    s = list(start)
    for _ in range(10):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
    return [(x + y) & MASK for x, y in zip(s, start)]


class Random:
    """Four blocks a key; the first eight words are the next key."""

    def __init__(self, key):
        self.key, self.words = key, []

    def u32(self):
        if not self.words:
            block = [word for counter in range(4) for word in chacha_block(self.key, counter)]
            self.key, self.words = block[:8], block[8:]
        return self.words.pop(0)

    def u64(self):
        return self.u32() << 32 | self.u32()

    def bit(self):
        return self.u32() >> 31

    def stream(self):
        return Random([self.u32() for _ in range(8)])

    def exponential(self, bits):
        """-ln U from 32 bits and 64: the library draws no more unless that leaves something open."""
        assert bits > 0
        bits, fraction = 33 - bits.bit_length(), self.u64()
        return bits * Decimal(2).ln() - (1 + Decimal(fraction) / 2**64).ln()

    def laplace(self, scale):
        return self.laplace_and_bits(scale)[0]

    def laplace_and_bits(self, scale):
        while True:
            word = self.u64()
            product = scale * self.exponential(word >> 32)
            size = int(product)
            slack = Decimal(scale) / 2**57
            assert slack < product - size < 1 - slack
            if not (word & 1 and size == 0):
                return -size if word & 1 else size, (word & MASK) >> 1

    def gaussian(self, sigma):
        while True:
            proposed, bits = self.laplace_and_bits(sigma)
            # The 31 bits are the first of a uniform U. Proposals are accepted if U is at most e^-least.
            accepted = (-Decimal((abs(proposed) - sigma) ** 2) / (2 * sigma * sigma)).exp() * 2**31
            assert bits >= 2**7 and not bits - 2**-20 < accepted < bits + 1 + 2**-20
            if bits < accepted:
                return proposed


root = Random([int.from_bytes(bytes(range(i, i + 4)), "little") for i in range(0, 32, 4)])
bits, laplace, gaussian = root.stream(), root.stream(), root.stream()
print([hex(bits.u64()) for _ in range(4)])
print(hex([bits.u64() for _ in range(96)][-1]))
for scale in (2**22, 1):
    print([laplace.laplace(scale) for _ in range(8)])
for sigma in (2**24, 2, 2**50):
    print([gaussian.gaussian(sigma) for _ in range(8)])
