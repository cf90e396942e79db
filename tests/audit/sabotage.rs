//! Faults for the tests that must detect them. A probe changes the noise; the library builds in the other faults.
#![allow(dead_code, reason = "the tests and the tool use a part each")]

use dpb::Fault;
use dpb::noise::probe::{Draw, NoiseProbe};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    Nothing,
    /// All noise at half its scale.
    HalfNoise,
    /// All noise at nine tenths of its scale.
    TenPercentLess,
    /// Almost no noise.
    NoNoise,
    /// Noise at a quarter of its scale, except for one release of each arm.
    QuarterLater,
    /// Every batch is released twice, and the mean is published.
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

    /// HalfNoise is half-noise.
    pub fn name(self) -> String {
        let name = if let Sabotage::Built(fault) = self { format!("{fault:?}") } else { format!("{self:?}") };
        let dashed =
            name.chars().flat_map(|letter| [letter.is_uppercase().then_some('-'), Some(letter.to_ascii_lowercase())]);
        dashed.flatten().skip(1).collect()
    }

    /// The hand that does it while it lives, to handles of so many arms.
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
