//! Computes floor(scale * Exp(1)) exactly. All samplers use it.
//!
//! E = -ln U is an Exp(1) for a uniform U, whose bits are all the randomness there is. U = 2^-N (1 + F)/2, where N is
//! the number of zeros before the first one and F are the bits after it, so E = (N + 1) ln 2 - ln(1 + F).
//!
//! **Fast path.** The logarithm is computed in fixed point from 64 bits of F, with integers only: a table of 256
//! entries and a polynomial, with a proved error below 64 units of 2^-64 (`tests/proofs/sampler.py` proves it for every
//! input, by intervals). This decides the floor unless scale * E is
//! so near to an integer that the error, or the missing bits of F, could matter. The probability that it decides is
//! 1 - scale * 2^-57 (2^-35 short of one at scale 2^22).
//!
//! **Slow path.** Otherwise 192 more bits are drawn for the same U, and a logarithm in 256 bits decides. It leaves
//! the floor undecided with probability below 2^-150, whatever the scale (proved there). That is the distance from the
//! exact distribution, which is discrete Laplace (`tests/proofs/Sampler.v`).
//!
//! **Timing.** The time does not reveal E: by memorylessness, the distance of scale * E to the next integer says
//! nothing about that integer, and no branch of the fast path depends on E. (A machine word of zeros, probability
//! 2^-31, takes the slow path too; then E is above 21.)
//!
//! **Comparing.** To accept a proposal with probability e^-x, the Gaussian sampler compares E with x. 31 bits of U and
//! bounds of x decide nearly always, by the same instructions whatever E and x are. Otherwise the slow path compares
//! exactly. The number of rejected proposals does not depend on the accepted one.

use super::logarithms::LOGARITHMS;
use crate::random::Random;

/// ln 2, in units of 2^-64, rounded down.
const LN_2: u64 = 0xb172_17f7_d1cf_79ab;
/// Twice a bound of the error of the fast logarithm, in units of 2^-64: see [`Exponential::fast`].
const WINDOW: u128 = 128;

/// A comparison with 31 bits of U is decided by these bits unless there are more zeros among them.
const COARSE_ZEROS: u32 = 24;

/// An Exp(1), as far as its bits are drawn.
#[derive(Clone, Copy)]
pub struct Exponential {
    /// N, the number of zeros before the first one in U.
    zeros: u32,
    /// The first bits of F, in units of 2^-64.
    fraction: u64,
}

impl Exponential {
    /// Takes 32 bits for N, and 64 for F. Draws more for N if all 32 are zero.
    #[inline]
    pub fn new(bits: u32, fraction: u64, random: &mut Random) -> Exponential {
        let zeros = bits.leading_zeros() + if bits == 0 { zeros(|| random.next_u32()) } else { 0 };
        Exponential { zeros, fraction }
    }

    /// floor(scale * E), for a scale of at most 2^50.
    #[inline]
    pub fn times(self, scale: u64, random: &mut Random) -> u64 {
        self.fast_times(scale).unwrap_or_else(|| self.slow(random).times(scale.into()) as u64)
    }

    /// Whether a fresh E is at least a fraction, which is true with probability e^-fraction. The fraction lies between
    /// `low` and `high`, in units of 2^-64, and is exactly `numerator / denominator`, both below 2^127. The lowest 31 of
    /// `bits` are the first bits of U. If they leave it undecided (probability below 2^-22), 256 more are drawn.
    #[inline]
    pub fn draw_is_at_least(
        bits: u32,
        [low, high]: [u128; 2],
        exact: impl FnOnce() -> [u128; 2],
        random: &mut Random,
    ) -> bool {
        let zeros = (bits << 1).leading_zeros();
        if zeros < COARSE_ZEROS {
            let (coarse, unknown) = Exponential::coarse(bits, zeros);
            if let Some(answer) = coarse.fast_is_at_least([low, high], unknown) {
                return answer;
            }
        }
        let [numerator, denominator] = exact();
        // The numerator is an integer, so comparing with the floor is exact.
        Exponential::completed(bits, random).slow(random).times(denominator) >= numerator
    }

    /// Decides unless the fraction is too near. F may be up to `unknown` larger, so that E may be as much smaller.
    #[inline]
    fn fast_is_at_least(self, [low, high]: [u128; 2], unknown: u64) -> Option<bool> {
        let fast = self.fast();
        let at_least = fast >= high + u128::from(unknown) + WINDOW / 2;
        (at_least || fast + WINDOW / 2 < low).then_some(at_least)
    }

    /// From the lowest 31 bits: F with zeros for the bits that are not drawn, and a bound of what they may add to it.
    #[inline]
    fn coarse(bits: u32, zeros: u32) -> (Exponential, u64) {
        (Exponential { zeros, fraction: u64::from(bits) << (34 + zeros) }, 1 << (34 + zeros))
    }

    /// The same U with all bits of F.
    #[cold]
    fn completed(bits: u32, random: &mut Random) -> Exponential {
        match (bits << 1).leading_zeros() {
            32 => Exponential { zeros: 31 + zeros(|| random.next_u32()), fraction: random.next_u64() },
            30 => Exponential { zeros: 30, fraction: random.next_u64() },
            zeros => {
                let (coarse, unknown) = Exponential::coarse(bits, zeros);
                Exponential { zeros, fraction: coarse.fraction | random.next_u64() & (unknown - 1) }
            }
        }
    }

    #[inline]
    fn fast_times(self, scale: u64) -> Option<u64> {
        // A difference below zero wraps around. The sum below then overflows, so the result is undecided.
        let product = self.fast().wrapping_sub(WINDOW / 2).wrapping_mul(scale.into());
        let decided = (product as u64).checked_add(WINDOW as u64 * scale).is_some() && self.zeros < 32;
        decided.then_some((product >> 64) as u64)
    }

    /// E in units of 2^-64, for N < 32, with an error below 64.
    ///
    /// With c the middle of the table's interval and g = 1/c rounded down, (1 + F) g = 1 + z, |z| < 2^-9, and
    /// ln(1 + F) = -ln g + ln(1 + z). The errors:
    /// - (N + 1) ln 2 is up to 32 too small;
    /// - -ln g is up to 1 too small;
    /// - z is up to 1 too small by its rounding, and up to 1 by the bits of F that are not drawn yet;
    /// - ln(1 + z) without its terms from z^7 on is off by z^7/7 < 1;
    /// - the products of its polynomial are rounded by less than 2^-70, its sum by 1.
    #[inline]
    fn fast(self) -> u128 {
        let [reciprocal, logarithm] = LOGARITHMS[(self.fraction >> 56) as usize];
        let z = reciprocal.wrapping_add(high(self.fraction, reciprocal)) as i64; // 2^-64: one is 0
        // z^2 (1/2 - z/3 + z^2 (1/4 - z/5 + z^2/6)); units: z 2^-71, z^2 2^-78, the rest 2^-62
        let z1 = z << 7;
        let z2 = high_signed(z1, z1);
        let fourth = (1 << 60) - (high_signed(z1, FIFTH) >> 8) + (high_signed(z2, SIXTH) >> 15);
        let second = (1 << 61) - (high_signed(z1, THIRD) >> 8) + (high_signed(z2, fourth) >> 14);
        let rest = z - (high_signed(z2, second) >> 12);
        let doublings = u128::from(self.zeros + 1) * u128::from(LN_2);
        doublings.wrapping_sub(logarithm.into()).wrapping_sub(rest as u128)
    }

    /// The same with 192 more bits.
    #[cold]
    fn slow(self, random: &mut Random) -> Precise {
        let more: [u64; 3] = std::array::from_fn(|_| random.next_u64());
        Precise::new(self, more)
    }
}

const THIRD: i64 = i64::MAX / 3;
const FIFTH: i64 = i64::MAX / 5;
const SIXTH: i64 = i64::MAX / 6;

#[inline]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline]
fn high_signed(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}

/// The number of zeros before the first one.
#[cold]
fn zeros(mut word: impl FnMut() -> u32) -> u32 {
    let mut zeros = 0;
    loop {
        let bits = word();
        zeros += bits.leading_zeros();
        if bits > 0 {
            return zeros;
        }
    }
}

/// A fraction, in units of 2^-256, in words, least significant first.
type Fraction = [u64; 4];

/// An Exp(1) from 256 bits of F, with an error below 2^-240 for N below 2^7.
#[derive(Clone, Copy)]
struct Precise {
    whole: u64,
    fraction: Fraction,
}

impl Precise {
    pub fn new(coarse: Exponential, [a, b, c]: [u64; 3]) -> Precise {
        let (doubling, log) = (twice_atanh(&[u64::MAX / 3; 4]), log_of_one_and(&[a, b, c, coarse.fraction]));
        // (N + 1) ln 2 - ln(1 + F)
        let (mut fraction, mut carry, mut borrow) = ([0; 4], 0u128, false);
        for i in 0..4 {
            carry += u128::from(doubling[i]) * u128::from(coarse.zeros + 1);
            let (word, less) = (carry as u64).overflowing_sub(log[i]);
            let (word, less_still) = word.overflowing_sub(borrow.into());
            (fraction[i], borrow, carry) = (word, less || less_still, carry >> 64);
        }
        match (carry as u64).checked_sub(borrow.into()) {
            Some(whole) => Precise { whole, fraction },
            None => Precise { whole: 0, fraction: [0; 4] }, // E is 0 up to the error, which may be negative
        }
    }

    /// floor(scale * E), or the largest number if that does not fit.
    pub fn times(&self, scale: u128) -> u128 {
        let [a, b, c, d] = self.fraction;
        let mut words = [0; 7];
        multiply(&[a, b, c, d, self.whole], &[scale as u64, (scale >> 64) as u64], &mut words);
        if words[6] > 0 { u128::MAX } else { u128::from(words[5]) << 64 | u128::from(words[4]) }
    }
}

/// ln(1 + f) = 2 atanh(f/(2 + f)).
fn log_of_one_and(f: &Fraction) -> Fraction {
    // Long division, one bit at a time. The rest is below 2 + f, so five words hold its double.
    let divisor = [f[0], f[1], f[2], f[3], 2];
    let mut rest = [f[0], f[1], f[2], f[3], 0];
    let mut quotient = [0; 4];
    for bit in (0..256).rev() {
        for i in (0..5).rev() {
            rest[i] = rest[i] << 1 | if i > 0 { rest[i - 1] >> 63 } else { 0 };
        }
        if rest.iter().rev().ge(divisor.iter().rev()) {
            let mut borrow = false;
            for i in 0..5 {
                let (word, less) = rest[i].overflowing_sub(divisor[i]);
                let (word, less_still) = word.overflowing_sub(borrow.into());
                (rest[i], borrow) = (word, less || less_still);
            }
            quotient[bit / 64] |= 1 << (bit % 64);
        }
    }
    twice_atanh(&quotient)
}

/// 2 (s + s^3/3 + s^5/5 + ...) for s up to 1/3. Rounding down makes it less than 2^-247 too small.
fn twice_atanh(s: &Fraction) -> Fraction {
    let square = product(s, s);
    let (mut power, mut sum) = (*s, [0u64; 4]);
    for odd in (1..).step_by(2) {
        if power == [0; 4] {
            break;
        }
        let (mut rest, mut carry) = (0u128, [0u64; 4]);
        for i in (0..4).rev() {
            let part = rest << 64 | u128::from(power[i]);
            (carry[i], rest) = ((part / odd) as u64, part % odd);
        }
        let mut more = 0;
        for i in 0..4 {
            more += 2 * u128::from(carry[i]) + u128::from(sum[i]);
            (sum[i], more) = (more as u64, more >> 64);
        }
        power = product(&power, &square);
    }
    sum
}

/// a * b, rounded down.
fn product(a: &Fraction, b: &Fraction) -> Fraction {
    let mut words = [0; 8];
    multiply(a, b, &mut words);
    [words[4], words[5], words[6], words[7]]
}

/// a * b, into words that are 0.
fn multiply(a: &[u64], b: &[u64], words: &mut [u64]) {
    for (j, &factor) in b.iter().enumerate() {
        let mut carry = 0;
        for (i, &word) in a.iter().enumerate() {
            carry += u128::from(word) * u128::from(factor) + u128::from(words[i + j]);
            words[i + j] = carry as u64;
            carry >>= 64;
        }
        words[j + a.len()] = carry as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    impl Exponential {
        /// A fresh sample.
        pub fn draw(random: &mut Random) -> Exponential {
            Exponential::new(random.next_u32(), random.next_u64(), random)
        }
    }

    fn random(seed: u8) -> Random {
        Seed::new(Some([seed; 32])).unwrap().stream()
    }

    /// Compares with published digits of ln 2 and of ln(1 + 1/3), to within 2^-247.
    #[test]
    fn the_slow_logarithm_is_right() {
        let known: [(Fraction, Fraction); 2] = [
            ([u64::MAX; 4], [0x8a0d175b8baafa2b, 0x40f343267298b62d, 0xc9e3b39803f2f6af, 0xb17217f7d1cf79ab]),
            ([u64::MAX / 3; 4], [0xd6823fccc60cbeca, 0xc3d243732d50de6a, 0xefadd9db02aa70a8, 0x49a58844d36e49e0]),
        ];
        for (f, exact) in known {
            let log = log_of_one_and(&f);
            assert_eq!(log[1..], exact[1..]);
            assert!(exact[0] - log[0] < 1 << 9, "{:x} {:x}", log[0], exact[0]);
        }
        assert_eq!(twice_atanh(&[u64::MAX / 3; 4])[3], LN_2);
        // ln(1 + x) + ln(1 + y) = ln(1 + x + y + xy), with xy exact
        let mut random = random(1);
        for _ in 0..1000 {
            let (x, y) = (random.next_u64() >> 2, random.next_u64() >> 2);
            let xy = u128::from(x) * u128::from(y);
            let (sum, carry) = (x + y).overflowing_add((xy >> 64) as u64);
            assert!(!carry);
            let [a, b, both] = [[0, 0, 0, x], [0, 0, 0, y], [0, 0, xy as u64, sum]].map(|f| log_of_one_and(&f));
            let mut carry = 0u128;
            for i in 0..4 {
                carry = (carry >> 64) + u128::from(a[i]) + u128::from(b[i]);
                let word = carry as u64;
                assert!(if i == 0 { both[0].abs_diff(word) < 1 << 9 } else { both[i] == word });
            }
        }
    }

    /// Compares the table with reciprocals of the middles, and with the slow logarithm.
    #[test]
    fn the_table_is_right() {
        let doubling = twice_atanh(&[u64::MAX / 3; 4]);
        for (i, &[reciprocal, logarithm]) in LOGARITHMS.iter().enumerate() {
            assert_eq!(u128::from(reciprocal), (1 << 73) / (2 * i as u128 + 513));
            let log = log_of_one_and(&[0, 0, 0, reciprocal << 1]);
            let (low, less) = doubling[2].overflowing_sub(log[2]);
            assert!((1 << 40..u64::MAX - (1 << 40)).contains(&low)); // so lower words cannot change the result
            assert_eq!(doubling[3] - log[3] - u64::from(less), logarithm, "{i}");
        }
    }

    /// Both ends of every interval of the table, their neighbours, and `any` random fractions.
    fn fractions(any: usize) -> impl Iterator<Item = u64> {
        let mut random = random(2);
        let ends = (0..256u64).flat_map(|i| [i << 56, i << 56 | 1, (i << 56) + (1 << 55), (i << 56) + ((1 << 56) - 1)]);
        ends.chain((0..any).map(move |_| random.next_u64()))
    }

    /// The error of the fast logarithm is below 64 units of 2^-64, whatever the further bits are.
    #[test]
    fn the_fast_logarithm_keeps_its_bound() {
        let mut worst = 0;
        for fraction in fractions(5000) {
            for zeros in [0, 1, 7, 31] {
                let coarse = Exponential { zeros, fraction };
                for more in [[0; 3], [u64::MAX; 3]] {
                    let Precise { whole, fraction } = Precise::new(coarse, more);
                    let exact = u128::from(whole) << 64 | u128::from(fraction[3]);
                    let off = coarse.fast().wrapping_sub(exact) as i128;
                    worst = worst.max(off.unsigned_abs());
                    assert!(off.abs() < 63, "{zeros} {:x}: {off}", coarse.fraction); // 1 is for truncating `exact`
                }
            }
        }
        println!("at most {worst} units off");
        assert!(worst > 20); // the error of ln 2 alone exceeds that
    }

    /// If the fast path decides, the slow one agrees, whatever the further bits are. The fast path decides except for
    /// the share that [`WINDOW`] leaves undecided.
    fn paths_agree(inputs: usize) {
        let (mut bits, mut slow) = (random(4), [0u32; 8]);
        let scales = [1, 2, 3, 10, 1000, 4_194_305, 1 << 35, 1 << 50];
        for (i, fraction) in fractions(inputs).enumerate() {
            let coarse = Exponential::new(bits.next_u32() | 1, fraction, &mut bits);
            let scale = scales[i % 8];
            let [low, high] = [[0; 3], [u64::MAX; 3]].map(|more| Precise::new(coarse, more));
            match coarse.fast_times(scale) {
                Some(floor) => assert_eq!([low, high].map(|e| e.times(scale.into())), [floor.into(); 2]),
                None => slow[i % 8] += 1,
            }
        }
        // at 2^50 the share is 2^-7
        let most = inputs as u32 / 8 / 64 + 1100;
        assert!(slow[7] < most && slow[..6].iter().sum::<u32>() < 1100, "{slow:?}");
        println!("undecided: {slow:?} of {} each", inputs / 8 + 128);
    }

    /// If 31 bits of U decide a comparison, the slow path agrees, whatever the further bits are. They decide except for
    /// the share that is stated.
    #[test]
    fn few_bits_decide_as_all_do() {
        let (mut words, mut undecided) = (random(7), 0);
        for i in 0..30_000 {
            let bits = words.next_u32() >> 1 >> if i % 4 > 0 { 0 } else { i / 4 % 30 };
            let zeros = (bits << 1).leading_zeros();
            if zeros >= COARSE_ZEROS {
                continue;
            }
            let (coarse, unknown) = Exponential::coarse(bits, zeros);
            let full = Exponential { fraction: coarse.fraction + (unknown - 1), ..coarse };
            let [high, low] = [(coarse, [0; 3]), (full, [u64::MAX; 3])].map(|(e, more)| Precise::new(e, more));
            // A fraction in units of 2^-64, or with one more bit, which is in neither bound.
            let (first, last) = (low.times(1 << 64), high.times(1 << 64));
            for fraction in [first, first + 1, (first + last) / 2, last, last + 1, 2 * last, first / 2, 1 << 62] {
                match coarse.fast_is_at_least([fraction, fraction + 1], unknown) {
                    Some(answer) => {
                        let answers = [2 * fraction, 2 * fraction + 1, 2 * fraction + 2]
                            .map(|numerator| [low, high].map(|e| e.times(1 << 65) >= numerator));
                        assert_eq!(answers, [[answer; 2]; 3], "{fraction}");
                    }
                    None => undecided += u32::from(fraction == 1 << 62),
                }
            }
        }
        assert!(undecided < 10, "{undecided}");
    }

    #[test]
    fn what_few_bits_leave_open_is_drawn() {
        let mut words = random(8);
        for bits in [1u32 << 30, (1 << 31) - 1, 12_345, 127, 3, 2, 1] {
            let zeros = (bits << 1).leading_zeros();
            let [a, b] = [(); 2].map(|()| Exponential::completed(bits, &mut words));
            assert_eq!([a.zeros, b.zeros], [zeros; 2]);
            // The bits after the first one are those of F; 30 - zeros of them are known.
            let known = |e: Exponential| if zeros < 30 { e.fraction >> (34 + zeros) } else { 0 };
            assert_eq!([known(a), known(b)], [u64::from(bits) & ((1 << (30 - zeros)) - 1); 2], "{bits}");
            assert_ne!(a.fraction as u32, b.fraction as u32);
        }
        let all = [(); 100].map(|()| Exponential::completed(0, &mut words).zeros);
        assert!(all.iter().all(|&zeros| zeros >= 31) && all.iter().filter(|&&zeros| zeros == 31).count() < 83);
    }

    #[test]
    fn both_paths_agree() {
        paths_agree(30_000);
    }

    #[test]
    #[ignore = "twenty seconds"]
    fn both_paths_agree_at_length() {
        paths_agree(2_000_000);
    }

    /// The slow path alone: chi-square over the integers at scale 4, within its 1 - 1e-9 quantile, and the frequency
    /// of the comparison with 1/3.
    #[test]
    fn the_slow_path_has_the_same_distribution() {
        const DRAWS: u32 = 60_000;
        let mut random = random(5);
        let (mut cells, mut least) = ([0f64; 24], 0);
        for _ in 0..DRAWS {
            let precise = Exponential::draw(&mut random).slow(&mut random);
            cells[precise.times(4).min(23) as usize] += 1.0;
            least += u32::from(precise.times(3 << 90) >= 1 << 90);
        }
        let p = |x: u32| (-f64::from(x) / 4.0).exp();
        let expected = |i: u32| f64::from(DRAWS) * if i < 23 { p(i) - p(i + 1) } else { p(23) };
        let chi2: f64 = (0..24).map(|i| (cells[i as usize] - expected(i)).powi(2) / expected(i)).sum();
        let x = 1e9f64.ln();
        assert!(chi2 < 23.0 + 2.0 * (23.0 * x).sqrt() + 2.0 * x, "{chi2}");
        let width = crate::noise::tests::width::binomial_width(DRAWS.into(), (-1.0f64 / 3.0).exp(), 1, 1e-9);
        assert!((f64::from(least) - f64::from(DRAWS) * (-1.0f64 / 3.0).exp()).abs() < width, "{least}");
    }

    /// A word of zeros is too rare for a random test. Then more words are drawn, and N counts on.
    #[test]
    fn zeros_beyond_a_word_are_counted_on() {
        let mut words = [0, 0, 1 << 26, 0].into_iter();
        assert_eq!((zeros(|| words.next().unwrap()), words.len()), (69, 1));
        assert_eq!(Exponential { zeros: 31, fraction: 1 << 63 }.fast_times(1000).map(|x| x / 1000), Some(21));
        assert_eq!(Exponential { zeros: 32, fraction: 1 << 63 }.fast_times(1000), None);
        let large = Precise { whole: 1 << 12, fraction: [0; 4] };
        assert_eq!((large.times(1 << 115), large.times(1 << 116)), (1 << 127, u128::MAX));
        let mut counts = [0u32; 4];
        let mut random = random(6);
        for _ in 0..1000 {
            let zeros = Exponential::new(0, 1 << 63, &mut random).zeros;
            assert!(zeros >= 32);
            counts[(zeros as usize - 32).min(3)] += 1;
            let at_least = f64::from(zeros + 1) * std::f64::consts::LN_2 - 0.41;
            let times = Exponential { zeros, fraction: 1 << 63 }.times(1000, &mut random);
            assert!((times as f64 - 1000.0 * at_least).abs() < 10.0, "{zeros} {times}");
        }
        // 500, 250, 125, 125, each within 6.6 deviations
        assert!(std::iter::zip(counts, [500u32, 250, 125, 125]).all(|(n, e)| n.abs_diff(e) < 105), "{counts:?}");
    }
}
