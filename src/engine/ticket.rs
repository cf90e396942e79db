//! Tickets: a decision's number, sealed so that handles cannot be confused and nobody can guess.

use crate::moving::persist;
use crate::random::Random;

/// A ticket is 16 bits of node name and 48 bits of a keyed permutation of the decision's number. So the ticket of
/// another handle opens to a number that was never issued (or, with probability `decisions / 2^48`, to one long
/// expired), and a late ticket is always recognised as late.
///
/// The number consists of a slot of the ring, its low bits, and a lap. The lap is permuted under the slot (a Feistel
/// network of four rounds, Luby and Rackoff 1988): the result is the *tag*. A keyed digest of the tag masks the slot,
/// and the slot stores another part of the digest. So a reward finds its slot in one step and compares; only a refused
/// ticket is opened completely. Neither part reveals how many decisions there were.
///
/// A guess hits one of `n` open decisions with probability `n / 2^48`. An adversary who knows how slots are masked
/// needs only the tag, `slots / 2^48`, or the 32 bits of its keyed digest that a slot stores. That is 2^-32 for rings
/// of up to 2^16 slots (4096 by default), 2^-30 at 2^18, and 2^-24 at the largest, 2^24.
///
/// The key always comes from the operating system, even with a test seed: two handles with one seed must still refuse
/// each other's tickets.
///
/// # What it must resist
///
/// The adversary holds any number of tickets, knows roughly which decision each of them belongs to, and may submit
/// anything. It must not
/// - name an open decision whose ticket it does not hold, except with the probabilities above;
/// - name a decision of another handle, or of an earlier generation of this one, by a ticket of its own;
/// - get a second name for a decision by changing a ticket.
///
/// # What it need not resist
///
/// - *Privacy does not depend on it.* A forged ticket is one reward for one decision, and each decision takes at most
///   one reward. So a forger harms learning, as anybody does who clicks, and no reward counts twice.
/// - The adversary cannot choose which numbers are sealed: they count up by one.
/// - The key is in the handle. An adversary who reads its memory reads raw rewards, too.
/// - A ticket hides the number of decisions so that it is not on every link; the number itself is public.
/// - It is not a signature of the visitor's link. A service whose visitors gain by forged clicks signs its links with a
///   key of its own, as `examples/cpp/bidder.cpp` does.
///
/// # Why not SipHash
///
/// The network is Luby and Rackoff's. Its round function, a folded 128-bit product with two secret keys, is our own: it
/// is fast, and nobody has proved it pseudorandom. SipHash-1-3 would be the standard choice, if it cost no more than a
/// tenth of a decision. Callgrind counts 395 instructions for `dpb_select` and `dpb_update` of DP-IMED with 10 arms,
/// 80 of them for the ticket: 64 to seal it and 16 to find its slot. One SipHash-1-3 of one word takes 83
/// instructions, one after the other, and some 70 ns where a decision takes 300 ns. The network needs six of them, 500
/// instructions: a decision would take twice as long. With only one, as a tag that the slot stores, a ticket could not
/// be opened again, so a late ticket would be unknown; and it would still cost more than a tenth.
pub struct TicketKey {
    keys: [u64; ROUNDS + 2],
    /// Masks of a slot, and of a tag's lower and upper half.
    slots: u32,
    lows: u32,
    highs: u32,
    /// The node's name, in 16 bits.
    node: u16,
    /// Number of bits of a slot.
    bits: u8,
    /// Number of bits of a tag's lower half. The upper half has as many, or one more.
    half: u8,
}

const BITS: u32 = 48;
const ROUNDS: usize = 4;

/// The slot where a ticket's decision would be, and the digest of its tag that the slot then stores.
pub struct SlotRef {
    pub slot: usize,
    pub tag: u32,
}

impl TicketKey {
    /// Returns a new key for a ring of `2^bits` slots, at most 2^24, and the node with this name. 0 means a random
    /// name. A name of 16 bits is used as it is, and a longer one is hashed to 16 bits.
    pub fn new(node: u64, bits: u32, random: &mut Random) -> TicketKey {
        let node = match node {
            0 => random.next_u64() as u16,
            1..=0xffff => node as u16,
            name => (fold(name ^ 0x9e37_79b9_7f4a_7c15, 0x7f4a_7c15_9e37_79b9) >> 8) as u16,
        };
        let keys = std::array::from_fn(|_| random.next_u64());
        let half = (BITS - bits) / 2;
        let [slots, lows, highs] = [bits, half, BITS - bits - half].map(|ones| (1 << ones) - 1);
        TicketKey { keys, slots, lows, highs, node, bits: bits as u8, half: half as u8 }
    }

    /// The node's name.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Returns a mask with as many ones as a slot has bits.
    #[inline]
    fn slots(&self) -> u64 {
        self.slots.into()
    }

    /// Returns masks of a tag's lower and upper half.
    #[inline]
    fn halves(&self) -> (u64, u64) {
        (self.lows.into(), self.highs.into())
    }

    /// Returns the ticket of a decision, and its place.
    #[inline]
    pub fn seal(&self, sequence: u64) -> (u64, SlotRef) {
        let slot = sequence & self.slots();
        let tag = self.permute(sequence >> self.bits, slot);
        let (mask, digest) = self.digest(tag);
        (u64::from(self.node) << BITS | tag << self.bits | slot ^ mask, SlotRef { slot: slot as usize, tag: digest })
    }

    /// Returns where this ticket's decision is, if the ticket is this handle's and its decision is not long past.
    #[inline]
    pub fn place(&self, ticket: u64) -> Option<SlotRef> {
        let (_, slot, digest) = self.parts(ticket)?;
        Some(SlotRef { slot: slot as usize, tag: digest })
    }

    /// Returns the decision of a ticket, if its node is this handle's.
    pub fn open(&self, ticket: u64) -> Option<u64> {
        let (tag, slot, _) = self.parts(ticket)?;
        Some(self.restore(tag, slot) << self.bits | slot)
    }

    /// Returns tag, slot and digest.
    #[inline]
    fn parts(&self, ticket: u64) -> Option<(u64, u64, u32)> {
        let inner = ticket & ((1 << BITS) - 1);
        let tag = inner >> self.bits;
        let (mask, digest) = self.digest(tag);
        let ours = (ticket >> BITS) as u16 == self.node;
        ours.then_some((tag, (inner & self.slots()) ^ mask, digest))
    }

    /// Returns the tag of a lap.
    #[inline]
    fn permute(&self, lap: u64, slot: u64) -> u64 {
        let (lows, highs) = self.halves();
        let (mut high, mut low) = (lap >> self.half, lap & lows);
        low ^= self.mix(0, slot << 24 | high) & lows;
        high ^= self.mix(1, slot << 24 | low) & highs;
        low ^= self.mix(2, slot << 24 | high) & lows;
        high ^= self.mix(3, slot << 24 | low) & highs;
        high << self.half | low
    }

    /// Returns the lap of a tag, the inverse of the permutation.
    fn restore(&self, tag: u64, slot: u64) -> u64 {
        let (lows, highs) = self.halves();
        let (mut high, mut low) = (tag >> self.half, tag & lows);
        high ^= self.mix(3, slot << 24 | low) & highs;
        low ^= self.mix(2, slot << 24 | high) & lows;
        high ^= self.mix(1, slot << 24 | low) & highs;
        low ^= self.mix(0, slot << 24 | high) & lows;
        high << self.half | low
    }

    /// Returns the mask of the slot, and the part that the slot stores. Both depend on every bit of the tag, so a tag
    /// altered in the bits that are not stored is not another name of its decision.
    #[inline]
    fn digest(&self, tag: u64) -> (u64, u32) {
        let mixed = self.mix(ROUNDS, tag);
        (mixed & self.slots(), (mixed >> 32) as u32)
    }

    #[inline]
    fn mix(&self, round: usize, x: u64) -> u64 {
        fold(x ^ self.keys[round], x ^ self.keys[ROUNDS + 1])
    }
}

/// Folds both halves of a 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

// The node is random where the configuration has none.
persist!(TicketKey { keys, node } made { slots, lows, highs, bits, half });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn random(seed: u8) -> Random {
        Seed::new(Some([seed; 32])).unwrap().stream()
    }

    #[test]
    fn opens_what_it_sealed_and_nothing_of_others() {
        let mut random = random(1);
        for bits in [0, 1, 2, 6, 11, 12, 16, 23, 24] {
            let (ours, theirs) = (TicketKey::new(0, bits, &mut random), TicketKey::new(0, bits, &mut random));
            let same_node = TicketKey { node: ours.node, ..TicketKey::new(0, bits, &mut random) };
            let far = [1 << 24, (1 << 40) + 77, (1 << 48) - 1];
            for sequence in (0..20_000).chain(far) {
                let (ticket, place) = ours.seal(sequence);
                assert_eq!(ours.open(ticket), Some(sequence));
                assert_eq!(place.slot as u64, sequence & ((1 << bits) - 1));
                let found = ours.place(ticket).unwrap();
                assert_eq!((found.slot, found.tag), (place.slot, place.tag));
                let foreign = theirs.seal(sequence).0;
                assert!(ours.open(foreign).is_none() && ours.place(foreign).is_none());
                // Holds for a foreign ticket but with probability 180,000 2^20 / 2^48.
                assert!(ours.open(same_node.seal(sequence).0).unwrap() > 1 << 20);
            }
        }
    }

    /// No two decisions share a ticket, and no two decisions of a slot share a tag, up to probability 20,000^2/2^33 <
    /// 0.05 for the 32 bits of the smallest ring, at this seed.
    #[test]
    fn a_slot_never_sees_a_tag_again() {
        for bits in [0, 12, 24] {
            let key = TicketKey::new(0, bits, &mut random(4));
            let mut tags: Vec<u32> =
                (0..20_000).map(|lap| key.seal(lap << bits | 5 & ((1 << bits) - 1)).1.tag).collect();
            tags.sort_unstable();
            tags.dedup();
            assert_eq!(tags.len(), 20_000);
        }
    }

    /// From one decision to the next each bit except the node's changes half of the time: 4096 times of 8192, and
    /// within 300 of it (6.6 standard deviations) for every bit with probability 1 - 1e-8 if tickets were random. The
    /// same holds from one lap of a slot to the next.
    #[test]
    fn tickets_look_random() {
        for bits in [0, 1, 6, 12, 17, 24] {
            let key = TicketKey::new(0, bits, &mut random(3));
            for step in [1, 1 << bits] {
                let turned = |bit: u32| {
                    let turns = |n: u64| (key.seal(n * step).0 ^ key.seal((n + 1) * step).0) >> bit & 1;
                    (0..8192).map(turns).sum::<u64>()
                };
                let counts: Vec<_> = (0..BITS).map(turned).collect();
                assert!(counts.iter().all(|count| count.abs_diff(4096) < 300), "{bits} {step}: {counts:?}");
            }
        }
    }

    /// No change of any two bits of a slot's ticket, or its neighbour's, gives a valid ticket.
    #[test]
    fn a_ticket_is_not_another_one_with_bits_changed() {
        for bits in [0, 1, 3, 12, 17] {
            let key = TicketKey::new(9, bits, &mut random(5));
            for sequence in 10_000..10_050 {
                let (ticket, SlotRef { slot, tag }) = key.seal(sequence);
                for (i, j) in (0..BITS).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    for changed in [ticket ^ 1 << i, ticket ^ 1 << i ^ 1 << j] {
                        // Holds but with probability 5.7e5 * 20,000 / 2^48.
                        assert!(key.open(changed).unwrap() > 20_000);
                        // Nor does the slot accept it, whatever part of the tag it does not store.
                        let found = key.place(changed).unwrap();
                        assert!((found.slot, found.tag) != (slot, tag), "{bits}: {i} {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_node_names_the_ticket() {
        let mut random = random(2);
        let (a, b) = (TicketKey::new(77, 12, &mut random), TicketKey::new(77, 12, &mut random));
        assert_eq!(a.seal(5).0 >> 48, b.seal(9).0 >> 48);
        assert_ne!(a.seal(5).0, b.seal(5).0);
        for node in [1, 77, 0xfffe, 0xffff] {
            assert_eq!(TicketKey::new(node, 12, &mut random).seal(5).0 >> 48, node);
        }
        let [a, b] = [0x1_0000, 0x2_0000].map(|name| TicketKey::new(name, 12, &mut random).seal(5).0 >> 48);
        assert_ne!(a, b);
    }
}
