//! SHA-256 (FIPS 180-4), of which a table's decisions are made. It guards no secret: every program must only agree on it.

const WORDS: usize = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const CONSTANTS: [u32; WORDS] = roots::<WORDS>(true);

/// The same of the square roots of the first 8 primes.
const START: [u32; 8] = roots::<8>(false);

const fn roots<const N: usize>(cube: bool) -> [u32; N] {
    let (mut found, mut n, mut number) = ([0; N], 0, 2u128);
    while n < N {
        let mut divisor = 2;
        while number % divisor > 0 {
            divisor += 1;
        }
        if divisor == number {
            // The largest 40-bit r with r^2 <= p 2^64, or r^3 <= p 2^96: the root times 2^32, rounded down.
            let (mut root, mut bit) = (0u128, 1u128 << 40);
            while bit > 0 {
                let next = root | bit;
                let fits = if cube { next * next * next <= number << 96 } else { next * next <= number << 64 };
                if fits {
                    root = next;
                }
                bit >>= 1;
            }
            found[n] = root as u32;
            n += 1;
        }
        number += 1;
    }
    found
}

/// The first 64 bits of the hash of these parts, one after the other.
pub(crate) fn first_word(parts: &[&[u8]]) -> u64 {
    let [high, low, ..] = sha256(parts);
    u64::from(high) << 32 | u64::from(low)
}

fn sha256(parts: &[&[u8]]) -> [u32; 8] {
    let length = parts.iter().map(|part| part.len() as u64).sum::<u64>();
    let zeros = (119 - length % 64) % 64;
    let padding = std::iter::once(0x80).chain((0..zeros).map(|_| 0)).chain((8 * length).to_be_bytes());
    let mut bytes = parts.iter().copied().flatten().copied().chain(padding).peekable();
    let (mut state, mut block) = (START, [0; WORDS]);
    while bytes.peek().is_some() {
        for word in &mut block[..16] {
            *word = (0..4).fold(0, |word, _| word << 8 | u32::from(bytes.next().unwrap_or(0)));
        }
        compress(&mut state, &mut block);
    }
    state
}

fn compress(state: &mut [u32; 8], w: &mut [u32; WORDS]) {
    for t in 16..WORDS {
        let low = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ w[t - 15] >> 3;
        let high = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16].wrapping_add(low).wrapping_add(w[t - 7]).wrapping_add(high);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in w.iter().zip(CONSTANTS) {
        let turned = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let chosen = e & f ^ !e & g;
        let first = h.wrapping_add(turned).wrapping_add(chosen).wrapping_add(constant).wrapping_add(*word);
        let turned = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let most = a & b ^ a & c ^ b & c;
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(turned).wrapping_add(most));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(parts: &[&[u8]]) -> String {
        sha256(parts).map(|word| format!("{word:08x}")).concat()
    }

    /// The examples of the standard's appendix; and the padding at each length around a block, against Python's hashlib.
    #[test]
    fn agrees_with_the_standard() {
        assert_eq!(hex(&[b"abc"]), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&[b"a", b"", b"bc"]), hex(&[b"abc"]));
        assert_eq!(hex(&[]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&[long]), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        let each = (0..200).map(|n| hex(&[&vec![b'a'; n]])).collect::<String>();
        assert_eq!(hex(&[each.as_bytes()]), "019f2b9f1af27a53a1f046da7e98af2c179f431e4b5bebb000e74040917a4123");
    }
}
