//! The pilot of a learned clip: the state machine that finds a typical amount, from pooled releases. All that it has is
//! public.

use crate::config::Config;
use crate::error::Result;
use crate::ledger::open::{Batch, Release};
use crate::moving::{Archive, Persist};
use crate::noise::Noise;
use crate::policy::cumulant::Cumulant;
use crate::reward::Reward;
use crate::snapshot::is_plausible;

/// A pilot.
pub struct Pilot {
    pub found: Found,
    /// Standard deviation of the noise of a release, in rewards.
    deviation: f64,
    /// The pilot ends with this number of decisions, whatever it has found.
    end: u64,
}

/// What the pilot has found by its releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    stage: Stage,
    /// Number of rewards in a batch of this stage.
    pub size: u64,
    /// The number of octaves that the median amount is known to be above [`LOWEST`].
    octaves: u32,
    /// The clip in units of the grid; 0 before it is known.
    clip: u32,
    /// The most rewards that a handle has known in releases with this clip.
    pub rewards: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// How many rewards are not 0.
    Rate,
    /// Whether the median amount is in the upper half of this number of octaves.
    Search(u32),
    Clipped,
}

/// log2 of the smallest amount that the search tells from smaller ones, in units of the grid.
const LOWEST: u32 = Reward::BITS - OCTAVES;
/// The number of octaves below `reward_max` that are searched, a power of two.
const OCTAVES: u32 = 16;
/// A release has to be larger by this number of deviations of its noise than what is to be seen.
const DEVIATIONS: f64 = 6.0;
/// Amounts that the rate is known by.
const RATE: f64 = 12.0;
/// Amounts in a batch of the search, besides those that the noise needs.
const SEARCH: f64 = 8.0;
/// Decisions of a pilot without `horizon`.
const MOST: u64 = 1 << 20;
/// 2^64 over the golden ratio.
const ARBITRARY: u64 = 0x9E37_79B9_7F4A_7C15;

impl Found {
    pub const NOTHING: Found = Found { stage: Stage::Rate, size: 0, octaves: 0, clip: 0, rewards: 0 };

    /// Whether the clip is known.
    #[inline]
    pub fn has_clip(&self) -> bool {
        self.clip > 0
    }

    /// What an open sum counts of a reward: sums with the same number add up.
    pub fn unit(&self) -> u64 {
        match self.has_clip() {
            true => u64::from(self.clip) << 32,
            false => u64::from(self.octaves) << 8 | u64::from(self.number()),
        }
    }

    fn number(&self) -> u32 {
        match self.stage {
            Stage::Rate => 0,
            Stage::Search(octaves) => octaves,
            Stage::Clipped => 1,
        }
    }

    /// What several pilots have found is ordered by this, never by the size of a clip: how far they are, the rewards
    /// released with their clip, and an arbitrary number.
    pub fn order(&self) -> (u32, u64, u64, u64) {
        let stages = match self.stage {
            Stage::Rate => 0,
            Stage::Search(octaves) => OCTAVES / octaves,
            Stage::Clipped => OCTAVES,
        };
        (stages, self.rewards, self.unit().wrapping_mul(ARBITRARY), self.size)
    }

    /// f: what a batch of this stage counts of a reward.
    pub fn counted(&self, reward: Reward) -> Reward {
        let (units, bound) = (reward.units(), self.bound());
        let [is_amount, is_above] = [units > 0, units > bound].map(u32::from);
        const HALF: u32 = 1 << (Reward::BITS - 1);
        Reward::from_units(match self.stage {
            Stage::Rate => 2 * is_amount * HALF,
            _ => (1 + 2 * is_above - is_amount) * HALF,
        })
    }

    /// The amount that the search compares with, in units of the grid.
    fn bound(&self) -> i64 {
        let half = if let Stage::Search(octaves) = self.stage { octaves / 2 } else { 0 };
        1 << (LOWEST + self.octaves + half)
    }

    fn end(&mut self, clip: u32) {
        (self.stage, self.clip) = (Stage::Clipped, clip.min(Reward::ONE as u32));
    }
}

impl Pilot {
    pub fn new(config: &Config, noise: &Noise) -> Pilot {
        let deviation = Cumulant::of(noise).variance().sqrt();
        let end = if config.horizon > 0 { config.horizon / 3 } else { MOST };
        let size = (RATE + DEVIATIONS * deviation).ceil() as u64;
        Pilot { found: Found { size, ..Found::NOTHING }, deviation, end }
    }

    /// Ends a pilot that has taken too long, by the public number of decisions: nothing is clipped then. Returns whether
    /// it ends now.
    pub fn ends(&mut self, decisions: u64) -> bool {
        let ends = !self.found.has_clip() && decisions >= self.end;
        if ends {
            self.found.end(Reward::ONE as u32);
        }
        ends
    }

    /// Learns from the release of a batch of its stage.
    pub fn learn(&mut self, release: Release) {
        let (count, found) = (release.count as f64, &mut self.found);
        match found.stage {
            Stage::Rate if release.sum < RATE + DEVIATIONS * self.deviation => found.size = 2 * release.count,
            Stage::Rate => {
                found.size = ((SEARCH + DEVIATIONS * self.deviation) * count / release.sum).ceil() as u64;
                found.stage = Stage::Search(OCTAVES);
            }
            Stage::Search(octaves) => {
                let half = octaves / 2;
                if release.sum > 0.5 * count {
                    found.octaves += half;
                }
                found.stage = Stage::Search(half);
                if half == 1 {
                    // Seven times the lower end of the last octave: five times its middle.
                    found.end(7 << (LOWEST + found.octaves));
                }
            }
            Stage::Clipped => (),
        }
        found.size = found.size.clamp(1, Batch::MAX_QUOTA);
    }

    /// The reward with the clip as its unit: at most one.
    #[inline]
    pub fn clip(&self, reward: Reward) -> Reward {
        let (clip, units) = (u64::from(self.found.clip), reward.units() as u64);
        let inverse = (1 << 63) / clip + 1; // no division by what depends on the reward, whose time could tell it
        Reward::from_units(((units.min(clip) * inverse) >> (63 - Reward::BITS)) as u32)
    }

    /// The clip as a share of the range of rewards, if it is known.
    pub fn share(&self) -> Option<f64> {
        self.found.has_clip().then(|| f64::from(self.found.clip) / Reward::ONE as f64)
    }
}

impl Persist for Found {
    fn persist(&mut self, with: &mut Archive) -> Result<()> {
        let mut stage = self.number();
        stage.persist(with)?;
        self.size.persist(with)?;
        self.octaves.persist(with)?;
        self.clip.persist(with)?;
        self.rewards.persist(with)?;
        self.stage = match stage {
            0 => Stage::Rate,
            1 => Stage::Clipped,
            octaves => Stage::Search(octaves),
        };
        let is_known = self.stage == Stage::Clipped;
        with.ensure(stage <= OCTAVES && (stage == 0 || stage.is_power_of_two()))?;
        with.ensure((1..=Batch::MAX_QUOTA).contains(&self.size) && self.octaves + stage.max(1) <= OCTAVES)?;
        with.ensure(self.clip <= Reward::ONE as u32 && (self.clip > 0) == is_known)?;
        with.ensure(is_plausible(self.rewards as f64) && (is_known || self.rewards == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseSource;
    use crate::random::Seed;
    use crate::snapshot::{self, Reader};

    const ONE: u32 = Reward::ONE as u32;

    fn pilot(config: &Config) -> (Pilot, NoiseSource) {
        let noise = config.noise().unwrap();
        (Pilot::new(config, &noise), NoiseSource::new(noise, Seed::new(Some([7; 32])).unwrap().stream()))
    }

    /// Plays to the end with each reward in turn. Returns the number of rewards in the batches.
    fn play(pilot: &mut Pilot, noise: &mut NoiseSource, rewards: &[u32]) -> Vec<u64> {
        let (mut sizes, mut batch) = (Vec::new(), Batch::open(pilot.found.size));
        for &units in rewards.iter().cycle() {
            if pilot.found.has_clip() {
                break;
            }
            if batch.collect(pilot.found.counted(Reward::from_units(units))) && batch.free() == 0 {
                let release = batch.release(noise);
                sizes.push(release.count);
                pilot.learn(release);
                batch = Batch::open(pilot.found.size);
            }
        }
        sizes
    }

    /// With little noise, the search finds the octave of any median amount, and the clip is between 3.5 and 7 of it.
    #[test]
    fn finds_the_octave_of_the_median() {
        for median in (256..ONE).step_by(9973).chain((8..24).flat_map(|octave| [1 << octave, (2 << octave) - 1])) {
            let (mut pilot, mut noise) = pilot(&Config::new(2, 50.0));
            // Of a hundred, two are smaller and two larger.
            let mut rewards = vec![0; 100];
            rewards[..5].copy_from_slice(&[median / 3, median, ONE, 1, median.saturating_mul(9).min(ONE)]);
            play(&mut pilot, &mut noise, &rewards);
            let [least, most] = [7, 14].map(|times| u64::from(median) * times / 2);
            let clip = u64::from(pilot.found.clip);
            assert!((least.min(ONE.into())..=most).contains(&clip), "{median}: {clip}");
        }
    }

    /// The sizes of batches: 12 and six deviations, doubled until so many rewards are above 0; then what brings 8 and six
    /// deviations, four times.
    #[test]
    fn batches_have_their_sizes() {
        let (mut pilot, mut noise) = pilot(&Config::new(2, 1.0));
        let rewards: Vec<u32> = (0..50).map(|i| if i == 0 { 1 << 12 } else { 0 }).collect();
        let sizes = play(&mut pilot, &mut noise, &rewards);
        let first = sizes.len() - 4;
        assert_eq!(sizes[..first], [21, 42, 84, 168, 336, 672, 1344][..first], "{sizes:?}");
        assert!(first >= 6, "{sizes:?}");
        let expected = (8.0 + 6.0 * 2f64.sqrt()) * 50.0;
        for &size in &sizes[first..] {
            assert_eq!(size, sizes[first]);
            assert!((size as f64 / expected - 1.0).abs() < 0.4, "{sizes:?}");
        }
        assert_eq!(pilot.found.clip, 7 << 11); // 2^12 is not above itself
    }

    /// f has the values 0, 1/2 and 1.
    #[test]
    fn rewards_count_as_the_stage_says() {
        let counted = |stage, octaves, units| {
            Found { stage, octaves, ..Found::NOTHING }.counted(Reward::from_units(units)).units()
        };
        assert_eq!([0, 1, ONE].map(|units| counted(Stage::Rate, 0, units)), [0, Reward::ONE, Reward::ONE]);
        for (octaves, half, bound) in [(0, 16, 1 << 16), (8, 8, 1 << 20), (6, 2, 1 << 15)] {
            let above = [0, 1, bound, bound + 1, ONE].map(|units| counted(Stage::Search(half), octaves, units));
            assert_eq!(above, [Reward::ONE / 2, 0, 0, Reward::ONE, Reward::ONE]);
        }
    }

    /// Clipped rewards are units/c, rounded down but for one unit, at most 1, and exactly 1 at the clip and above.
    #[test]
    fn clips_in_integers() {
        for clip in [1792, 7 << 12, 5_555_555, ONE - 1, ONE] {
            let (mut pilot, _) = pilot(&Config::new(2, 1.0));
            pilot.found.end(clip);
            let clipped = |units: u32| pilot.clip(Reward::from_units(units)).units() as u64;
            assert_eq!([0, clip, ONE].map(clipped), [0, ONE.into(), ONE.into()], "{clip}");
            for units in (0..ONE).step_by(4099).chain(clip - 2..clip) {
                let exact = ((u64::from(units) << 24) / u64::from(clip)).min(ONE.into());
                assert!(clipped(units) - exact <= 1 && clipped(units) <= ONE.into(), "{clip} {units}");
            }
        }
    }

    /// A pilot that finds nothing ends after a third of the horizon, or 2^20 decisions, and nothing is clipped.
    #[test]
    fn ends_in_time() {
        for (horizon, end) in [(3000, 1000), (0, 1 << 20), (2, 0)] {
            let (mut pilot, _) = pilot(&Config { horizon, ..Config::new(2, 1.0) });
            assert!(pilot.share().is_none());
            assert!(end == 0 || !pilot.ends(end - 1));
            assert!(!pilot.found.has_clip() && pilot.ends(end) && !pilot.ends(end));
            assert!(pilot.found.has_clip() && pilot.share() == Some(1.0));
            assert_eq!(pilot.clip(Reward::from_units(12345)).units(), 12345);
        }
    }

    /// What a pilot has found after each release is written and read again. Each is before what it finds next.
    #[test]
    fn what_was_found_moves() {
        let (mut pilot, mut noise) = pilot(&Config::new(2, 1.0));
        let mut stages = Vec::new();
        for _ in 0..100 {
            let mut save = |to: &mut snapshot::Writer| pilot.found.persist(&mut Archive::Out(to));
            let bytes = snapshot::fields(|length| Ok(Vec::with_capacity(length)), &mut save).unwrap();
            let mut read = Found::NOTHING;
            read.persist(&mut Archive::In(&mut Reader::of_fields(&bytes))).unwrap();
            assert_eq!(read, pilot.found);
            stages.push(pilot.found.stage);
            if pilot.found.has_clip() {
                break;
            }
            let mut batch = Batch::open(pilot.found.size);
            let ones = pilot.found.size / 20;
            (0..pilot.found.size).for_each(|i| {
                assert!(batch.collect(pilot.found.counted(Reward::from_units(if i < ones { 70_000 } else { 0 }))));
            });
            pilot.learn(batch.release(&mut noise));
            assert!(pilot.found.order() > read.order(), "{:?} after {read:?}", pilot.found);
        }
        stages.dedup();
        let search = [16, 8, 4, 2].map(Stage::Search);
        assert_eq!(stages, [&[Stage::Rate][..], &search, &[Stage::Clipped]].concat());
    }

    /// Clips have their units, however they were found. The one with more rewards comes first, and without rewards no order
    /// of sizes decides.
    #[test]
    fn rewards_order_clips() {
        let ended = |octaves, clip, rewards| {
            let mut found = Found { octaves, size: 1, rewards, ..Found::NOTHING };
            found.end(clip);
            found
        };
        let mut clips: Vec<_> =
            (0..OCTAVES).map(|octaves| 7 << (LOWEST + octaves)).filter(|&clip| clip < ONE).collect();
        clips.push(ONE);
        let all: Vec<_> = clips.iter().map(|&clip| ended(3, clip, 0)).collect();
        assert_eq!(ended(15, ONE, 7).unit(), ended(0, ONE, 0).unit());
        assert!(all.is_sorted_by(|a, b| a.unit() < b.unit()));
        let rises = all.windows(2).filter(|pair| pair[0].order() < pair[1].order()).count();
        assert!((3..all.len() - 4).contains(&rises), "{rises}");
        let known: Vec<_> = clips.iter().map(|&clip| ended(3, clip, clip.into())).collect();
        assert!(known.is_sorted_by(|a, b| a.order() < b.order()));
        assert!(all.iter().all(|found| found.order() < known[0].order()));
    }

    /// What no pilot has written is corrupt.
    #[test]
    fn refuses_impossible_snapshots() {
        let (mut pilot, _) = pilot(&Config::new(2, 1.0));
        for (stage, size, octaves, clip, rewards) in [
            (3, 9, 0, 0, 0),
            (32, 9, 0, 0, 0),
            (16, 0, 0, 0, 0),
            (8, 9, 9, 0, 0),
            (1, 9, 0, 0, 0),
            (0, 9, 0, 5, 0),
            (1, 9, 3, ONE + 1, 0),
            (0, 9, 0, 0, 1),
            (1, 9, 3, ONE, 1 << 60),
        ] {
            let mut save = |to: &mut snapshot::Writer| {
                to.u32(stage);
                to.u64(size);
                to.u32(octaves);
                to.u32(clip);
                to.u64(rewards);
                Ok(())
            };
            let bytes = snapshot::fields(|length| Ok(Vec::with_capacity(length)), &mut save).unwrap();
            let read = pilot.found.persist(&mut Archive::In(&mut Reader::of_fields(&bytes)));
            assert_eq!(read, Err(crate::error::Error::Corrupt), "{stage} {size} {octaves} {clip} {rewards}");
        }
    }
}
