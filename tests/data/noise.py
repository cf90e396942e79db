"""The known answers of tests/noise.rs, from a second program: ChaCha20 by RFC 8439's block function
with a 64-bit counter and a zero nonce, fast key erasure, and the samplers, on Python's integers."""

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

    def below(self, n):
        if n < 2**64:
            while True:
                product = self.u64() * n
                if product % 2**64 >= 2**64 % n:
                    return product >> 64
        shift = 128 - (n - 1).bit_length()
        while True:
            wide = self.u64() << 64 | self.u64()
            if wide >> shift < n:
                return wide >> shift

    def bernoulli_exp(self, numerator, denominator):
        for _ in range(numerator // denominator):
            if not self.fraction(1, 1):
                return False
        return self.fraction(numerator % denominator, denominator)

    def fraction(self, numerator, denominator):
        successes = 0
        while self.below(denominator * (successes + 1)) < numerator:
            successes += 1
        return successes % 2 == 0

    def laplace(self, scale):
        while True:
            part = self.below(scale)
            if not self.fraction(part, scale):
                continue
            whole = 0
            while self.fraction(1, 1):
                whole += 1
            size = part + scale * whole
            negative = self.bit()
            if not (negative and size == 0):
                return -size if negative else size

    def gaussian(self, sigma):
        while True:
            proposed = self.laplace(sigma)
            if self.bernoulli_exp((abs(proposed) - sigma) ** 2, 2 * sigma * sigma):
                return proposed


root = Random([int.from_bytes(bytes(range(i, i + 4)), "little") for i in range(0, 32, 4)])
bits, laplace, gaussian = root.stream(), root.stream(), root.stream()
print([hex(bits.u64()) for _ in range(4)])
print(hex([bits.u64() for _ in range(96)][-1]))
for scale in (2**22, 1):
    print([laplace.laplace(scale) for _ in range(8)])
for sigma in (2**24, 2, 2**50):
    print([gaussian.gaussian(sigma) for _ in range(8)])
