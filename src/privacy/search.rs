//! Finds the smallest integer that meets a condition.

/// The smallest n in `low < n <= high` with `excess(n) <= 0`, where `low` is known not to meet this, and `high` to
/// meet it. If `excess` is not monotone, the result may not be the smallest, but it was computed to meet the
/// condition. A guarantee may rest only on that.
///
/// False position on the excess (the value at an end that stays twice is halved; Dowell and Jarratt 1971), with
/// bisection when that is slow. It takes about six calls if the excess is nearly linear, and at worst twice as many as
/// bisection.
fn least(low: (u64, f64), high: (u64, f64), excess: impl Fn(u64) -> f64) -> u64 {
    let ((mut low, mut above), (mut high, mut below)) = (low, high);
    let (mut halve, mut was_low) = (false, None);
    while high - low > 1 {
        let span = high - low;
        let part = above / (above - below);
        let guess = if halve || part.is_nan() { span / 2 } else { (span as f64 * part).ceil() as u64 };
        let middle = low + guess.clamp(1, span - 1);
        let value = excess(middle);
        let is_low = value > 0.0;
        let half = if was_low == Some(is_low) { 0.5 } else { 1.0 };
        if is_low {
            (low, above, below) = (middle, value, half * below);
        } else {
            (high, below, above) = (middle, value, half * above);
        }
        (halve, was_low) = (high - low > span / 2 && !halve, Some(is_low));
    }
    high
}

/// The same from a guess, where 0 is known not to meet the condition and `most` is assumed to meet it. Steps that grow
/// fourfold find the other end.
pub fn least_near(guess: u64, most: u64, excess: impl Fn(u64) -> f64) -> u64 {
    let guess = guess.clamp(1, most);
    let mut near = (guess, excess(guess));
    let up = near.1 > 0.0;
    let mut step = (guess >> 10).max(1);
    loop {
        let n = if up { most.min(near.0 + step) } else { near.0.saturating_sub(step) };
        let far = (n, excess(n));
        if up && (far.1 <= 0.0 || n == most) {
            return least(near, far, excess);
        } else if !up && (far.1 > 0.0 || n == 0) {
            return least(far, near, excess);
        }
        (near, step) = (far, 4 * step);
    }
}

/// The smallest n in `low < n <= high` that meets a condition which `low` does not meet, and `high` and what is above
/// such a number do, by bisection.
pub fn first(mut low: u64, mut high: u64, meets: impl Fn(u64) -> bool) -> u64 {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn finds_the_edge_in_a_few_calls() {
        type Curve = fn(f64) -> f64;
        // From the whole range, and from a guess that is off by a percent.
        let curves: [(Curve, u32, u32); 6] = [
            (|x| x, 8, 8),
            (|x| x + 1e-10 * x * x.abs(), 24, 10),
            (|x| (x / 1e9).exp_m1(), 40, 10),
            (|x| x.signum(), 64, 30),
            (|x| (x / 1e9).powi(21), 64, 50),
            (|x| if x > 0.0 { f64::INFINITY } else { -1.0 }, 64, 30),
        ];
        for (curve, most, near) in curves {
            for edge in [1u64, 2, 1000, 123_456_789, (1 << 32) - 1] {
                let calls = Cell::new(0);
                let excess = |n: u64| {
                    calls.set(calls.get() + 1);
                    curve(edge as f64 - 0.5 - n as f64)
                };
                let (low, high) = ((0, curve(edge as f64 - 0.5)), (1 << 32, curve(edge as f64 - 0.5 - 2f64.powi(32))));
                assert_eq!(least(low, high, excess), edge);
                assert!(calls.get() <= most, "{edge}: {} of {most}", calls.get());
                for guess in [0, 1, edge - 1, edge, edge + edge / 100, u64::MAX] {
                    assert_eq!(least_near(guess, 1 << 32, excess), edge);
                }
                calls.set(0);
                least_near(edge - edge / 100, 1 << 32, excess);
                assert!(calls.get() <= near, "{edge}: {} of {near}", calls.get());
            }
        }
    }

    #[test]
    fn an_excess_of_nothing_will_do() {
        for edge in [1u64, 1000, 123_456_789] {
            for guess in edge.saturating_sub(3)..edge + 3 {
                assert_eq!(least_near(guess, 1 << 32, |n| edge as f64 - n as f64), edge, "{guess}");
            }
        }
    }
}
