//! Snapshots of segments: this handle's own releases, and public counts.

use super::Segments;
use super::model::{Rate, WeightedEvidence, discount, half_life};
use crate::error::{Error, Result};
use crate::moving::{Archive, Persist, persist};
use crate::policy::prior::Prior;
use crate::snapshot::is_plausible;

impl Segments {
    /// Writes this handle's own releases and public counts, or reads them into new segments. No batch is open
    /// afterwards.
    ///
    /// # Errors
    /// `Corrupt`; `NoMemory`.
    pub(super) fn move_releases(&mut self, with: &mut Archive) -> Result<()> {
        let (facts, continues) = self.ledger.persist(with)?;
        let (now, arms) = (facts.now(), self.rates.len());
        self.all.move_saved(now, with)?;
        self.rates.iter_mut().try_for_each(|rate| rate.move_saved(now, with))?;
        with.alike(self.turns.iter_mut(), |with, turn| with.count(&mut turn.decisions))?;
        with.alike(0..self.rows.len() * arms, |with, place| {
            let cell = (place / arms, place % arms);
            let mut released = self.cells[cell].released;
            released.move_cell(now, with)?;
            if with.reads() {
                self.cells[cell].released = released;
            }
            Ok(())
        })?;
        if with.reads() {
            if !continues {
                self.restamp(now, half_life(facts.time.memory()));
            }
            self.least_batch = self.size_of_least_batch();
            self.trial = false;
            self.by_key.try_reserve_exact(self.max_segments as usize).map_err(|_| Error::NoMemory)?;
            self.fit();
        }
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
            rate.prior =
                rate.prior.and_then(|(prior, time)| Some((prior.weakened(discount(then - time, half_life))?, now)));
        }
    }
}

impl Rate {
    /// Moves what a snapshot taken at `now` has of an arm in all segments.
    pub fn move_saved(&mut self, now: u64, with: &mut Archive) -> Result<()> {
        self.trials.persist(with)?;
        with.option(&mut self.prior, || Ok((Prior::WEAKEST, 0)))?;
        with.ensure(self.prior.is_none_or(|(_, time)| time <= now))
    }
}

impl WeightedEvidence {
    /// Moves what a snapshot taken at `now` has.
    pub fn move_saved(&mut self, now: u64, with: &mut Archive) -> Result<()> {
        for number in [&mut self.sum, &mut self.weight, &mut self.count] {
            number.persist(with)?;
            with.ensure(is_plausible(*number))?;
        }
        self.time.persist(with)?;
        with.ensure(self.time <= now)
    }

    pub fn move_cell(&mut self, now: u64, with: &mut Archive) -> Result<()> {
        self.move_saved(now, with)?;
        with.ensure((0.0..=self.weight).contains(&self.sum) && self.weight <= self.count)
    }
}

// The rest moves as a snapshot has it.
persist!(Segments { turns, rates, trial } made {
    ledger, configured, max_segments, configured_cells, rows, cells, explore, ranks, order, by_key, moments, all, peers,
    deviation, half_life, least_batch, cursor, fitted, rule,
});
