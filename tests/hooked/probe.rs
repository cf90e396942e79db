//! Observes and changes the noise of the current thread, and inserts faults (tests only).
//!
//! Proofs of privacy move noise: if a reward changes a sum by d, noise moved by -d hides the change, at a cost of
//! |d|/scale. A test with a [`NoiseProbe`] executes such a proof: it sees every draw, and moves some. A test can also
//! weaken the noise, or insert a [`Fault`] into every handle, restored ones too, to check that an auditor detects it.

use crate::privacy::calibration::ShuffleNoise;
use crate::random::{Random, Seed};
use crate::shuffle::Params;
use std::cell::{Cell, RefCell};

thread_local! {
    static PROBE: RefCell<Option<ProbeState>> = const { RefCell::new(None) };
    static SABOTAGE_APPLIED: Cell<bool> = const { Cell::new(false) };
    /// The entropy of tests without a probe.
    static ENTROPY: RefCell<Option<Random>> = const { RefCell::new(None) };
}

macro_rules! faults {
    ($($(#[doc = $text:literal])* $name:ident,)*) => {
        /// A fault that an auditor must detect, apart from noise that is too weak.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[doc = $text])* $name,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    // The faults of faults.txt.
}

impl Fault {
    /// Whether this fault is inserted in the current thread.
    pub(crate) fn is_built_in(self) -> bool {
        let built = with(|state| state.fault == Some(self)) == Some(true);
        if built {
            SABOTAGE_APPLIED.set(true);
        }
        built
    }

    /// Whether any sabotage took effect in this thread since the last call. A fault that a policy's code never checks
    /// has no effect on it.
    pub fn was_done() -> bool {
        SABOTAGE_APPLIED.take()
    }
}

/// A draw of noise that a privacy claim depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// Laplace noise of this scale, in grid units.
    Laplace(u64),
    /// Gaussian noise of this sigma, in grid units.
    Gaussian(u64),
    /// The coins of one message of a batch with these parameters, in the shuffle model.
    Coins(Params),
}

#[derive(Default)]
struct ProbeState {
    moves: Vec<(usize, i64)>,
    weakening: Option<Box<Weakening>>,
    twice: bool,
    draws: Vec<Draw>,
    /// Number of releases that the draws so far cover.
    covered: f64,
    released: Vec<(usize, i64)>,
    fault: Option<Fault>,
    entropy: Option<Random>,
    open: Vec<f64>,
    /// The numbers that were drawn, before they are moved.
    drawn: Vec<i64>,
    time: Option<u64>,
}

/// The share of its scale that a draw keeps, given the number of releases covered before it.
type Weakening = dyn Fn(usize, Draw) -> f64;

/// Observes the noise of its thread until it is dropped. Draws are numbered from its creation.
pub struct NoiseProbe(());

impl NoiseProbe {
    /// A probe that changes nothing.
    #[allow(clippy::new_without_default, reason = "a thread has one probe")]
    pub fn new() -> NoiseProbe {
        PROBE.set(Some(ProbeState::default()));
        NoiseProbe(())
    }

    /// Moves the noise of each of these draws (number of the draw, distance).
    pub fn moving(self, draws: &[(usize, i64)]) -> NoiseProbe {
        with(|state| state.moves = draws.to_vec());
        self
    }

    /// Inserts this fault into every handle.
    pub fn breaking(self, fault: Fault) -> NoiseProbe {
        with(|state| state.fault = Some(fault));
        self
    }

    /// Replaces the operating system's entropy by this seed.
    pub fn seeding(self, seed: [u8; 32]) -> NoiseProbe {
        let entropy = Seed::new(Some(seed)).ok().map(|mut seed| seed.stream());
        with(|state| state.entropy = entropy);
        self
    }

    /// Reduces the scale of draws by this rule.
    pub fn weakening(self, rule: impl Fn(usize, Draw) -> f64 + 'static) -> NoiseProbe {
        with(|state| state.weakening = Some(Box::new(rule)));
        self
    }

    /// Releases every batch twice, and publishes the mean of both.
    pub fn releasing_twice(self) -> NoiseProbe {
        with(|state| state.twice = true);
        self
    }

    /// Sets the system's clock, in seconds of Unix time.
    pub fn set_time(&self, time: u64) {
        with(|state| state.time = Some(time));
    }

    /// Whether two consecutive draws are equal to two others: their random words were used again. (Of two pairs of
    /// independent draws at a scale of 2^16 this is true with a probability below 2^-33. Smaller scales are left out.)
    pub fn repeats(&self) -> bool {
        let wide = |draw: &Draw| matches!(draw, Draw::Laplace(scale) | Draw::Gaussian(scale) if *scale >= 1 << 16);
        with(|state| {
            let wide = state.draws.iter().zip(&state.drawn).filter(|(draw, _)| wide(draw));
            let drawn: Vec<i64> = wide.map(|(_, drawn)| *drawn).collect();
            let mut pairs = std::collections::HashSet::new();
            !drawn.windows(2).all(|pair| pairs.insert((pair[0], pair[1])))
        })
        .unwrap_or_default()
    }

    /// The number of draws so far.
    pub fn draws(&self) -> usize {
        with(|state| state.draws.len()).unwrap_or_default()
    }

    /// The sums released since the last call, each with the number of the draw that covers it. For mechanisms whose
    /// releases cannot all be read.
    pub fn released(&self) -> Vec<(usize, i64)> {
        with(|state| std::mem::take(&mut state.released)).unwrap_or_default()
    }

    /// Ends the probe, and returns all draws.
    pub fn lift(self) -> Vec<Draw> {
        with(|state| std::mem::take(&mut state.draws)).unwrap_or_default()
    }
}

impl Drop for NoiseProbe {
    fn drop(&mut self) {
        PROBE.set(None);
    }
}

fn with<T>(f: impl FnOnce(&mut ProbeState) -> T) -> Option<T> {
    PROBE.with_borrow_mut(|probe| probe.as_mut().map(f))
}

/// Fills a key with what takes the place of the operating system's entropy: from the probe's seed, or else from a seed
/// that is the same in every test. So a test whose handles have no seed makes the same decisions in every run. Returns
/// false in threads that a test starts, which have no names: the system is asked there.
pub(crate) fn fill(key: &mut [u8]) -> bool {
    let mut fill = |entropy: &mut Random| key.fill_with(|| entropy.next_u32() as u8);
    if with(|state| state.entropy.as_mut().map(&mut fill)).flatten().is_some() {
        return true;
    }
    let is_test = std::thread::current().name().is_some();
    if is_test {
        ENTROPY.with_borrow_mut(|entropy| {
            let random = entropy.take().or_else(|| Seed::new(Some([41; 32])).ok().map(|mut seed| seed.stream()));
            *entropy = random.map(|mut random| {
                fill(&mut random);
                random
            });
        });
    }
    is_test
}

/// The time that a test has set, in seconds of Unix time.
pub(crate) fn unix_time() -> Option<u64> {
    with(|state| state.time).flatten()
}

/// Stores the open sums that a restored handle will keep.
pub(crate) fn keep_open(sums: impl Iterator<Item = f64>) {
    with(|state| state.open = sums.collect());
}

/// One of the stored open sums.
pub(crate) fn kept_open(place: usize) -> f64 {
    with(|state| state.open.get(place).copied()).flatten().unwrap_or_default()
}

impl ProbeState {
    /// The share of its scale that the next draw keeps.
    fn share(&mut self, draw: Draw) -> f64 {
        let share = self.weakening.as_ref().map_or(1.0, |rule| rule(self.covered as usize, draw));
        if share != 1.0 {
            SABOTAGE_APPLIED.set(true);
        }
        share
    }

    /// Records a draw, and returns the distance that it is moved.
    fn enter(&mut self, draw: Draw, drawn: i64) -> i64 {
        let number = self.draws.len();
        self.draws.push(draw);
        self.drawn.push(drawn);
        self.covered += if let Draw::Coins(plan) = draw { 1.0 / f64::from(plan.users()) } else { 1.0 };
        self.moves.iter().filter(|moved| moved.0 == number).map(|moved| moved.1).sum()
    }

    fn note(&mut self, released: i64) {
        self.released.push((self.draws.len() - 1, released));
    }
}

/// A sample of Laplace noise.
pub(crate) fn laplace(scale: u64, draw: impl FnOnce(u64) -> i64) -> i64 {
    sample(scale, Draw::Laplace, draw)
}

/// A sample of Gaussian noise.
pub(crate) fn gaussian(sigma: u64, draw: impl FnOnce(u64) -> i64) -> i64 {
    sample(sigma, Draw::Gaussian, draw)
}

/// A sample by `draw` at this scale, or at the weakened scale.
fn sample(scale: u64, kind: fn(u64) -> Draw, draw: impl FnOnce(u64) -> i64) -> i64 {
    let left = with(|state| ((state.share(kind(scale)) * scale as f64) as u64).max(1)).unwrap_or(scale);
    let drawn = draw(left);
    drawn + with(|state| state.enter(kind(left), drawn)).unwrap_or_default()
}

/// The ones of a message, counted by `count` with these parameters, or with weakened coins.
pub(crate) fn ones(plan: &Params, count: impl FnOnce(&Params) -> u64) -> u64 {
    let share = with(|state| state.share(Draw::Coins(*plan))).unwrap_or(1.0);
    let left = if share < 1.0 { weakened(plan, share) } else { *plan };
    let moved = with(|state| state.enter(Draw::Coins(left), 0)).unwrap_or_default();
    let ones = count(&left) as i64 + moved;
    with(|state| state.note(ones));
    ones.max(0) as u64
}

/// The same claim with coins whose deviation is reduced to this share.
fn weakened(params: &Params, share: f64) -> Params {
    let noise = params.noise();
    let variance = share * share * noise.coin() * (1.0 - noise.coin());
    let coin = 0.5 - (0.25 - variance).sqrt();
    let noise = ShuffleNoise { coin_numerator: (coin * 2f64.powi(32)) as u64, ..noise };
    Params::unchecked(params.epsilon(), params.delta(), params.users(), noise)
}

/// Records a sum that is released and covered by the last draw. `again` draws the second release of the same batch.
pub(crate) fn release(sum: i64, again: impl FnOnce() -> i64) -> i64 {
    let mut sum = sum;
    if with(|state| state.twice) == Some(true) {
        SABOTAGE_APPLIED.set(true);
        sum = (sum + again()) / 2;
    }
    with(|state| state.note(sum));
    sum
}
