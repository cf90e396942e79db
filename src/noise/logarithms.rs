//! Reciprocals and their logarithms, computed by the compiler.

/// For the interval about c = (2i + 513)/512: 1/c and ln c, in units of 2^-64, the first rounded down, and
/// the logarithm, rounded down, that of the rounded reciprocal.
pub static LOGARITHMS: [[u64; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut log = twice_atanh(1025); // ln(513/512), in units of 2^-120, as all logarithms here
    let mut i = 0;
    while i < table.len() {
        let c = 2 * i as u128 + 513;
        let (reciprocal, rest) = ((1 << 73) / c, (1 << 73) % c);
        // The logarithm of 1 - rest 2^-73, which rounding takes from the reciprocal, is -rest 2^-73 up to 2^-127.
        table[i] = [reciprocal as u64, ((log + (rest << 47)) >> 56) as u64];
        log += twice_atanh(c + 1);
        i += 1;
    }
    table
};

/// 2 atanh(1/n), which is ln((n + 1)/(n - 1)), less a few units.
const fn twice_atanh(n: u128) -> u128 {
    let (mut power, mut odd, mut sum) = ((1 << 121) / n, 1, 0);
    while power > 0 {
        sum += power / odd;
        power /= n * n;
        odd += 2;
    }
    sum
}
