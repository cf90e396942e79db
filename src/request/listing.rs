//! Lists the arms that a request may get, and what they are worth in it.

use super::Request;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::ledger::roster::Roster;
use crate::memory::{WipedVec, try_with_capacity};

/// What a request says of an arm.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    /// The number of the last request that listed the arm.
    request: u32,
    /// The arm's position in that list.
    pub(super) position: u32,
    /// With values or costs: the arm's value as a part of the largest; 0 if that was too small.
    value: f32,
}

/// A cost is at most so much, in units of the largest value times the largest reward.
const MOST_COST: f64 = (1 << 20) as f64;

const UNLISTED: Listed = Listed { request: 0, position: 0, value: 0.0 };

/// What the arms of a request are worth, in units of the largest value times the largest reward: value times mean minus
/// cost.
#[derive(Clone, Copy)]
pub(crate) struct Worths<'a> {
    listed: &'a [Listed],
    costs: Option<&'a [f64]>,
    /// The unit of the costs.
    unit: f64,
}

impl<'a> Worths<'a> {
    /// An arm whose value is below this part of the largest one counts as one of value 0.
    const LEAST: f64 = 1.0 / (1 << 20) as f64;

    /// Of arms that were [listed](Listing::list_worths).
    pub(super) fn new(listed: &'a [Listed], costs: Option<&'a [f64]>, unit: f64) -> Worths<'a> {
        Worths { listed, costs, unit }
    }

    /// What no arm is worth less than: without costs no less than nothing.
    pub(super) fn least(&self) -> f64 {
        if self.costs.is_some() { f64::NEG_INFINITY } else { 0.0 }
    }

    /// The value of an arm that the request lists, as a part of the largest one.
    #[inline]
    fn value(&self, arm: u32) -> f64 {
        self.listed[arm as usize].value.into()
    }

    #[inline]
    fn cost(&self, arm: u32) -> f64 {
        self.costs.map_or(0.0, |costs| costs[self.listed[arm as usize].position as usize] / self.unit)
    }

    /// The worth of an arm with this mean.
    #[inline]
    pub fn of(&self, arm: u32, mean: f64) -> f64 {
        self.value(arm) * mean - self.cost(arm)
    }

    /// The mean with which an arm has this worth: above 1 it cannot have it, and at 0 it has at least as much. The map from
    /// rewards to worths is one-to-one, so the evidence against the worth is that against the mean.
    #[inline]
    pub fn mean(&self, arm: u32, worth: f64) -> f64 {
        ((worth + self.cost(arm)) / self.value(arm)).max(0.0)
    }
}

/// What a request may get in place of an arm whose rewards matter.
#[derive(Clone, Copy)]
pub(crate) struct Sure {
    /// An arm of value 0; `None`: no arm.
    pub arm: Option<u32>,
    /// As in [`Worths`].
    pub worth: f64,
}

/// Memory for the lists of a handle's requests, one at a time.
pub(super) struct Listing {
    reward_max: f64,
    /// Whether the smallest reward is 0, so that a reward has a value in proportion to it.
    pub(super) from_zero: bool,
    /// The arms that may be chosen. Capacity for all arms.
    pub(super) among: Vec<u32>,
    pub(super) listed: WipedVec<Listed>,
    request: u32,
}

impl Listing {
    /// # Errors
    /// `NoMemory`.
    pub(super) fn new(arms: usize, config: &Config) -> Result<Listing> {
        let (reward_max, from_zero) = (config.reward_max, config.reward_min == 0.0);
        let listed = WipedVec::new(arms, |_| UNLISTED)?;
        Ok(Listing { reward_max, from_zero, among: try_with_capacity(arms)?, listed, request: 0 })
    }

    pub(super) fn arms(&self) -> usize {
        self.listed.len()
    }

    /// Reserves memory for one more arm.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(super) fn reserve(&mut self) -> Result<()> {
        self.listed.reserve()?;
        self.among.clear();
        self.among.try_reserve(self.arms() + 1).map_err(|_| Error::NoMemory)
    }

    /// Adds an arm, after [`reserve`](Self::reserve).
    pub(super) fn add_arm(&mut self) {
        self.listed.push(UNLISTED);
    }

    /// A number that no arm has from an earlier request.
    fn next_request(&mut self) -> u32 {
        self.request = self.request.wrapping_add(1);
        if self.request == 0 {
            self.listed.fill(UNLISTED);
            self.request = 1;
        }
        self.request
    }

    /// Lists the arms that a request may get: these live ones, each once, in their order; or all live arms.
    pub(super) fn list(&mut self, eligible: Option<&[u32]>, roster: &Roster) {
        self.among.clear();
        let Some(eligible) = eligible else { return self.among.extend(roster.live()) };
        let request = self.next_request();
        for (position, &arm) in eligible.iter().enumerate() {
            let listed = &mut self.listed[arm as usize];
            if listed.request != request {
                *listed = Listed { request, position: position as u32, value: 0.0 };
                self.among.push(arm);
            }
        }
    }

    /// Reads the values and the costs of a request, and lists the arms that it may get. Returns the unit of its costs, and
    /// what is sure.
    ///
    /// # Errors
    /// `InvalidRequest`: "values", "values_len", "costs", "costs_len", "eligible".
    pub(super) fn list_worths(&mut self, request: &Request, roster: &Roster) -> Result<(f64, Option<Sure>)> {
        let Request { values, costs, eligible, .. } = *request;
        let (length, what) = match eligible {
            Some(arms) => (arms.len(), "eligible arms"),
            None => (roster.arms(), "arms"),
        };
        for (name, list) in [("values_len", values), ("costs_len", costs)] {
            if let Some(list) = list.filter(|list| list.len() != length) {
                return Err(Error::request(name, &format!("must be {length}, the number of {what}"), list.len()));
            }
        }
        let (number, arms) = (self.next_request(), eligible.unwrap_or(roster.live()));
        let position = |place: usize, arm: u32| if eligible.is_some() { place } else { arm as usize };
        let mut largest = 0.0;
        for (place, &arm) in arms.iter().enumerate() {
            let value = values.map_or(1.0, |values| values[position(place, arm)]);
            if !(0.0..f64::INFINITY).contains(&value) {
                return Err(Error::request("values", "must be finite and at least 0", value));
            }
            if std::mem::replace(&mut self.listed[arm as usize].request, number) == number {
                let rule = "must not name an arm twice in a request with values or costs";
                return Err(Error::request("eligible", rule, arm));
            }
            largest = f64::max(largest, value);
        }
        let unit = if largest > 0.0 { largest * self.reward_max } else { 1.0 };
        let mut sure = request.abstain.then_some(Sure { arm: None, worth: 0.0 });
        self.among.clear();
        for (place, &arm) in arms.iter().enumerate() {
            let position = position(place, arm);
            let part = values.map_or(1.0, |values| values[position]) / largest; // NaN if all are 0
            let value = if part >= Worths::LEAST { part as f32 } else { 0.0 };
            self.listed[arm as usize] = Listed { request: number, position: position as u32, value };
            self.among.extend((value > 0.0).then_some(arm));
            let Some(cost) = costs.map(|costs| costs[position]) else { continue };
            let is_small = cost.abs() <= MOST_COST * unit || largest == 0.0;
            if !(cost.is_finite() && unit.is_normal() && is_small) {
                let rule = "must be finite, and at most 2^20 times the largest value times config.reward_max";
                return Err(Error::request("costs", rule, cost));
            }
            let worth = -cost / unit;
            if value == 0.0 && request.slots == 1 && sure.is_none_or(|sure| worth > sure.worth) {
                sure = Some(Sure { arm: Some(arm), worth });
            }
        }
        Ok((unit, sure))
    }
}
