//! dp-linear with private features: each request is counted in one cell of a public codebook.
//!
//! **Who sees a request's own decision learns of its row.** A decision is computed from the exact row, without noise. What
//! is protected is the request from everybody who sees all other decisions, and everything that the handle publishes.
//!
#![doc = include_str!("../../../../docs/theory/private-features.md")]

mod fleet;
mod policy;
mod table;

use super::model::{Belief, FIRST, LEAST, MOST, Model, ModelEvidence};
use super::models::{Models, discount};
use super::pilot::Pilots;
use super::{Shape, algebra};
use crate::codebook::Codebook;
use crate::config::{Config, check_arms};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ledger::cells::Ledger;
use crate::ledger::grid::Grid;
use crate::ledger::open::Batch;
use crate::memory::WipedVec;
use crate::noise::{Laplace, Noise, NoiseSource};
use crate::random::Seed;
use crate::reward::Reward;
use fleet::PrivateReleases;
use table::CellTable;
use zeroize::Zeroize;

/// A cell of the table, a model times the number of rows plus a row, of a pending decision.
const NO_CELL: u32 = u32::MAX;
/// Maximum number of cells.
const MOST_CELLS: u32 = 1 << 16;

/// dp-linear with private features. The number of a pull is its position in the engine's ring, where its cell is kept.
pub(crate) struct PrivateLinear {
    shape: Shape,
    exploration: f64,
    book: Codebook,
    /// Whether the book is that of the caller's configuration.
    is_given: bool,
    /// |x|^2/2 of each row of the book.
    halves: WipedVec<f64>,
    /// The open table, or that of the pilot until the rate is known.
    ledger: Ledger<CellTable, PrivateReleases>,
    /// Noise of the pilot; the ledger's is that of a table.
    pilot_noise: NoiseSource,
    pilots: Pilots,
    models: Models,
    /// Requests in this handle's tables, discounted like the evidence.
    requests: f64,
    /// The last released table, and x.
    released: WipedVec<f64>,
    x: WipedVec<f64>,
    /// The cell of each pending decision.
    kept: WipedVec<u32>,
}

/// Checks what private features cannot be combined with.
fn check(config: &Config) -> Result<()> {
    let (rows, window, slots) = (config.codebook_len, config.reward_window, config.max_slots);
    Error::unless(rows > 0, "codebook_len", "must be at least 1 with private_features", rows)?;
    let rule = "must be above 0 with private_features: a request counts when its window is over, whatever became of it";
    Error::unless(window > 0, "reward_window", rule, window)?;
    Error::unless(slots == 0, "max_slots", "must be 0 with private_features: a request has one slot", slots)?;
    let rule = "must be 0 with private_features: which decisions are recorded is not covered";
    Error::unless(config.table_capacity == 0, "table_capacity", rule, config.table_capacity)?;
    let rule = "must be 0 with private_features: who is over the limit would show";
    Error::unless(config.expected_users == 0, "expected_users", rule, config.expected_users)
}

impl PrivateLinear {
    /// Returns a policy for `config.arms` arms. Without a codebook it waits for that of a snapshot.
    ///
    /// # Errors
    /// `InvalidConfig`, `NoMemory`.
    pub fn new(config: &Config, seed: &mut Seed) -> Result<PrivateLinear> {
        let shape = Shape::of(config);
        config.check_arms(shape.most_arms())?;
        check(config)?;
        let (d, rows) = (1 + shape.features as usize, config.codebook_len as usize);
        let models = shape.models(config.arms as usize) as u32;
        if u64::from(models) * rows as u64 > MOST_CELLS.into() {
            let rule =
                format!("must be at most {}: with the models there are at most 65536 cells", MOST_CELLS / models);
            return Err(Error::config("codebook_len", &rule, config.codebook_len));
        }
        let (epsilon, g) = (config.epsilon_per_reward()?, Reward::ONE as u64);
        let mut noise =
            |sensitivity| Ok(NoiseSource::new(Noise::Laplace(Laplace::new(epsilon, sensitivity)?), seed.stream()));
        let (of_table, of_pilot) = (noise(2 * g)?, noise(g)?);
        let is_given = config.codebook.is_some();
        let book = config.codebook.clone().map_or_else(|| fleet::blank(rows, d - 1), Ok)?;
        let cells = Grid::of_row(WipedVec::new(1, |_| CellTable::new(rows))?);
        let mut policy = PrivateLinear {
            shape,
            exploration: config.exploration,
            halves: WipedVec::new(rows, |_| 0.0)?,
            book: book.clone(),
            is_given,
            ledger: Ledger::new(config, cells, of_table)?,
            pilot_noise: of_pilot,
            pilots: Pilots::default(),
            models: Models::new(config, d, models as usize, seed.stream())?,
            requests: 0.0,
            released: WipedVec::default(),
            x: algebra::zeros(d)?,
            kept: WipedVec::new(Engine::places(config), |_| NO_CELL)?,
        };
        policy.use_book(book);
        policy.ledger.whole = Some(Box::new(CellTable::pilot()?));
        for model in 0..models {
            policy.add_model(model.into())?;
        }
        policy.open();
        Ok(policy)
    }

    fn use_book(&mut self, book: Codebook) {
        for (half, row) in self.halves.iter_mut().zip(book.rows().chunks_exact(book.features())) {
            *half = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 2.0;
        }
        self.ledger.unit = Some(book.id());
        self.book = book;
    }

    /// Adds a model, whose arm has this id.
    fn add_model(&mut self, id: u64) -> Result<()> {
        let model = self.models.make()?;
        let cells = 2 * self.book.len() * (self.models.all.len() + 1);
        check_arms(cells / 2, MOST_CELLS)?;
        let released = WipedVec::new(cells, |_| 0.0)?;
        self.ledger.cells[(0, 0)].add_model(id)?;
        self.released = released;
        self.models.all.push(model);
        Ok(())
    }

    fn plays_evenly(&self) -> bool {
        self.ledger.whole.is_some()
    }

    /// The table that requests enter.
    fn table(&mut self) -> &mut CellTable {
        self.ledger.whole.as_deref_mut().unwrap_or(&mut self.ledger.cells[(0, 0)])
    }

    /// Opens a table, that of the pilot or of all models, or gives the open one another size.
    fn open(&mut self) {
        let size = match self.plays_evenly() {
            true => self.pilots.own.quota(variance(&self.pilot_noise)),
            false => (self.size().ceil() as u64).clamp(1, Batch::MAX_QUOTA),
        };
        let quota = self.ledger.facts.quota(size);
        self.table().quota = quota;
    }

    /// The number of requests in the next table. As for a batch of dp-linear: `FIRST` of the noise's scale in each cell; then
    /// the geometric mean of all before and of the number whose information is that of the noise.
    fn size(&self) -> f64 {
        let (share, cells) = (self.ledger.facts.share(), (self.released.len() / 2) as f64);
        let (rate, variance) = (self.pilots.pooled.rate(), variance(&self.ledger.noise));
        let first = FIRST * cells * (variance / 2.0).sqrt() / rate;
        let count = self.all_requests() / share.divides;
        let even = cells * variance / (rate * (1.0 - rate));
        first.max((2.0 * count * even).sqrt().clamp(LEAST * count, MOST * count).min(share.limit))
    }

    /// Requests in all known tables.
    fn all_requests(&self) -> f64 {
        let now = self.ledger.facts.now();
        let others = self
            .ledger
            .peers
            .iter()
            .map(|peer| discount(now - peer.merged, self.models.memory) * peer.releases.saved.requests);
        self.requests + others.sum::<f64>()
    }

    fn release_pilot(&mut self) {
        let Some(pilot) = &mut self.ledger.whole else { return };
        let (count, mut sum) = (pilot.count as f64, [0.0]);
        self.ledger.facts.release(0);
        pilot.release(&mut self.pilot_noise, &mut sum);
        self.pilots.own.add(count, sum[0], variance(&self.pilot_noise));
        self.believe();
        if self.pilots.own.is_known() {
            self.end_pilot();
        }
        self.open();
    }

    /// Sets the prior from the releases of all pilots together, and from the share of requests that were not cancelled.
    /// Returns whether the pilots determine the rate.
    fn believe(&mut self) -> bool {
        let Some(pooled) = self.pilots.pool() else { return false };
        let (shown, all) = (self.models.all.iter().map(Model::count).sum::<f64>(), self.all_requests());
        let share = if all > 0.0 { (shown / all).clamp(0.01, 1.0) } else { 1.0 };
        let intercept = algebra::logit((pooled.rate() / share).min(0.9));
        self.models.belief = Belief { intercept, precision: self.book.mean_square(), ..self.models.belief };
        true
    }

    /// Ends the pilot once the rate is known. What has entered its open table is dropped.
    fn end_pilot(&mut self) {
        if self.ledger.whole.take().is_some() {
            self.models.expect();
            self.models.refit();
        }
    }

    /// Releases a full table, its only release. Then updates all models and opens the next table.
    fn release_table(&mut self) {
        self.ledger.facts.time.learn();
        self.fade();
        let Ledger { facts, cells, noise, .. } = &mut self.ledger;
        let count = cells[(0, 0)].count;
        facts.release(count);
        cells[(0, 0)].release(noise, &mut self.released);
        self.requests += count as f64;
        let of_model = 2 * self.book.len();
        for (model, cells) in self.models.all.iter_mut().zip(self.released.chunks_exact(of_model)) {
            model.own.count = (model.own.count + cells.iter().sum::<f64>()).max(0.0);
        }
        self.believe();
        (0..self.models.all.len()).for_each(|model| self.learn(model));
        self.models.refit();
        self.open();
    }

    /// Adds the last table to a model's evidence. Of a row x of the book, n1 and n0 are released: y = (1 - p) n1 - p n0 has
    /// the mean n v (x theta - m), where n = (p n1 + (1 - p) n0)/(p^2 + (1 - p)^2) has noise that is not correlated with
    /// that of y.
    fn learn(&mut self, model: usize) {
        let (rows, variance, belief) = (self.book.len(), variance(&self.ledger.noise), self.models.belief);
        self.models.learn(model, |Model { own: ModelEvidence { precision, shift, .. }, mean, .. }, _| {
            for row in 0..rows {
                let [n1, n0] = [0, 1].map(|i| self.released[2 * (model * rows + row) + i]);
                self.x[1..].iter_mut().zip(self.book.row(row)).for_each(|(x, &value)| *x = value.into());
                self.x[0] = 1.0;
                let [m, p, v] = belief.linearise(algebra::dot(&self.x, mean));
                let square = p * p + (1.0 - p) * (1.0 - p);
                let n = (p * n1 + (1.0 - p) * n0) / square;
                if n <= 0.0 {
                    continue;
                }
                let (y, a) = ((1.0 - p) * n1 - p * n0, n * v);
                let weight = a / (a + variance * square);
                algebra::add(shift, weight * (y + a * m), &self.x);
                for i in 0..self.x.len() {
                    algebra::add(&mut precision[algebra::packed(i)..][..=i], weight * a * self.x[i], &self.x);
                }
            }
            Some(())
        });
    }

    /// Requests in this handle's tables, discounted to now.
    fn own_requests(&self) -> f64 {
        self.models.discount_of(0, self.ledger.facts.now()) * self.requests
    }

    /// Lets all evidence fade until now.
    fn fade(&mut self) {
        let now = self.ledger.facts.now();
        self.requests = self.own_requests();
        (0..self.models.all.len()).for_each(|model| self.models.fade(model, now));
    }
}

/// Wipes what is private of pending decisions, and the last row.
impl Drop for PrivateLinear {
    fn drop(&mut self) {
        self.kept.zeroize();
        self.x.zeroize();
    }
}

/// The variance of noise, in rewards.
fn variance(noise: &NoiseSource) -> f64 {
    noise.distribution().variance() / (Reward::ONE as f64).powi(2)
}
