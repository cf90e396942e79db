//! The noise, compared with its exact distributions.
//!
//! A chi-square statistic of k degrees of freedom exceeds k + 2 sqrt(k x) + 2x with probability at most e^-x (Laurent
//! and Massart 2000). Every cell has at least 1000 expected samples, so the limit distribution is a good approximation.
//! Each test below therefore fails with probability at most 1e-9 for a new seed, and the seeds are fixed. Other tests
//! check that these tests detect wrong noise.

use dpb::noise::{Gaussian, Laplace, Noise, NoiseSource};
use dpb::{Random, Seed};

fn stream(seed: u8) -> Random {
    Seed::new(Some([seed; 32])).unwrap().stream()
}

/// The words of ChaCha20 with this key and nonce 0, written once more from RFC 8439.
fn chacha20(key: &[u8; 32]) -> impl Iterator<Item = u32> + use<> {
    const QUARTERS: [[usize; 4]; 8] = [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ];
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut input = [0; 16];
    input.iter_mut().zip(b"expand 32-byte k".chunks_exact(4).chain(key.chunks_exact(4))).for_each(|(to, bytes)| {
        *to = word(bytes);
    });
    (0..).flat_map(move |block| {
        input[12] = block;
        let mut state = input;
        for [a, b, c, d] in [QUARTERS; 10].concat() {
            for (sum, added, mixed, by) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                state[sum] = state[sum].wrapping_add(state[added]);
                state[mixed] = (state[mixed] ^ state[sum]).rotate_left(by);
            }
        }
        std::array::from_fn::<u32, 16, _>(|i| state[i].wrapping_add(input[i]))
    })
}

/// The same key gives the same words as another implementation of ChaCha20, with fast key erasure written once more:
/// of each 64 words the first eight are the next key.
#[test]
fn the_bits_are_chacha20s() {
    let mut keys = ([7; 32], [0u8; 32]);
    let words = |key: &mut [u8; 32]| {
        let mut stream = chacha20(key);
        let mut bytes = || stream.next().unwrap().to_le_bytes();
        key.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&bytes()));
        std::array::from_fn::<_, 56, _>(|_| u32::from_le_bytes(bytes()))
    };
    let mut seed = Seed::new(Some(keys.0)).unwrap();
    // One block of the root has the keys of seven streams.
    for _ in 0..3 {
        for key in words(&mut keys.0).chunks_exact(8) {
            keys.1.chunks_exact_mut(4).zip(key).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
            let mut stream = seed.stream();
            for _ in 0..100 {
                assert_eq!(words(&mut keys.1), std::array::from_fn(|_| stream.next_u32()));
            }
        }
    }
}

/// Counts against probabilities: the chi-square statistic over its 1 - 1e-9 quantile.
fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    assert_eq!(counts.len(), probabilities.len());
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let total = counts.iter().sum::<u64>() as f64;
    let cell = |(&count, &probability): (&u64, &f64)| {
        let expected = total * probability;
        assert!(expected >= 1000.0, "{expected}");
        (count as f64 - expected).powi(2) / expected
    };
    let statistic: f64 = std::iter::zip(counts, probabilities).map(cell).sum();
    let (freedom, x) = ((counts.len() - 1) as f64, 1e9f64.ln());
    statistic / (freedom + 2.0 * (freedom * x).sqrt() + 2.0 * x)
}

/// A symmetric distribution on the integers, divided into intervals.
struct Cells {
    /// The start of each cell except the first.
    starts: Vec<i64>,
    probabilities: Vec<f64>,
}

impl Cells {
    /// One cell around zero, and cells on each side, as far out as 1000 samples are expected in each. A cell is an
    /// eighth of the scale wide, or one integer for small scales. `tail(m)` is P(X >= m), m > 0.
    fn new(scale: u64, samples: u64, tail: impl Fn(i64) -> f64) -> Cells {
        let width = if scale < 64 { 1 } else { scale as i64 / 8 };
        let least = 1000.0 / samples as f64;
        let mut ends = vec![width];
        loop {
            let next = ends[ends.len() - 1] + width;
            if tail(next - width) - tail(next) < least || tail(next) < least {
                break;
            }
            ends.push(next);
        }
        let mut side: Vec<f64> = ends.windows(2).map(|pair| tail(pair[0]) - tail(pair[1])).collect();
        side.push(tail(ends[ends.len() - 1]));
        let (left, right) = (side.iter().rev(), side.iter());
        Cells {
            starts: ends.iter().rev().map(|end| 1 - end).chain(ends.iter().copied()).collect(),
            probabilities: left.chain(&[1.0 - 2.0 * tail(width)]).chain(right).copied().collect(),
        }
    }

    fn laplace(scale: u64, samples: u64) -> Cells {
        let power = |m: i64| (-m as f64 / scale as f64).exp();
        Cells::new(scale, samples, |m| power(m) / (1.0 + power(1)))
    }

    fn gaussian(sigma: u64, samples: u64) -> Cells {
        let density = |x: f64| (-0.5 * (x / sigma as f64).powi(2)).exp();
        Cells::new(sigma, samples, |m| {
            if sigma < 64 {
                let upper: f64 = (1..=12 * sigma as i64).map(|x| density(x as f64)).sum();
                return (m..=12 * sigma as i64).map(|x| density(x as f64)).sum::<f64>() / (1.0 + 2.0 * upper);
            }
            // The integers' cells [x - 1/2, x + 1/2) as one integral, by Simpson's rule: the error
            // is of the order of 1/sigma^2.
            let (from, steps) = (m as f64 - 0.5, 2000);
            let step = (9.0 * sigma as f64 - from) / f64::from(steps);
            let term = |i: i32| match i {
                0 => density(from),
                i if i % 2 == 1 => 4.0 * density(from + f64::from(i) * step),
                i => 2.0 * density(from + f64::from(i) * step),
            };
            (0..steps).map(term).sum::<f64>() * step / 3.0 / (sigma as f64 * std::f64::consts::TAU.sqrt())
        })
    }

    fn test(&self, samples: u64, mut draw: impl FnMut() -> i64) -> f64 {
        let mut counts = vec![0; self.probabilities.len()];
        for _ in 0..samples {
            let x = draw();
            counts[self.starts.partition_point(|&start| start <= x)] += 1;
        }
        chi_square(&counts, &self.probabilities)
    }
}

/// |X| mod 1024 of Laplace noise. It shows whether a sampler's low bits are stale or missing.
fn low_bits(scale: u64, samples: u64, mut draw: impl FnMut() -> i64) -> f64 {
    let mut counts = vec![0; 1024];
    for _ in 0..samples {
        counts[(draw().unsigned_abs() % 1024) as usize] += 1;
    }
    // P(|X| = m) is 2 zero p^m, except zero at m = 0.
    let power = |m: u32| (-f64::from(m) / scale as f64).exp();
    let minus = |m: u32| -(-f64::from(m) / scale as f64).exp_m1();
    let zero = minus(1) / (1.0 + power(1));
    let mass = |r: u32| 2.0 * zero * power(r) / minus(1024) - if r == 0 { zero } else { 0.0 };
    chi_square(&counts, &(0..1024).map(mass).collect::<Vec<f64>>())
}

/// The scales: 1, 10, the 2^-20 grid at epsilon 0.25 and 0.001, and 2^35.
fn distributions() -> [Laplace; 5] {
    let on_grid = |epsilon| Laplace::new(epsilon, 1 << 20).unwrap();
    [Laplace::with_scale(1), Laplace::with_scale(10), on_grid(0.25), on_grid(0.001), Laplace::with_scale(1 << 35)]
}

const SAMPLES: u64 = 2_000_000;

#[test]
fn laplace_has_its_distribution() {
    for (seed, distribution) in (20..).zip(distributions()) {
        let mut source = NoiseSource::new(Noise::Laplace(distribution), stream(seed));
        let ratio = Cells::laplace(distribution.scale(), SAMPLES).test(SAMPLES, || source.draw());
        println!("scale {}: {ratio:.3} of the threshold", distribution.scale());
        assert!(ratio < 1.0, "scale {}: {ratio}", distribution.scale());
    }
}

#[test]
fn laplace_has_its_low_bits() {
    for (seed, distribution) in (30..).zip(&distributions()[2..]) {
        let mut random = stream(seed);
        let ratio = low_bits(distribution.scale(), SAMPLES, || distribution.sample(&mut random));
        println!("scale {}: {ratio:.3} of the threshold", distribution.scale());
        assert!(ratio < 1.0, "scale {}: {ratio}", distribution.scale());
    }
}

#[test]
fn gaussian_has_its_distribution() {
    let zcdp = Gaussian::new(0.1, 1 << 24).unwrap();
    let distributions = [Gaussian::with_sigma(1), Gaussian::with_sigma(10), Gaussian::with_sigma(1 << 10), zcdp];
    for (seed, distribution) in (40..).zip(distributions) {
        let mut source = NoiseSource::new(Noise::Gaussian(distribution), stream(seed));
        let ratio = Cells::gaussian(distribution.sigma(), SAMPLES / 2).test(SAMPLES / 2, || source.draw());
        println!("sigma {}: {ratio:.3} of the threshold", distribution.sigma());
        assert!(ratio < 1.0, "sigma {}: {ratio}", distribution.sigma());
    }
}

#[test]
fn the_tests_have_teeth() {
    let mut random = stream(50);
    // A scale that is off by 2%, either way, and Gaussian noise.
    for scale in [(1 << 22) / 100 * 98, (1 << 22) / 100 * 102] {
        let distribution = Laplace::with_scale(scale);
        let ratio = Cells::laplace(1 << 22, SAMPLES).test(SAMPLES, || distribution.sample(&mut random));
        println!("scale 2% off: {ratio:.3} of the threshold");
        assert!(ratio > 1.2, "{ratio}");
    }
    let distribution = Gaussian::with_sigma(1004);
    assert!(Cells::gaussian(1024, SAMPLES / 2).test(SAMPLES / 2, || distribution.sample(&mut random)) > 1.2);
    // Zero twice as often as it should be: a sampler that does not reject minus zero.
    let doubled = |random: &mut Random| loop {
        let x = Laplace::with_scale(10).sample(random);
        if x == 0 || random.bit() {
            return x;
        }
    };
    assert!(Cells::laplace(10, SAMPLES).test(SAMPLES, || doubled(&mut random)) > 1.2);
    // A grid twice too coarse: the distribution is right on the whole, but the low bits are not.
    let half = Laplace::with_scale(1 << 21);
    assert!(Cells::laplace(1 << 22, SAMPLES).test(SAMPLES, || 2 * half.sample(&mut random)) < 1.0);
    assert!(low_bits(1 << 22, SAMPLES, || 2 * half.sample(&mut random)) > 1.2);
}

/// Golden values from another program, tests/data/noise.py.
#[test]
fn known_answers() {
    let mut seed = Seed::new(Some(std::array::from_fn(|i| i as u8))).unwrap();
    let (mut bits, mut laplace, mut gaussian) = (seed.stream(), seed.stream(), seed.stream());
    let words: [u64; 4] = std::array::from_fn(|_| bits.next_u64());
    assert_eq!(words, [0xd78b_60a6_597e_74d9, 0xeca9_996d_91c0_5893, 0x403d_861c_7f03_0316, 0x6bd8_8795_f7b1_84ab]);
    assert_eq!((0..96).map(|_| bits.next_u64()).last(), Some(0x1604_b6f4_af49_2b0e));
    let mut draw = |scale| std::array::from_fn(|_| Laplace::with_scale(scale).sample(&mut laplace));
    assert_eq!(draw(1 << 22), [-177594, -644741, 3441725, 5131004, -1878458, -1716935, -8438372, 313858]);
    assert_eq!(draw(1), [0, -2, 1, -1, -3, 0, 1, 2]);
    let mut draw = |sigma| std::array::from_fn(|_| Gaussian::with_sigma(sigma).sample(&mut gaussian));
    assert_eq!(draw(1 << 24), [-14700082, -13153641, -444226, 36162361, 14676050, 35831275, 11503744, 13515753]);
    assert_eq!(draw(2), [0, -1, -3, -4, 2, -3, -2, -4]);
    assert_eq!(draw(1 << 50)[..3], [1057901503026000, 1522517798941209, 223565512847497]);
}

/// The same with enough samples to detect a change of the scale by 1/5,000.
#[test]
#[ignore = "minutes"]
fn laplace_has_its_distribution_in_large_samples() {
    const MANY: u64 = 250_000_000;
    for (seed, scale) in (60..).zip([1, 10, (1 << 22) + 1, 1 << 35]) {
        let (distribution, mut random) = (Laplace::with_scale(scale), stream(seed));
        let ratio = Cells::laplace(scale, MANY).test(MANY, || distribution.sample(&mut random));
        println!("scale {scale}: {ratio:.3} of the threshold");
        assert!(ratio < 1.0, "scale {scale}: {ratio}");
    }
}

/// The time of a draw does not depend on its size. Welch's statistic between small and large noise is below 5 scales,
/// and so is that between signs, for the draws that are not interrupted (the fastest 90%).
#[test]
#[ignore = "a measurement of time"]
#[cfg(target_arch = "x86_64")]
fn time_tells_no_noise() {
    // SAFETY: reads a counter.
    let now = || unsafe { std::arch::x86_64::_rdtsc() };
    let (distribution, mut random) = (Laplace::with_scale(1 << 22), stream(70));
    let mut draws: Vec<(u64, i64)> = (0..4_000_000)
        .map(|_| {
            let before = now();
            let noise = std::hint::black_box(distribution.sample(&mut random));
            (now() - before, noise)
        })
        .collect();
    draws.sort_unstable_by_key(|draw| draw.0);
    draws.truncate(draws.len() / 10 * 9);
    draws.retain(|draw| draw.1.abs() < 5 << 22);
    let welch = |is_first: &dyn Fn(i64) -> bool| {
        let moments = |first| {
            let times = draws.iter().filter(|draw| is_first(draw.1) == first).map(|draw| draw.0 as f64);
            let (n, sum, squares) = times.fold((0.0, 0.0, 0.0), |(n, s, q), t| (n + 1.0, s + t, q + t * t));
            (sum / n, (squares / n - (sum / n) * (sum / n)) / n)
        };
        let ((a, va), (b, vb)) = (moments(true), moments(false));
        println!("{a:.3} and {b:.3} cycles");
        (a - b) / f64::sqrt(va + vb)
    };
    let statistics = [welch(&|noise| noise.abs() < 2_907_270), welch(&|noise| noise > 0)];
    println!("{statistics:?}");
    assert!(statistics.iter().all(|statistic| statistic.abs() < 6.0), "{statistics:?}");
}
