//! Checks a request, and lists what it offers to the policy. [`Offers::check`] is the only check of a request, and
//! makes the only [`Offer`] there is. A policy that gets one decides, and cannot fail.

use super::choice::{Choice, Pull};
use super::listing::{Listed, Listing, Sure, Worths};
use super::rows::Rows;
use super::{Abilities, EXAMINATION, NO_ARM, Request};
use crate::config::Config;
use crate::error::{Error, Result, Value};
use crate::ledger::keys::Keys;
use crate::ledger::roster::Roster;
use crate::memory::try_with_capacity;
use crate::random::Random;

/// What the requests of a handle may name.
#[derive(Clone, Copy)]
pub(crate) struct Catalog<'a> {
    /// The arms, if they come and go, and requests may name eligible ones.
    pub arms: Option<&'a Roster>,
    /// With segments: their keys, and the maximum number of them.
    pub segments: Option<(&'a Keys, u32)>,
}

impl Catalog<'_> {
    /// For policies whose arms are fixed.
    pub const FIXED: Catalog<'static> = Catalog { arms: None, segments: None };
}

/// What a handle permits now.
pub(crate) struct Limits {
    /// Whether it may decide.
    pub is_ready: bool,
    /// Whether it counts users.
    pub counts_users: bool,
    /// The number of the next decision, and the length of the ring that stores decisions, a power of two.
    pub next: u64,
    pub ring: u64,
    /// The number of decisions that can be open.
    pub reach: u64,
}

/// The segment of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Segment {
    /// The handle has no segments.
    None,
    /// Its number.
    Known(u32),
    /// Its key, if no earlier request had it. There may be one more segment.
    New(u64),
}

/// Memory for the requests of a handle, one at a time, and what its configuration permits.
pub(crate) struct Offers {
    can: Abilities,
    /// Maximum number of slots; 0 = as many as arms.
    max_slots: u32,
    /// The number of features in a row, and whether a request has one row, because each arm has a model.
    features: usize,
    has_one_row: bool,
    listing: Listing,
    /// Capacity for the largest number of slots, as in `assigned`.
    choices: Vec<Choice>,
    /// The slot of each choice; empty for a [plain](Offer::is_plain) request.
    assigned: Vec<u32>,
    /// Coins that shuffle the slots, for policies that have more than one or values.
    coins: Option<Random>,
}

/// A request that can be decided, as a policy gets it.
pub(crate) struct Offer<'a> {
    /// The number of arms to choose, at most as many as may be chosen.
    pub slots: u32,
    pub segment: Segment,
    /// The user; 0 if none is counted.
    pub user: u64,
    /// The rows of features, where the handle has them.
    pub rows: Option<Rows<'a>>,
    /// The arms that the request names, as it names them.
    pub eligible: Option<&'a [u32]>,
    pub worths: Option<Worths<'a>>,
    /// In a request of one slot with costs, or that may get no arm: the best of what has a known worth.
    pub sure: Option<Sure>,
    /// Whether it has one slot, neither values nor costs nor positions, and must get an arm.
    pub is_plain: bool,
    /// Whether there is an outage: nothing is learned. A policy then chooses the arms with the largest released mean
    /// (times their value), with the configured exploration, if anything was released. What is cancelled teaches
    /// nothing, so the arm that is to be explored would be played until the outage ends.
    pub is_outage: bool,
    examined: Option<&'a [f64]>,
    among: Option<&'a mut Vec<u32>>,
    listed: &'a [Listed],
    choices: &'a mut Vec<Choice>,
    assigned: &'a mut Vec<u32>,
    coins: Option<&'a mut Random>,
    next: u64,
    ring: u64,
}

impl Offers {
    /// # Errors
    /// `NoMemory`.
    pub fn new(config: &Config, can: Abilities, arms: usize, coins: Option<Random>) -> Result<Offers> {
        let mut offers = Offers {
            can,
            max_slots: config.max_slots,
            features: config.features as usize,
            has_one_row: config.model_per_arm,
            listing: Listing::new(arms, config)?,
            choices: Vec::new(),
            assigned: Vec::new(),
            coins,
        };
        offers.choices = try_with_capacity(offers.most_slots(arms))?;
        offers.assigned = try_with_capacity(offers.coins.as_ref().map_or(0, |_| offers.most_slots(arms)))?;
        Ok(offers)
    }

    fn most_slots(&self, arms: usize) -> usize {
        match self.max_slots as usize {
            _ if !self.can.slots => 1,
            0 => arms,
            most => most.min(arms),
        }
    }

    /// Reserves memory for one more arm.
    ///
    /// # Errors
    /// `NoMemory`: nothing has changed.
    pub fn reserve(&mut self) -> Result<()> {
        let slots = self.most_slots(self.listing.arms() + 1);
        self.listing.reserve()?;
        self.choices.clear();
        self.assigned.clear();
        let lists = [self.choices.try_reserve(slots), self.assigned.try_reserve(slots)];
        lists.into_iter().try_for_each(|reserved| reserved.map_err(|_| Error::NoMemory))
    }

    /// Adds an arm, after [`reserve`](Self::reserve).
    pub fn add_arm(&mut self) {
        self.listing.add_arm();
    }

    /// Whether a test splits decisions in fixed shares.
    pub fn is_split(&self) -> bool {
        self.can.is_split
    }

    /// The number of features in a row; 0 if requests have none.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The choices of the request that was decided last, each with its slot; one of [`NO_ARM`] if it got none.
    #[inline]
    pub fn choices(&self) -> impl Iterator<Item = (u32, &Choice)> {
        self.choices.iter().enumerate().map(|(n, choice)| (self.assigned.get(n).copied().unwrap_or(0), choice))
    }

    /// Checks that a request can be decided now, and lists what it offers. Nothing changes but this memory.
    ///
    /// # Errors
    /// `InvalidRequest`; `Unsupported`; `Full`; `NotStored`.
    #[inline(always)] // so that the offer is not moved
    pub fn check<'a>(&'a mut self, request: &Request<'a>, catalog: Catalog, limits: &Limits) -> Result<Offer<'a>> {
        if request.user != 0 && !limits.counts_users {
            return Err(Error::unconfigured_number("user", request.user, "config.expected_users is 0"));
        }
        if !limits.is_ready {
            return Err(Error::NotStored);
        }
        if self.can.is_split && request.eligible.is_some() {
            return Err(Error::unconfigured("eligible arms: config.control_share or config.sticky is set"));
        }
        if request.slots == 0 {
            return Err(Error::request("slots", "must be at least 1", 0u32));
        }
        if let Some(arms) = request.eligible {
            let roster = catalog.arms.ok_or_else(|| Error::unsupported("eligible arms: its arms are fixed"))?;
            roster.check(arms, "eligible")?;
            if arms.is_empty() {
                return Err(Error::request("eligible_len", "must be at least 1", 0u32));
            }
        }
        if request.segment != 0 && catalog.segments.is_none() {
            return Err(Error::unconfigured_number("segment", request.segment, "config.max_segments is 0"));
        }
        self.check_features(request, catalog)?;
        let segment = find_segment(request.segment, catalog)?;
        let has_worths = request.values.is_some() || request.costs.is_some() || request.abstain;
        let is_plain = request.slots == 1 && !has_worths && request.examined.is_none();
        let lists = !is_plain || request.eligible.is_some() || request.features.is_some();
        let (mut unit, mut sure) = (1.0, None);
        if !is_plain {
            (unit, sure) = self.check_slots(request, catalog, limits)?;
        } else if let Some(roster) = catalog.arms.filter(|_| lists) {
            self.listing.list(request.eligible, roster);
        }
        self.choices.clear();
        self.assigned.clear();
        Ok(Offer {
            slots: request.slots,
            segment,
            user: request.user,
            rows: request.features,
            eligible: request.eligible,
            worths: has_worths.then_some(Worths::new(&self.listing.listed, request.costs, unit)),
            sure,
            is_plain,
            is_outage: false,
            examined: request.examined,
            among: lists.then_some(&mut self.listing.among),
            listed: &self.listing.listed,
            choices: &mut self.choices,
            assigned: &mut self.assigned,
            coins: self.coins.as_mut(),
            next: limits.next,
            ring: limits.ring,
        })
    }

    /// Checks the rows of features of a request whose eligible arms are live.
    fn check_features(&self, request: &Request, catalog: Catalog) -> Result<()> {
        let rows = match request.features {
            Some(_) if self.features == 0 => return Err(Error::unconfigured("features: config.features is 0")),
            None if self.features == 0 => return Ok(()),
            None => return Err(Error::request("features", "must be set: config.features is not 0", Value::Null)),
            Some(rows) => rows,
        };
        match (self.has_one_row, request.eligible, catalog.arms) {
            (true, ..) | (_, _, None) => rows.check(1, |_| true, self.features),
            (_, Some(arms), _) => rows.check(arms.len(), |_| true, self.features),
            (_, None, Some(roster)) => rows.check(roster.arms(), |row| roster.is_live(row), self.features),
        }
    }

    /// Checks a request of several slots, or with values, costs or positions, or that may get no arm, and lists its arms.
    /// Returns the unit of its costs, and what is sure.
    fn check_slots(&mut self, request: &Request, catalog: Catalog, limits: &Limits) -> Result<(f64, Option<Sure>)> {
        let slots = request.slots;
        let worths = [
            (request.values.is_some(), "values: it maximises rewards", "values: config.reward_min is not 0"),
            (request.costs.is_some(), "costs: it maximises rewards", "costs: config.reward_min is not 0"),
            (request.abstain, "abstain: it maximises rewards", "abstain: config.reward_min is not 0"),
        ];
        let worths = worths.into_iter().find(|&(is_set, ..)| is_set);
        if let Some((_, unsupported, _)) = worths.filter(|_| !self.can.values) {
            return Err(Error::unsupported(unsupported));
        }
        if self.can.clips && (request.costs.is_some() || request.abstain) {
            return Err(Error::unconfigured("costs and abstain: config.flags has DPB_LEARN_CLIP"));
        }
        if let Some(examined) = request.examined {
            self.check_examined(examined, slots, catalog)?;
            if request.costs.is_some() || request.abstain {
                let rule = "must be 0 in a request with costs or abstain";
                return Err(Error::request("examined_len", rule, examined.len()));
            }
        }
        let Some(roster) = catalog.arms.filter(|_| slots == 1 || self.can.slots) else {
            return Err(Error::unsupported_number("slots", slots.into(), "it has one slot for each request"));
        };
        if request.abstain && slots > 1 {
            return Err(Error::request("slots", "must be 1 in a request with abstain", slots));
        }
        let (mut what, mut unit, mut sure) = ("the number of eligible arms", 1.0, None);
        if let Some((.., unconfigured)) = worths {
            if !self.listing.from_zero {
                return Err(Error::unconfigured(unconfigured));
            }
            (unit, sure) = self.listing.list_worths(request, roster)?;
            what = "the number of eligible arms of positive value";
        } else {
            self.listing.list(request.eligible, roster);
        }
        let at_most = |most: u64, what| Err(Error::request("slots", &format!("must be at most {most}, {what}"), slots));
        let (arms, most) = (self.listing.among.len() as u64 + u64::from(sure.is_some()), self.max_slots);
        if u64::from(slots) > arms {
            return at_most(arms, what);
        }
        if most > 0 && slots > most {
            return at_most(most.into(), "which is config.max_slots");
        }
        if most == 0 && slots > 1 && limits.counts_users {
            return at_most(1, "because config.expected_users is set and config.max_slots is 0");
        }
        if u64::from(slots) > limits.reach {
            return at_most(limits.reach, "the number of decisions that can be open");
        }
        Ok((unit, sure))
    }

    /// Checks the positions of a request.
    fn check_examined(&self, examined: &[f64], slots: u32, catalog: Catalog) -> Result<()> {
        if !self.can.examined {
            return Err(match catalog.segments {
                Some(_) => Error::unconfigured("examined: segments count rewards, not examinations"),
                None => Error::unsupported("examined: it counts rewards, not examinations"),
            });
        }
        if !self.listing.from_zero {
            return Err(Error::unconfigured("examined: config.reward_min is not 0"));
        }
        if examined.len() != slots as usize {
            let rule = format!("must be {slots}, the number of slots");
            return Err(Error::request("examined_len", &rule, examined.len()));
        }
        let least = 1.0 / EXAMINATION as f64;
        match examined.iter().find(|&e| !(least..=1.0).contains(e)) {
            Some(&wrong) => Err(Error::request("examined", "must be in [2^-16, 1]", wrong)),
            None => Ok(()),
        }
    }
}

/// Finds the segment with this key.
///
/// # Errors
/// `Full` if it is new, and there are as many as there may be.
fn find_segment(key: u64, catalog: Catalog) -> Result<Segment> {
    let Some((keys, most)) = catalog.segments else { return Ok(Segment::None) };
    match keys.find(key) {
        Some(segment) => Ok(Segment::Known(segment as u32)),
        None if keys.len() < most as usize => Ok(Segment::New(key)),
        None => {
            Err(Error::Full { what: "segment", number: key, limit: "all of config.max_segments", most: most.into() })
        }
    }
}

impl Offer<'_> {
    /// The arms that may still be chosen, each once: live ones, in the request's order, with values those of positive
    /// value. `None` if the request names no arms and no features, and [is plain](Self::is_plain): then all live arms may
    /// be.
    #[inline]
    pub fn among(&self) -> Option<&[u32]> {
        self.among.as_deref().map(Vec::as_slice)
    }

    /// The same, of a request that lists its arms.
    #[inline]
    pub fn arms(&self) -> &[u32] {
        self.among().unwrap_or(&[])
    }

    /// The same. A policy may change their order.
    pub fn listed_mut(&mut self) -> &mut [u32] {
        self.among.as_deref_mut().map_or(&mut [], Vec::as_mut_slice)
    }

    /// What an arm with this mean is worth: as much without values and costs.
    #[inline]
    pub fn worth(&self, arm: u32, mean: f64) -> f64 {
        self.worths.map_or(mean, |worths| worths.of(arm, mean))
    }

    /// The mean with which an arm is worth so much: see [`Worths::mean`].
    #[inline]
    pub fn mean(&self, arm: u32, worth: f64) -> f64 {
        self.worths.map_or(worth, |worths| worths.mean(arm, worth))
    }

    /// What no arm is worth less than.
    pub fn least_worth(&self) -> f64 {
        self.worths.map_or(0.0, |worths| worths.least())
    }

    /// What is sure, if it is worth at least as much as the best arm.
    #[inline]
    pub fn sure_above(&self, best: f64) -> Option<Sure> {
        self.sure.filter(|sure| sure.worth >= best)
    }

    /// The position of a listed arm in the request's list, or its number if all arms are listed.
    #[inline]
    pub fn position(&self, arm: u32) -> usize {
        if self.eligible.is_some() { self.listed[arm as usize].position as usize } else { arm as usize }
    }

    /// The position in the ring where the next choice will be stored.
    pub fn ring_position(&self) -> usize {
        ((self.next + self.choices.len() as u64) & (self.ring - 1)) as usize
    }

    /// Whether the request says how likely visitors examine its slots.
    pub fn has_positions(&self) -> bool {
        self.examined.is_some()
    }

    /// The choices so far.
    pub fn choices(&self) -> &[Choice] {
        self.choices
    }

    /// Whether there are slots without a choice.
    pub fn has_slots_left(&self) -> bool {
        self.choices.len() < self.slots as usize
    }

    /// Chooses no arm, which has this probability. The policy counts it as a decision that was cancelled.
    pub fn abstain(&mut self, propensity: f64) {
        self.choices.push(Choice::new(Pull::new(NO_ARM, 0, propensity), NO_ARM, f64::NAN));
    }

    /// Chooses an arm for the next slot. `score` is what the arm is worth by its mean: the best arms get the slots that
    /// most visitors examine. NaN for an arm without a mean, and if no slot is better than another. The last choice
    /// [assigns](Self::assign_slots) the slots.
    #[inline]
    pub fn choose(&mut self, pull: Pull, arm: u32, score: f64) {
        self.choices.push(Choice::new(pull, arm, score));
        if !self.is_plain {
            if let Some(among) = &mut self.among {
                among.retain(|&other| other != arm);
            }
            if !self.has_slots_left() {
                self.assign_slots();
            }
        }
    }

    /// Says that nothing is to be learned from the last choice.
    pub fn unlearn(&mut self) {
        if let Some(choice) = self.choices.last_mut() {
            choice.is_learned = false;
        }
    }

    /// Gives each choice its slot: at random, or by their scores, and says how much of an examination each slot lacks.
    #[inline(never)]
    fn assign_slots(&mut self) {
        let Offer { slots, choices, assigned, examined, coins: Some(coins), .. } = self else { return };
        assigned.extend(0..*slots);
        shuffle(assigned, coins);
        if let Some(examined) = *examined {
            // Arms without a mean come first, and keep slots at random.
            let score = |choice: &Choice| if choice.score.is_nan() { f64::INFINITY } else { choice.score };
            shuffle(choices, coins); // so that ties are at random
            choices.sort_unstable_by(|a, b| f64::total_cmp(&score(b), &score(a)));
            let known = choices.iter().filter(|choice| score(choice).is_finite()).count();
            assigned[..known].sort_unstable_by(|&a, &b| f64::total_cmp(&examined[a as usize], &examined[b as usize]));
        }
        assigned.reverse(); // the best choices get the slots at the end
        let Some(examined) = *examined else { return };
        for (choice, &slot) in choices.iter_mut().zip(&**assigned) {
            choice.unexamined = (EXAMINATION - (examined[slot as usize] * EXAMINATION as f64) as u64) as u16;
        }
    }
}

/// Every order has the same probability.
fn shuffle<T>(list: &mut [T], coins: &mut Random) {
    for left in (1..=list.len()).rev() {
        list.swap(coins.below(left as u64) as usize, left - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    impl Offers {
        /// Of a handle whose policy takes all requests.
        pub fn for_tests(config: &Config, arms: usize) -> Offers {
            let coins = Seed::new(Some([1; 32])).unwrap().stream();
            Offers::new(
                config,
                Abilities { slots: true, values: true, clips: false, examined: true, is_split: false },
                arms,
                Some(coins),
            )
            .unwrap()
        }
    }

    impl Limits {
        /// Of a handle without users, whose next decision has this number.
        pub fn for_tests(next: u64) -> Limits {
            Limits { is_ready: true, counts_users: false, next, ring: 256, reach: 256 }
        }
    }

    /// An arm that is listed twice counts once, at its first position, however long the list is.
    #[test]
    fn an_arm_that_is_listed_twice_counts_once() {
        let (mut offers, mut roster) = (Offers::for_tests(&Config::new(6, 1.0), 6), Roster::new(6).unwrap());
        roster.retire(2);
        let capacity = offers.listing.among.capacity();
        let mut listed = |eligible: Option<&[u32]>, slots: u32| {
            let request = Request { slots, eligible, ..Request::default() };
            let catalog = Catalog { arms: Some(&roster), segments: None };
            let offer = offers.check(&request, catalog, &Limits::for_tests(0)).unwrap();
            let arms = offer.among().unwrap_or(&[]).to_vec();
            let positions = arms.iter().map(|&arm| offer.position(arm)).collect::<Vec<_>>();
            assert_eq!(offers.listing.among.capacity(), capacity);
            (arms, positions)
        };
        for slots in [1, 3] {
            let twice = [[5u32, 0, 5, 4], [0, 1, 0, 0], [4, 5, 3, 3]].concat();
            assert_eq!(listed(Some(&twice), slots), (vec![5, 0, 4, 1, 3], vec![0, 1, 3, 5, 10]));
            assert_eq!(listed(Some(&[3, 1, 3, 4]), slots), (vec![3, 1, 4], vec![0, 1, 3]));
        }
        assert_eq!(listed(None, 1), (vec![], vec![]));
        assert_eq!(listed(None, 2), (vec![0, 1, 3, 4, 5], vec![0, 1, 3, 4, 5]));
    }
}
