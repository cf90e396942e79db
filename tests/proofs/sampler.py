#!/usr/bin/env python3
"""Proves, for every input, that the integers of the Laplace sampler neither overflow nor err by more than they may.

Reads src/noise/exponential.rs and logarithms.rs, and evaluates the lines of `fast` themselves: over intervals, once for
each of the 256 entries of the table, with exact fractions. So nothing is sampled, and no floating point is used.
Laplace.v and Sampler.v prove what follows from these bounds.
"""

import ast
import re
import sys
from fractions import Fraction
from pathlib import Path

SOURCE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "src/noise"
CODE = (SOURCE / "exponential.rs").read_text().split("#[cfg(test)]\nmod tests")[0]
LN_2 = int(re.search(r"const LN_2: u64 = (0x[0-9a-f_]+);", CODE)[1].replace("_", ""), 16)
WINDOW = int(re.search(r"const WINDOW: u128 = (\d+);", CODE)[1])
MAX_SCALE = 2**50
ONE = 2**64


def prove(fact, what):
    if not fact:
        sys.exit(f"not proved: {what}")


def twice_atanh(n):
    total, power, odd = 0, 2**121 // n, 1
    while power > 0:
        total, power, odd = total + power // odd, power // (n * n), odd + 2
    return total


def table():
    """What logarithms.rs computes, which must be these lines. The proof compares each entry with the exact logarithm."""
    code = re.sub(r" *//.*", "", (SOURCE / "logarithms.rs").read_text())
    assumed = """
        pub static LOGARITHMS: [[u64; 2]; 256] = {
        let mut table = [[0; 2]; 256];
        let mut log = twice_atanh(1025);
        let mut i = 0;
        while i < table.len() {
        let c = 2 * i as u128 + 513;
        let (reciprocal, rest) = ((1 << 73) / c, (1 << 73) % c);
        table[i] = [reciprocal as u64, ((log + (rest << 47)) >> 56) as u64];
        log += twice_atanh(c + 1);
        i += 1;
        }
        table
        };
        const fn twice_atanh(n: u128) -> u128 {
        let (mut power, mut odd, mut sum) = ((1 << 121) / n, 1, 0);
        while power > 0 {
        sum += power / odd;
        power /= n * n;
        odd += 2;
        }
        sum
        }"""
    prove(code.split() == assumed.split(), "logarithms.rs computes the table as this proof assumes")
    entries, log = [], twice_atanh(1025)
    for c in range(513, 2 * 256 + 513, 2):
        reciprocal, rest = 2**73 // c, 2**73 % c
        entries.append([reciprocal, (log + (rest << 47)) >> 56])
        prove(reciprocal < ONE and log + (rest << 47) < 2**120, "the words hold the entries")
        log += twice_atanh(c + 1)
    return entries


class Interval:
    """[low, high], of fractions."""

    def __init__(self, low, high=None):
        self.low, self.high = Fraction(low), Fraction(low if high is None else high)

    def __add__(self, other):
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self):
        return Interval(-self.high, -self.low)

    def __mul__(self, other):
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def largest(self):
        return max(abs(self.low), abs(self.high))


FLOOR = Interval(-1, 0)  # what rounding down adds


class Word:
    """A signed word of 64 bits: a polynomial in x (real, the z of the code in units of 1), plus an error.

    Each operation proves that its result fits."""

    def __init__(self, polynomial, error, x):
        self.polynomial, self.error, self.x = polynomial, error, x
        value = self.value()
        prove(-(2**63) <= value.low and value.high < 2**63, "a word of 64 bits holds every intermediate result")

    def exact(self):
        total, power = Interval(0), Interval(1)
        for coefficient in self.polynomial:
            total, power = total + Interval(coefficient) * power, power * self.x
        return total

    def value(self):
        return self.exact() + self.error

    def of(self, other):
        return other if isinstance(other, Word) else Word([Fraction(other)], Interval(0), self.x)

    def __lshift__(self, bits):
        return Word([c * 2**bits for c in self.polynomial], self.error * Interval(2**bits), self.x)

    def __rshift__(self, bits):
        return Word([c / 2**bits for c in self.polynomial], self.error * Interval(Fraction(1, 2**bits)) + FLOOR, self.x)

    def __add__(self, other):
        other = self.of(other)
        n = max(len(self.polynomial), len(other.polynomial))
        a, b = (w.polynomial + [Fraction(0)] * (n - len(w.polynomial)) for w in (self, other))
        return Word([p + q for p, q in zip(a, b)], self.error + other.error, self.x)

    def __neg__(self):
        return Word([-c for c in self.polynomial], -self.error, self.x)

    def __sub__(self, other):
        return self + -self.of(other)

    def __rsub__(self, other):
        return self.of(other) + -self


def high_signed(a, b):
    """The upper 64 bits of a product of 128: rounded down."""
    b = a.of(b)
    polynomial = [Fraction(0)] * (len(a.polynomial) + len(b.polynomial) - 1)
    for i, p in enumerate(a.polynomial):
        for j, q in enumerate(b.polynomial):
            polynomial[i + j] += p * q / ONE
    error = (a.exact() * b.error + b.exact() * a.error + a.error * b.error) * Interval(Fraction(1, ONE)) + FLOOR
    return Word(polynomial, error, a.x)


def logarithm(y, bits=320):
    """Bounds of ln y for a fraction y in [1/2, 2], in units of 2^-bits: 2 atanh((y - 1)/(y + 1))."""
    s = (Fraction(y) - 1) / (Fraction(y) + 1)
    sign, s = (1, s) if s >= 0 else (-1, -s)
    low = high = 0
    power, odd = s, 1
    while power * 2**bits >= 1:
        term = 2 * power * 2**bits / odd
        low, high = low + term.__floor__(), high + term.__ceil__()
        power, odd = power * s * s, odd + 2
        power = Fraction((power * 2 ** (bits + 64)).__ceil__(), 2 ** (bits + 64))  # up, by far less than a unit
    low, high = low - odd, high + 4  # the powers were rounded up; the terms that are left, for s up to 1/3
    return (low, high) if sign > 0 else (-high, -low)




# --- the fast path ---------------------------------------------------------------------------------------------------

fast = re.search(r"fn fast\(self\) -> u128 \{\n(.*?)\n    \}\n", CODE, re.S)[1]
lines = [line.strip() for line in fast.splitlines() if not line.strip().startswith("//")]
first = [
    "let [reciprocal, logarithm] = LOGARITHMS[(self.fraction >> 56) as usize];",
    "let z = reciprocal.wrapping_add(high(self.fraction, reciprocal)) as i64;",
]
last = [
    "let doublings = u128::from(self.zeros + 1) * u128::from(LN_2);",
    "doublings.wrapping_sub(logarithm.into()).wrapping_sub(rest as u128)",
]
lines = [re.sub(r" // .*", "", line) for line in lines]
prove(lines[:2] == first and lines[-2:] == last, "`fast` begins and ends as this proof assumes")
polynomial = [re.fullmatch(r"let (\w+) = (.*);", line).groups() for line in lines[2:-2]]
for name, line in polynomial:
    names = {node.id for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    prove(names <= {"z", "high_signed", "THIRD", "FIFTH", "SIXTH"} | {n for n, _ in polynomial}, f"{name} has known names")
constants = {
    name: (2**63 - 1) // int(n) for name, n in re.findall(r"const (\w+): i64 = i64::MAX / (\d+);", CODE)
}

ln_2, above = logarithm(2)
prove(LN_2 << 256 <= ln_2 and above < (LN_2 + 1) << 256, "LN_2 is ln 2, rounded down")
worst, widest = Fraction(0), Fraction(0)
for i, (reciprocal, entry) in enumerate(table()):
    # z grows with the fraction, so its ends are those of the interval.
    ends = [reciprocal + (f * reciprocal >> 64) - ONE for f in (i << 56, (i + 1 << 56) - 1)]
    x = Interval(Fraction(ends[0], ONE), Fraction(ends[1], ONE))
    widest = max(widest, x.largest())
    variables = dict(constants, high_signed=high_signed, z=Word([Fraction(0), Fraction(ONE)], Interval(0), x))
    for name, line in polynomial:
        variables[name] = eval(line, {"__builtins__": {}}, variables)
    rest = variables["rest"]
    # Against x - x^2/2 + x^3/3 - ..: the coefficients that differ, and the terms from x^7 on.
    error, bound = rest.error, x.largest()
    series = [Fraction(0)] + [Fraction((-1) ** (k + 1), k) * ONE for k in range(1, 7)]
    ours = rest.polynomial + [Fraction(0)] * (7 - len(rest.polynomial))
    prove(all(c == 0 or k <= 12 for k, c in enumerate(ours)), "the polynomial has a known degree")
    off = sum(abs(c - (series[k] if k < 7 else 0)) * bound**k for k, c in enumerate(ours))
    off += ONE * bound**7 / 7 / (1 - bound)
    # What z leaves out: its own rounding, and the bits of F that are not drawn yet. Both make it too small.
    left_out = 2 / (1 - bound)
    low, high = logarithm(Fraction(reciprocal, ONE))
    prove(-((entry + 1) << 256) < high and low <= -(entry << 256), f"entry {i} is -ln of its reciprocal, rounded down")
    too_small = Interval(-1, 0) + error + Interval(-off, off) + Interval(-left_out, 0)  # logarithm and rest
    doublings = Interval(-32, 0)  # (N + 1) LN_2, for N below 32
    total = doublings + -too_small
    worst = max(worst, total.largest())
prove(widest < Fraction(1, 2**9), "|z| < 2^-9")
prove(worst < WINDOW // 2, f"the error of the fast logarithm is below WINDOW/2, it may be {float(worst)}")
prove(32 * LN_2 + 2**63 + WINDOW < 2**69 and 2**69 * MAX_SCALE < 2**128, "128 bits hold the product with the scale")
prove(WINDOW * MAX_SCALE < 2**64, "64 bits hold the window")
prove(32 + 1 <= 2**32, "32 bits hold N + 1")
print(f"fast path: every result is within {float(worst):.2f} of 64 units of 2^-64; |z| <= {float(widest * 512):.4f} 2^-9")

# --- the slow path ---------------------------------------------------------------------------------------------------

# twice_atanh(s) for s <= 1/3, in units of 2^-256. A power is too small by `error`: its product is rounded down, and so
# are its factors. Each term is rounded down once more, and doubled. The sum ends when the power is 0.
error, power, sum_error, odd = Fraction(0), Fraction(2**256, 3), Fraction(0), 1
terms = 0
while power >= 1:
    sum_error += 2 * (error / odd + 1)
    error = error / 9 + power / 2**256 + 1  # the square is up to 1 too small
    power, odd, terms = power / 9, odd + 2, terms + 1
sum_error += 2 * (power + error) / odd * Fraction(9, 8)
prove(sum_error < 2**9, "2 atanh is less than 2^-247 too small")
prove(odd < 2**64, "a quotient by an odd number fits into a word")  # rest < odd, so (rest 2^64 + word)/odd < 2^64
prove(2 * (2**64 - 1) + (2**64 - 1) + 2 < 2**128, "128 bits hold a doubled word with its carry")
# ln(1 + F): the quotient F/(2 + F) is rounded down, which 2/(1 - s^2) <= 9/4 enlarges; F lacks bits beyond 256.
log_error = sum_error + Fraction(9, 4) + 1
# E = (N + 1) ln 2 - ln(1 + F) is off by (N + 1) sum_error + log_error units or less.
prove((2**7 * sum_error + log_error) < 2**16, "E is off by less than 2^-240 for N below 2^7")
# Given N, E has a density of at most 2 on an interval of ln 2. So scale E is within w of one of at most scale ln 2 + 2
# integers with probability at most (scale ln 2 + 2) (2 w/scale) 2 <= 11 w, where w = scale (error for N) and scale >= 1.
# N = n has probability 2^-(n+1), and the mean of N + 1 is 2.
variation = 11 * MAX_SCALE * (2 * sum_error + log_error) / 2**256
prove(variation < Fraction(1, 2**150), "the total variation is below 2^-150 for each draw")
exponent = 0
while variation * 2 ** (exponent + 1) < 1:
    exponent += 1
print(f"slow path: {terms} terms, 2 atanh within {float(sum_error):.0f} units of 2^-256")
print(f"total variation of a draw: below 2^-{exponent}")
