//! Snapshots of segments: this handle's own releases, and public counts.

use super::Segments;
use super::model::{WeightedEvidence, half_life};
use crate::error::{Error, Result};
use crate::ledger::facts::Time;
use crate::moving::{Moved, Moving};
use crate::noise::probe::{self, faulty};
use crate::policy::compare::Totals;
use crate::policy::contract::Policy;
use crate::policy::prior::Prior;
use crate::snapshot::{Reader, Writer, ensure, is_plausible};

/// What a snapshot contains of an arm in all segments. The prior comes with the time when it was set.
pub(super) struct SavedArm {
    live: bool,
    pub trials: Totals,
    prior: Option<(Prior, u64)>,
}

impl SavedArm {
    pub fn read(from: &mut Reader, now: u64) -> Result<SavedArm> {
        let (live, trials) = (from.bool()?, Totals::load(from)?);
        let mut prior = None;
        if from.bool()? {
            let (mean, time) = (Prior::load(from)?, from.count()?);
            ensure(time <= now)?;
            prior = Some((mean, time));
        }
        Ok(SavedArm { live, trials, prior })
    }
}

impl Segments {
    /// Writes this handle's own releases, and public counts.
    pub(super) fn save_releases(&self, to: &mut Writer) {
        to.u64(self.facts.decisions);
        to.u32(self.facts.releases);
        self.facts.time.save(to);
        self.all.save(to);
        to.u32(self.arms());
        for rate in &*self.rates {
            to.u8(rate.live.into());
            rate.trials.save(to);
            to.u8(rate.prior.is_some().into());
            if let Some((prior, time)) = rate.prior {
                prior.save(to);
                to.u64(time);
            }
        }
        to.alike(self.turns.iter().enumerate(), |to, (row, turn)| {
            to.u64(turn.decisions.saturating_sub(self.peers.decisions(row)));
        });
        probe::keep_open(self.plays.iter().map(|play| play.batch.bare_sum()));
        if faulty!(RawSnapshot) {
            for (cell, play) in self.cells.iter().zip(self.plays.iter()) {
                let sum = (cell.released.sum + play.batch.bare_sum()).min(cell.released.weight);
                WeightedEvidence { sum, ..cell.released }.save(to);
            }
            return;
        }
        to.alike(self.cells.iter(), |to, cell| cell.released.save(to));
    }

    /// Reads what [`save_releases`](Self::save_releases) wrote, into new segments. No batch is open. After an error,
    /// drop the segments.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub(super) fn load_releases(&mut self, from: &mut Reader) -> Result<()> {
        let (decisions, releases) = (from.count()?, from.u32()?);
        let saved_time = Time::load(from, decisions)?;
        let now = saved_time.at(decisions);
        let same_clock = self.facts.continue_from(decisions, releases, &saved_time);
        self.all = WeightedEvidence::load(from, now)?;
        ensure(from.u32()? == self.arms())?;
        for arm in 0..self.rates.len() {
            let saved = SavedArm::read(from, now)?;
            let rate = &mut self.rates[arm];
            (rate.live, rate.trials, rate.prior) = (saved.live, saved.trials, saved.prior);
            if !saved.live {
                self.live.remove(arm as u32);
            }
        }
        ensure(self.live.count() >= 1)?;
        for turn in &mut *self.turns {
            turn.decisions = from.count()?;
        }
        for row in 0..self.rows.len() {
            for arm in 0..self.rates.len() {
                self.cells[(row, arm)].released = WeightedEvidence::load_cell(from, now)?;
                self.plays[(row, arm)].batch.keep(probe::kept_open(row * self.rates.len() + arm));
            }
        }
        if !same_clock {
            self.restamp(now, half_life(saved_time.memory()));
        }
        self.least_batch = self.size_of_least_batch();
        self.trial = false;
        self.by_key.try_reserve_exact(self.max_segments as usize).map_err(|_| Error::NoMemory)?;
        self.fit();
        Ok(())
    }

    /// Moves evidence from `then` on the snapshot's clock to now on this one, discounted as it was at `then`.
    fn restamp(&mut self, then: u64, half_life: f64) {
        let now = self.now();
        let restamp = |evidence: &mut WeightedEvidence| {
            evidence.fade(then, half_life);
            evidence.time = now;
        };
        restamp(&mut self.all);
        for row in 0..self.rows.len() {
            (0..self.rates.len()).for_each(|arm| restamp(&mut self.cells[(row, arm)].released));
        }
        for rate in &mut *self.rates {
            rate.prior = rate.prior.and_then(|(prior, time)| {
                let discount = (-((then - time) as f64) / half_life).exp2();
                Some((prior.weakened(discount)?, now))
            });
        }
    }
}

impl WeightedEvidence {
    fn save(&self, to: &mut Writer) {
        [self.sum, self.weight, self.count].into_iter().for_each(|number| to.f64(number));
        to.u64(self.time);
    }

    pub fn load(from: &mut Reader, now: u64) -> Result<WeightedEvidence> {
        let (sum, weight, count, time) = (from.f64()?, from.f64()?, from.f64()?, from.count()?);
        ensure([sum, weight, count].into_iter().all(is_plausible) && time <= now)?;
        Ok(WeightedEvidence { sum, weight, count, time })
    }

    pub fn load_cell(from: &mut Reader, now: u64) -> Result<WeightedEvidence> {
        let cell = WeightedEvidence::load(from, now)?;
        ensure((0.0..=cell.weight).contains(&cell.sum) && cell.weight <= cell.count)?;
        Ok(cell)
    }
}

impl Moved for Segments {
    fn moved(&mut self, with: &mut Moving) -> Result<()> {
        if let Moving::Out(to) = with {
            self.save_pulls(to, &mut std::iter::empty());
        }
        with.snapshot(self, Policy::save, Policy::load)?;
        self.plays.moved(with)?;
        self.turns.moved(with)?;
        self.rates.moved(with)?;
        self.trial.moved(with)
    }
}
