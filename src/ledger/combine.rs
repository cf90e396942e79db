//! Contributing open sums to a leader, and adding them up there: see [`crate::contribution`]. One implementation for all
//! kinds of sums.

use super::facts::{Duty, Facts};
use crate::error::Result;
use crate::memory::try_with_capacity;
use crate::snapshot::{Reader, Writer};

/// A policy whose open sums the leader of a fleet can release.
pub(crate) trait Combining {
    /// Takes up a duty. Open sums stay.
    fn set_duty(&mut self, duty: Duty);

    /// Sets the number of handles that share each batch, this one included, from the next batch on. 0: it is that of the
    /// handles whose snapshots were merged lately.
    fn set_handles(&mut self, handles: u32);

    /// Whether any open batch has rewards.
    fn has_open(&self) -> bool;

    /// Writes the sums of all open batches, without noise, for [`combine`](Self::combine). `id` names an arm.
    fn save_open(&self, to: &mut Writer, id: &dyn Fn(u32) -> u64);

    /// Drops the sums of all open batches, which were contributed.
    fn clear_open(&mut self);

    /// Adds what another handle's [`save_open`](Self::save_open) wrote, and releases batches that are full. `arm` finds
    /// an arm by its id. Returns whether everything was added.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`: nothing has changed.
    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool>;
}

/// A policy's open sums, each at a place.
pub(crate) trait OpenSums {
    /// What another handle contributes to one sum, and to which.
    type Part;
    /// The fewest bytes of a part.
    const SHORTEST: usize;

    fn facts(&mut self) -> &mut Facts;

    /// As [`Combining::set_handles`].
    fn set_handles(&mut self, handles: u32);

    /// Number of open sums, those without rewards included.
    fn places(&self) -> usize;

    fn is_empty(&self, place: usize) -> bool;

    /// Writes a sum, and whose it is.
    fn write(&self, place: usize, to: &mut Writer, id: &dyn Fn(u32) -> u64);

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// `Corrupt`, `NoMemory`.
    fn read(&self, from: &mut Reader) -> Result<Self::Part>;

    /// Adds a part to its sum, which is released if that fills its batch. Returns false if this handle has no such sum.
    fn add(&mut self, part: &Self::Part, arm: &dyn Fn(u64) -> Option<u32>) -> bool;

    /// Drops a sum.
    fn clear(&mut self, place: usize);

    /// All sums were dropped.
    fn emptied(&mut self) {}

    /// All parts of a contribution were added.
    fn combined(&mut self) {}

    /// The duty has changed: sizes of open batches are others now.
    fn duty_changed(&mut self);
}

impl<S: OpenSums> Combining for S {
    fn set_duty(&mut self, duty: Duty) {
        self.facts().set_duty(duty);
        self.duty_changed();
    }

    fn set_handles(&mut self, handles: u32) {
        OpenSums::set_handles(self, handles);
    }

    fn has_open(&self) -> bool {
        (0..self.places()).any(|place| !self.is_empty(place))
    }

    fn save_open(&self, to: &mut Writer, id: &dyn Fn(u32) -> u64) {
        let open = || (0..self.places()).filter(|&place| !self.is_empty(place));
        to.u32(open().count() as u32);
        open().for_each(|place| self.write(place, to, id));
    }

    fn clear_open(&mut self) {
        self.facts().assume_releases();
        (0..self.places()).for_each(|place| self.clear(place));
        self.emptied();
    }

    fn combine(&mut self, from: &mut Reader, arm: &dyn Fn(u64) -> Option<u32>) -> Result<bool> {
        let length = from.length(S::SHORTEST)?;
        let mut parts = try_with_capacity(length)?;
        for _ in 0..length {
            parts.push(self.read(from)?);
        }
        from.finish()?;
        let mut complete = true;
        parts.iter().for_each(|part| complete &= self.add(part, arm));
        self.combined();
        Ok(complete)
    }
}
