//! Faults for the tests that must detect them. A probe changes the noise; the library builds in the other faults.
#![allow(dead_code, reason = "the tests and the tool use a part each")]

use dpb::Fault;
use dpb::noise::probe::{Draw, NoiseProbe};

/// What a test finds with this fault, which must change something.
pub fn with_fault<T>(fault: Fault, body: impl FnOnce() -> T) -> T {
    let _probe = NoiseProbe::new().breaking(fault);
    Fault::was_done();
    let found = body();
    assert!(Fault::was_done(), "{fault:?} changes nothing");
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    Nothing,
    /// Halves the scale of all noise.
    HalfNoise,
    /// Scales all noise by nine tenths.
    TenPercentLess,
    /// Removes almost all noise.
    NoNoise,
    /// Scales noise by a quarter, except for one release of each arm.
    QuarterLater,
    /// Releases every batch twice and publishes the mean.
    ReleasedTwice,
    /// A fault that the library builds in.
    Built(Fault),
}

impl Sabotage {
    /// All kinds of sabotage.
    pub fn all() -> Vec<Sabotage> {
        use Sabotage::*;
        let of_noise = [HalfNoise, TenPercentLess, NoNoise, QuarterLater, ReleasedTwice];
        of_noise.into_iter().chain(Fault::ALL.iter().map(|&fault| Built(fault))).collect()
    }

    /// The name on the command line: half-noise for HalfNoise.
    pub fn name(self) -> String {
        let name = if let Sabotage::Built(fault) = self { format!("{fault:?}") } else { format!("{self:?}") };
        let dashed =
            name.chars().flat_map(|letter| [letter.is_uppercase().then_some('-'), Some(letter.to_ascii_lowercase())]);
        dashed.flatten().skip(1).collect()
    }

    /// The noise probe that applies the fault while it lives, to handles with this many arms.
    pub fn hand(self, arms: u32) -> NoiseProbe {
        let all = |share: f64| NoiseProbe::new().weakening(move |_, _| share);
        match self {
            Sabotage::HalfNoise => all(0.5),
            Sabotage::TenPercentLess => all(0.9),
            Sabotage::NoNoise => all(0.0),
            Sabotage::QuarterLater => {
                let later = move |releases: usize, _: Draw| if releases < arms as usize { 1.0 } else { 0.25 };
                NoiseProbe::new().weakening(later)
            }
            Sabotage::ReleasedTwice => NoiseProbe::new().releasing_twice(),
            Sabotage::Built(fault) => NoiseProbe::new().breaking(fault),
            Sabotage::Nothing => NoiseProbe::new(),
        }
    }
}
