//! Tickets: a decision's number, sealed so that handles cannot be confused and nobody can guess.

use crate::random::Random;

/// A ticket is 16 bits of node name and a keyed permutation of the 48-bit decision number, so a
/// ticket names its decision without a table, and a foreign one opens to a number that was never
/// issued (or, with chance `decisions / 2^48`, to one long expired).
///
/// The key always comes from the operating system, even under a test seed: two handles with one
/// seed must still refuse each other's tickets.
pub struct TicketKey {
    node: u16,
    rounds: [u64; 4],
}

const HALF: u32 = 24;
const HALF_MASK: u64 = (1 << HALF) - 1;

impl TicketKey {
    /// A fresh key for the node with this name: 0 = a random one; one of 16 bits is the ticket's own, and
    /// a longer one is mixed.
    pub fn new(node: u64, random: &mut Random) -> TicketKey {
        let node = match node {
            0 => random.next_u64() as u16,
            1..=0xffff => node as u16,
            name => (mix(name, 0x9e37_79b9_7f4a_7c15) >> 8) as u16,
        };
        TicketKey { node, rounds: std::array::from_fn(|_| random.next_u64()) }
    }

    /// The ticket of a decision: a four-round Feistel network (Luby and Rackoff 1988).
    #[inline]
    pub fn seal(&self, sequence: u64) -> u64 {
        let (mut left, mut right) = (sequence >> HALF & HALF_MASK, sequence & HALF_MASK);
        for key in self.rounds {
            (left, right) = (right, left ^ mix(right, key) & HALF_MASK);
        }
        (u64::from(self.node) << 48) + (left << HALF) + right
    }

    /// The decision of a ticket, if its node is ours.
    #[inline]
    pub fn open(&self, ticket: u64) -> Option<u64> {
        if ticket >> 48 != u64::from(self.node) {
            return None;
        }
        let (mut left, mut right) = (ticket >> HALF & HALF_MASK, ticket & HALF_MASK);
        for key in self.rounds.iter().rev() {
            (left, right) = (right ^ mix(left, *key) & HALF_MASK, left);
        }
        Some((left << HALF) + right)
    }
}

/// A keyed 64-bit mixer: both halves of a 128-bit product, folded.
#[inline]
fn mix(x: u64, key: u64) -> u64 {
    let product = u128::from(x ^ key) * u128::from(key.rotate_left(32) | 1);
    let folded = (product >> 64) as u64 ^ product as u64;
    folded ^ folded >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn opens_what_it_sealed_and_nothing_of_others() {
        let mut random = Seed::new(Some([1; 32])).unwrap().stream();
        let (ours, theirs) = (TicketKey::new(0, &mut random), TicketKey::new(0, &mut random));
        let same_node = TicketKey { node: ours.node, ..TicketKey::new(0, &mut random) };
        for sequence in (0..100_000).chain([HALF_MASK, HALF_MASK + 1, (1 << 48) - 1]) {
            assert_eq!(ours.open(ours.seal(sequence)), Some(sequence));
            assert_eq!(ours.open(theirs.seal(sequence)), None);
            assert!(ours.open(same_node.seal(sequence)).unwrap() > 1_000_000 || sequence == 0);
        }
    }

    /// From one decision to the next each bit but the node's turns half of the time: 4096 times of 8192,
    /// and within 300 of it (6.6 deviations) for every bit with chance 1 - 2e-9 if tickets were random.
    #[test]
    fn tickets_look_random() {
        let mut random = Seed::new(Some([3; 32])).unwrap().stream();
        let key = TicketKey::new(0, &mut random);
        let turned = |bit: u32| (0..8192).filter(|&n| (key.seal(n) ^ key.seal(n + 1)) >> bit & 1 == 1).count();
        let counts: Vec<_> = (0..48).map(turned).collect();
        assert!(counts.iter().all(|count| count.abs_diff(4096) < 300), "{counts:?}");
    }

    #[test]
    fn the_node_names_the_ticket() {
        let mut random = Seed::new(Some([2; 32])).unwrap().stream();
        let (a, b) = (TicketKey::new(77, &mut random), TicketKey::new(77, &mut random));
        assert_eq!(a.seal(5) >> 48, b.seal(9) >> 48);
        assert_ne!(a.seal(5), b.seal(5));
        for node in [1, 77, 0xfffe, 0xffff] {
            assert_eq!(TicketKey::new(node, &mut random).seal(5) >> 48, node);
        }
        let [a, b] = [0x1_0000, 0x2_0000].map(|name| TicketKey::new(name, &mut random).seal(5) >> 48);
        assert_ne!(a, b);
    }
}
