//! An arm's index at any point, by a few points at which it was computed.

/// An index as a function of the distance from the arm's mean. Values differ from request to request, and so does the
/// point at which an arm is compared; to compute D at each of them would take microseconds for each arm. So the index is
/// computed at points of equal distance, when a request first needs them, and interpolated between two. D is convex, and
/// about quadratic near the mean, so an interpolated D of x nats is too large by at most x/[`LAST`]^2 on average, and an
/// arm is never shut out by rounding. Beyond the last point, where the evidence is [`NATS`], the last line goes on, which is
/// below D.
#[derive(Clone, Copy)]
pub struct Curve {
    /// The distance of two points; 0 if it is not known.
    step: f32,
    /// The index at each point; NaN if it was not computed.
    indices: [f32; LAST + 1],
}

const LAST: usize = 14;

/// Nats of evidence at the last point. An arm with less may have the smallest index, because the logarithms of numbers of
/// rewards differ by no more.
pub const NATS: f64 = 24.0;

impl Curve {
    pub const UNKNOWN: Curve = Curve { step: 0.0, indices: [f32::NAN; LAST + 1] };

    /// The index at this distance from the mean, if it is known.
    #[inline]
    pub fn at(&self, distance: f64) -> Option<f64> {
        let (place, rest) = self.place(distance)?;
        let (low, high) = (f64::from(self.indices[place]), f64::from(self.indices[place + 1]));
        let index = if rest > 0.0 { low + rest * (high - low) } else { low };
        (!index.is_nan()).then_some(index)
    }

    /// The index at this distance from the mean. `index` computes it, and `reach` a distance at which the evidence is about
    /// [`NATS`].
    pub fn compute(&mut self, distance: f64, reach: impl Fn() -> f64, index: impl Fn(f64) -> f64) -> f64 {
        if self.step == 0.0 {
            self.step = (reach() / LAST as f64).max(1e-12) as f32;
        }
        let (place, rest) = self.place(distance).unwrap_or((0, 0.0));
        for place in place..=place + usize::from(rest > 0.0) {
            if self.indices[place].is_nan() {
                self.indices[place] = index(place as f64 * f64::from(self.step)) as f32;
            }
        }
        self.at(distance).unwrap_or(f64::INFINITY)
    }

    /// The last point that is not beyond this distance, but no later than the last but one; and the rest in steps.
    #[inline]
    fn place(&self, distance: f64) -> Option<(usize, f64)> {
        if self.step == 0.0 {
            return None;
        }
        let steps = (distance / f64::from(self.step)).max(0.0);
        let place = (steps as usize).min(LAST - 1);
        Some((place, steps - place as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpolated index is between its neighbours, exact at the points, and beyond the last point not above a convex
    /// one. Only the points that are needed are computed.
    #[test]
    fn few_points_give_the_index_everywhere() {
        let exact = |distance: f64| 3.0 + 2006.0 * distance * distance; // 24 nats at 14/128
        let count = std::cell::Cell::new(0);
        let index = |distance: f64| {
            count.set(count.get() + 1);
            exact(distance)
        };
        let mut curve = Curve::UNKNOWN;
        assert_eq!(curve.at(0.0), None);
        for (distance, computed) in
            [(0.0, 1), (7.0 / 128.0, 2), (0.055, 3), (0.056, 3), (0.108, 5), (0.3, 5), (0.0548, 5)]
        {
            let value = curve.compute(distance, || 14.0 / 128.0, index);
            assert_eq!((curve.at(distance), count.get()), (Some(value), computed), "{distance}");
            let error = value - exact(distance);
            assert!(
                if distance > 0.2 { error < 0.0 && value > 27.0 } else { (-1e-5..0.04).contains(&error) },
                "{error}"
            );
        }
        assert_eq!(curve.at(-1.0), curve.at(0.0));
    }
}
