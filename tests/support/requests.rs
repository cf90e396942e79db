//! Short constructors of requests. For several fields: `Request { user, ..among(&arms) }`.
#![allow(dead_code, reason = "tests use a part each")]

use dpb::{Algorithm, Bandit, Config, Decision, Request, Result, Rows};

pub fn among(arms: &[u32]) -> Request<'_> {
    Request { eligible: Some(arms), ..Request::default() }
}

pub fn of_user(user: u64) -> Request<'static> {
    Request { user, ..Request::default() }
}

/// Takes a snapshot, and says that it is stored.
pub fn store(bandit: &Bandit) -> Vec<u8> {
    let snapshot = bandit.snapshot().unwrap();
    bandit.stored(&snapshot).unwrap();
    snapshot
}

pub fn in_segment(key: u64) -> Request<'static> {
    Request { segment: key, ..Request::default() }
}

pub fn of_slots(slots: u32) -> Request<'static> {
    Request { slots, ..Request::default() }
}

/// The configuration without the numbers that this policy does not use.
pub fn numbers(algorithm: Algorithm, config: Config) -> Config {
    let fit = algorithm.fit(&config);
    let Config { delta, beta, batch, base, interval_exponent, rigorous_index, shuffle_printed, clamp_rewards, .. } =
        fit;
    let config = Config { delta, beta, batch, base, interval_exponent, learn_clip: fit.learn_clip, ..config };
    Config { rigorous_index, shuffle_printed, clamp_rewards, ..config }
}

/// The same with what this policy requires besides a delta and a horizon: features. With one model for each arm
/// dp-linear does all that other policies do.
pub fn fitted(algorithm: Algorithm, config: Config) -> Config {
    let config = numbers(algorithm, config);
    if algorithm == Algorithm::Linear { Config { features: 2, model_per_arm: true, ..config } } else { config }
}

/// Rows of features for a request among these arms, if the handle needs any.
fn rows(bandit: &Bandit, eligible: Option<&[u32]>) -> Result<Option<Vec<f32>>> {
    if bandit.algorithm() != Algorithm::Linear {
        return Ok(None);
    }
    let report = bandit.report()?;
    let rows = match eligible {
        _ if report.model_per_arm => 1,
        Some(arms) => arms.len() as u32,
        None => bandit.arms()?,
    };
    Ok(Some((0..rows * report.features).map(|i| (i % 5) as f32 / 4.0 - 0.25).collect()))
}

/// Requests decisions from a handle of any policy, with features if it needs them.
pub trait Ask {
    fn ask(&self) -> Result<Decision>;
    fn ask_for(&self, request: &Request) -> Result<Decision>;
    fn ask_slots(&self, request: &Request, each: impl FnMut(usize, Decision)) -> Result<()>;
}

impl Ask for Bandit {
    fn ask(&self) -> Result<Decision> {
        if self.algorithm() == Algorithm::Linear { self.ask_for(&Request::default()) } else { self.select() }
    }

    fn ask_for(&self, request: &Request) -> Result<Decision> {
        let rows = rows(self, request.eligible)?;
        self.select_for(&Request { features: rows.as_deref().map(Rows::Dense), ..*request })
    }

    fn ask_slots(&self, request: &Request, each: impl FnMut(usize, Decision)) -> Result<()> {
        let rows = rows(self, request.eligible)?;
        self.select_slots(&Request { features: rows.as_deref().map(Rows::Dense), ..*request }, each)
    }
}
