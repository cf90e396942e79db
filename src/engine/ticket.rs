//! Tickets: a decision's number, sealed so that handles cannot be confused and nobody can guess.

use crate::random::Random;

/// A ticket is 16 bits of node name and 48 of a keyed permutation of the decision's number, so a
/// foreign one opens to a number that was never issued (or, with chance `decisions / 2^48`, to one
/// long expired), and a late one is known as late for ever.
///
/// The number is a slot of the ring, its low bits, and a lap. The lap is permuted under the slot (a
/// Feistel network of four rounds, Luby and Rackoff 1988): that is the *tag*. A keyed digest of it masks the
/// slot, and the slot remembers another part of that. So an answer finds its slot in one step and compares; only
/// a ticket that is refused is opened altogether. Neither part tells how many decisions there were.
///
/// A guess hits one of `n` open decisions with chance `n / 2^48`; who knows how slots are masked needs
/// the tag alone, `slots / 2^48`, or the 32 bits of its keyed digest that a slot has. That is 2^-32 for rings
/// of up to 2^16 slots (4096 by default), 2^-30 at 2^18, 2^-24 at the largest, 2^24.
///
/// The key always comes from the operating system, even under a test seed: two handles with one
/// seed must still refuse each other's tickets.
///
/// # What it must resist
///
/// The adversary holds any number of tickets, knows roughly which decision each of them belongs to, and may hand in
/// whatever it likes. It must not
/// - name an open decision whose ticket it does not hold, except by the chances above;
/// - name a decision of another handle, or of an earlier life of this one, by a ticket of its own;
/// - get a second name for a decision by changing a ticket.
///
/// # What it need not resist
///
/// - *Privacy does not rest on it.* A forged ticket is one reward for one decision, and each decision takes one reward
///   at most. So a forger spoils learning, as anybody does who clicks, and takes nobody's reward twice.
/// - The adversary cannot choose which numbers are sealed: they count up by one.
/// - The key is in the handle. Whoever reads its memory reads raw rewards, too.
/// - A ticket hides the number of decisions so that it is not on every link; the number itself is public.
/// - It is no signature of the visitor's link. A service whose visitors gain by forged clicks signs its links with a key
///   of its own, as `examples/cpp/bidder.cpp` does.
///
/// # Why not SipHash
///
/// The network is Luby and Rackoff's; its round function, a folded 128-bit product with two secret keys, is ours, quick,
/// and nobody has proved it pseudorandom. SipHash-1-3 would be the standard choice, if it cost no more than a tenth of a
/// decision. Callgrind counts 541 instructions for `dpb_select` and `dpb_update` of DP-IMED with 10 arms, 100 of them for the
/// ticket: 83 to seal it and 16 to find its slot. One SipHash-1-3 of one word is 83 instructions, one after the other, and
/// some 70 ns where a decision is 300 ns. The network needs six of them, 500 instructions: a decision would take twice as
/// long. With one alone, as a tag that the slot remembers, a ticket could not be opened again, so that a late
/// one would be unknown; and it would still cost more than a tenth.
pub struct TicketKey {
    keys: [u64; ROUNDS + 2],
    /// Bits of a slot.
    bits: u8,
    /// The name.
    node: u16,
}

const BITS: u32 = 48;
const ROUNDS: usize = 4;

/// Where an answer to a ticket should be: the slot, and the tag's digest that is there if it is.
pub struct Place {
    pub slot: usize,
    pub tag: u32,
}

impl TicketKey {
    /// A fresh key for a ring of `2^bits` slots, at most 2^24, and the node with this name: 0 = a
    /// random one; one of 16 bits is the ticket's own, and a longer one is mixed.
    pub fn new(node: u64, bits: u32, random: &mut Random) -> TicketKey {
        let node = match node {
            0 => random.next_u64() as u16,
            1..=0xffff => node as u16,
            name => (fold(name ^ 0x9e37_79b9_7f4a_7c15, 0x7f4a_7c15_9e37_79b9) >> 8) as u16,
        };
        let keys = std::array::from_fn(|_| random.next_u64());
        TicketKey { keys, bits: bits as u8, node }
    }

    /// As many ones as a slot has bits.
    #[inline]
    fn slots(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Bits of a tag's lower half, and as many ones as that and the upper half have.
    #[inline]
    fn halves(&self) -> (u32, u64, u64) {
        let bits = BITS - u32::from(self.bits);
        let half = bits / 2;
        (half, (1 << half) - 1, (1 << (bits - half)) - 1)
    }

    /// The ticket of a decision, and where it belongs.
    #[inline]
    pub fn seal(&self, sequence: u64) -> (u64, Place) {
        let slot = sequence & self.slots();
        let tag = self.permute(sequence >> self.bits, slot);
        let (mask, digest) = self.digest(tag);
        (u64::from(self.node) << BITS | tag << self.bits | slot ^ mask, Place { slot: slot as usize, tag: digest })
    }

    /// Where an answer to this ticket would be, if it is ours and its decision is not long past.
    #[inline]
    pub fn place(&self, ticket: u64) -> Option<Place> {
        let (_, slot, digest) = self.parts(ticket)?;
        Some(Place { slot: slot as usize, tag: digest })
    }

    /// The decision of a ticket, if its node is ours.
    pub fn open(&self, ticket: u64) -> Option<u64> {
        let (tag, slot, _) = self.parts(ticket)?;
        Some(self.restore(tag, slot) << self.bits | slot)
    }

    /// Tag, slot and digest.
    #[inline]
    fn parts(&self, ticket: u64) -> Option<(u64, u64, u32)> {
        let inner = ticket & ((1 << BITS) - 1);
        let tag = inner >> self.bits;
        let (mask, digest) = self.digest(tag);
        let ours = (ticket >> BITS) as u16 == self.node;
        ours.then_some((tag, (inner & self.slots()) ^ mask, digest))
    }

    /// The tag of a lap.
    #[inline]
    fn permute(&self, lap: u64, slot: u64) -> u64 {
        let (half, lows, highs) = self.halves();
        let (mut high, mut low) = (lap >> half, lap & lows);
        low ^= self.mix(0, slot << 24 | high) & lows;
        high ^= self.mix(1, slot << 24 | low) & highs;
        low ^= self.mix(2, slot << 24 | high) & lows;
        high ^= self.mix(3, slot << 24 | low) & highs;
        high << half | low
    }

    /// The lap of a tag: the same backwards.
    fn restore(&self, tag: u64, slot: u64) -> u64 {
        let (half, lows, highs) = self.halves();
        let (mut high, mut low) = (tag >> half, tag & lows);
        high ^= self.mix(3, slot << 24 | low) & highs;
        low ^= self.mix(2, slot << 24 | high) & lows;
        high ^= self.mix(1, slot << 24 | low) & highs;
        low ^= self.mix(0, slot << 24 | high) & lows;
        high << half | low
    }

    /// What masks the slot, and what the slot remembers: of every bit of the tag, so that one altered where it
    /// is forgotten is not another name of its decision.
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

/// Both halves of a 128-bit product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

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
                // Chance 180,000 2^20 / 2^48 of one that is not.
                assert!(ours.open(same_node.seal(sequence).0).unwrap() > 1 << 20);
            }
        }
    }

    /// No two decisions share a ticket, and none of a slot its tag with an earlier one, up to chance
    /// 20,000^2/2^33 < 0.05 for the 32 bits of the smallest ring, at this seed.
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

    /// From one decision to the next each bit but the node's turns half of the time: 4096 times of 8192,
    /// and within 300 of it (6.6 deviations) for every bit with chance 1 - 1e-8 if tickets were random;
    /// and so it is from one lap of a slot to the next.
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

    /// Who has seen a slot's ticket, or its neighbour's, and changes any two bits of it has none of ours.
    #[test]
    fn a_ticket_is_not_another_one_with_bits_changed() {
        for bits in [0, 1, 3, 12, 17] {
            let key = TicketKey::new(9, bits, &mut random(5));
            for sequence in 10_000..10_050 {
                let (ticket, Place { slot, tag }) = key.seal(sequence);
                for (i, j) in (0..BITS).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    for changed in [ticket ^ 1 << i, ticket ^ 1 << i ^ 1 << j] {
                        // Chance 5.7e5 * 20,000 / 2^48 of one that is.
                        assert!(key.open(changed).unwrap() > 20_000);
                        // Nor does the slot take it for its own, whatever it has forgotten.
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
