//! What exact noise costs, beside the 16 random bytes that no sampler can do without.

use criterion::{Criterion, criterion_group, criterion_main};
use dpb::noise::{Gaussian, Laplace, SumWidth};
use dpb::{Random, Seed};
use std::hint::black_box;

fn stream() -> Random {
    Seed::new(Some([1; 32])).expect("a test seed needs no entropy").stream()
}

fn noise(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("noise");
    let mut random = stream();
    group.bench_function("16 random bytes", |b| b.iter(|| (random.next_u64(), random.next_u64())));
    for bits in [10, 22, 34] {
        let (law, mut random) = (Laplace::with_scale(1 << bits), stream());
        group.bench_function(format!("Laplace, scale 2^{bits}"), |b| b.iter(|| black_box(law).sample(&mut random)));
    }
    let (law, mut random) = (Gaussian::with_sigma(1 << 24), stream());
    group.bench_function("Gaussian, sigma 2^24", |b| b.iter(|| black_box(law).sample(&mut random)));
    let noises = [(13.3, 20), (2.35, 19)];
    group.bench_function("width of a sum, two scales", |b| b.iter(|| SumWidth::new(black_box(&noises), 1e-24)));
    let width = SumWidth::new(&noises, 1e-24);
    group.bench_function("the same, asked again", |b| b.iter(|| width.at(black_box(1e-25))));
}

criterion_group!(benches, noise);
criterion_main!(benches);
