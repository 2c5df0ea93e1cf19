//! Where dirty memory stands, as a factor for everybody's rate (`pos_ratio`).
//!
//! ```text
//!  2.0 ●            cubic: 1 + e^3, e = (setpoint - dirty) / (limit - setpoint)
//!       \
//!  1.0   `---●---.
//!                 \
//!  0              ●
//!    freerun setpoint limit        times the device line, 1/4 to 16, and the reserve, up to 8
//! ```
//! 1. The cubic is 2 at the free-run mark and below, 1 at the set point, 0 at the limit and above.
//! 2. It never rises with dirty memory, and is level at the set point.
//! 3. The line is 1 at the device's set point, falls by 1 for a second of writes and is never below
//!    1/4 nor above 16.
//! 4. The reserve multiplies by up to 8 below half of the device's memory, and then not even memory
//!    that is full elsewhere stops the device.
//!
//! *Against the source.* There the line falls by 1 in eight seconds of writes, and on many devices
//! is as wide as the device's memory: counters are approximate and completions come in bursts. Then
//! dirty memory needs half a minute back to its set point, and rates are off for as long. Here
//! counts are exact, and the gaps between bursts are known and widen the line: by four times the
//! longest gap.
//!
//! Ratios are in 1/65536. Source: wb_position_ratio of Linux (mm/page-writeback.c), Wu Fengguang.

use crate::pace::{Budget, PacePicture, Thresholds};
use crate::time::Nanos;
use crate::units::{Bytes, BytesPerSec, scaled};

/// The ratio 1.
pub(super) const ONE: u64 = 1 << 16;

/// What the device line leaves at least: one far above its share is slowed and not stopped.
pub(super) const FLOOR: u64 = ONE / 4;

/// What the line gives at most: a device that is far below its set point gets there within a second
/// in all but the largest memories.
const LINE_MAX: u64 = 16 * ONE;

/// What the reserve multiplies by at most.
const RESERVE_MAX: u64 = 8;

/// The marks of dirty memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Curve {
    pub(super) freerun: u64,
    pub(super) setpoint: u64,
    pub(super) limit: u64,
}

impl Curve {
    pub(super) fn new(thresholds: &Thresholds) -> Curve {
        let limit = thresholds.limit.0;
        let background = thresholds.background.0;
        let background = if background >= limit { limit / 2 } else { background };
        let freerun = background + (limit - background) / 2;
        Curve { freerun, setpoint: freerun + (limit - freerun) / 2, limit }
    }

    /// The marks of a part of the memory, `share` in 1/65536, with a limit of at least `floor`.
    pub(super) fn part(&self, share: u64, floor: u64) -> Curve {
        let limit = scale(self.limit, share).max(floor).min(self.limit);
        let ratio = ratio(limit, self.limit);
        Curve { freerun: scale(self.freerun, ratio), setpoint: scale(self.setpoint, ratio), limit }
    }

    /// The marks, for those who look.
    pub(super) fn picture(&self) -> PacePicture {
        PacePicture {
            freerun: Bytes(self.freerun),
            setpoint: Bytes(self.setpoint),
            limit: Bytes(self.limit),
            ..PacePicture::default()
        }
    }

    /// The cubic.
    pub(super) fn position(&self, dirty: u64) -> u64 {
        if dirty >= self.limit {
            return 0;
        }
        let range = (self.limit - self.setpoint).max(1);
        let (above, distance) = (dirty > self.setpoint, dirty.abs_diff(self.setpoint));
        // At most 1, and its cube fits into 48 bits.
        let error = ratio(distance.min(range), range);
        let cube = (error * error * error) >> 32;
        if above { ONE - cube } else { ONE + cube }
    }
}

/// A part of an amount, `share` in 1/65536.
pub(super) fn scale(amount: u64, share: u64) -> u64 {
    u64::try_from((u128::from(amount) * u128::from(share)) >> 16).unwrap_or(u64::MAX)
}

/// `part / whole` in 1/65536, a whole of nothing being one.
pub(super) fn ratio(part: u64, whole: u64) -> u64 {
    if part < 1 << 47 {
        return (part << 16) / whole.max(1);
    }
    u64::try_from((u128::from(part) << 16) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// The line of a device: it crosses 1 at `setpoint` and would reach 0 at `span` above.
fn line(dirty: u64, setpoint: u64, span: u64) -> u64 {
    let intercept = setpoint.saturating_add(span);
    ratio(intercept.saturating_sub(dirty), span).clamp(FLOOR, LINE_MAX)
}

/// A device in the memory of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DevicePosition {
    pub(super) device: Curve,
    all: Curve,
    /// Dirty memory of all other devices.
    elsewhere: u64,
    /// How far above its set point the device's line would reach 0.
    span: u64,
}

impl DevicePosition {
    pub(super) fn new(budget: &Budget, bandwidth: BytesPerSec, gap: Nanos) -> DevicePosition {
        let (device, all) = (Curve::new(&budget.device), Curve::new(&budget.all));
        let mut place =
            DevicePosition { device, all, elsewhere: budget.dirty_elsewhere.0, span: 1 };
        place.set_bandwidth(bandwidth, gap);
        place
    }

    /// What a device writes in a second, and in four of its longest gaps.
    pub(super) fn set_bandwidth(&mut self, bandwidth: BytesPerSec, gap: Nanos) {
        let time = gap.times(4) + Nanos::from_secs(1);
        self.span = scaled(bandwidth.0, time.0, 1_000_000_000).max(1);
    }

    /// The marks of a part of the device's memory, `share` in 1/65536, with so much dirty.
    pub(super) fn part(&self, share: u64, dirty: u64) -> Curve {
        self.device.part(share, self.device.limit.saturating_sub(dirty) / 8)
    }

    /// Whether nobody has to be paced.
    pub(super) fn is_free(&self, dirty: u64) -> bool {
        dirty <= self.device.freerun && dirty.saturating_add(self.elsewhere) <= self.all.freerun
    }

    /// How much may still come until somebody has to be paced.
    pub(super) fn margin(&self, dirty: u64) -> u64 {
        let all = self.all.freerun.saturating_sub(self.elsewhere);
        self.device.freerun.min(all).saturating_sub(dirty)
    }

    /// The factor for the device with so much dirty.
    pub(super) fn position(&self, dirty: u64) -> u64 {
        let own = self.device.position(dirty);
        if own == 0 {
            return 0;
        }
        let mut all = self.all.position(dirty.saturating_add(self.elsewhere));
        let reserve = self.device.limit / 2;
        if dirty < reserve {
            let factor = ratio(reserve, dirty).min(RESERVE_MAX * ONE);
            all = scale(all.max(FLOOR), factor);
        }
        scale(own.min(all), line(dirty, self.device.setpoint, self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::rate::tests::Random;
    use crate::units::Bytes;

    fn thresholds(background: u64, limit: u64) -> Thresholds {
        Thresholds { background: Bytes(background), limit: Bytes(limit) }
    }

    /// Curves of all sizes.
    fn curves() -> Vec<Curve> {
        let mut random = Random(1);
        let mut any = || {
            let limit = (random.next() >> random.below(60)).max(1);
            Curve::new(&thresholds(random.below(limit), limit))
        };
        (0..2_000).map(|_| any()).collect()
    }

    #[test]
    fn p1_the_cubic_goes_through_its_marks() {
        let curve = Curve::new(&thresholds(100 << 20, 200 << 20));
        assert_eq!(curve, Curve { freerun: 150 << 20, setpoint: 175 << 20, limit: 200 << 20 });
        for curve in curves().into_iter().filter(|curve| curve.limit - curve.setpoint > 100) {
            assert_eq!(curve.position(curve.setpoint), ONE);
            assert_eq!(curve.position(curve.limit), 0);
            assert_eq!(curve.position(u64::MAX), 0);
            assert_eq!(curve.position(0), 2 * ONE, "{curve:?}");
            assert!(curve.position(curve.freerun) > 2 * ONE - ONE / 16, "{curve:?}");
            assert!(curve.position(curve.limit - 1) < ONE / 16, "{curve:?}");
        }
    }

    #[test]
    fn p2_it_never_rises_and_is_level_at_the_set_point() {
        for curve in curves() {
            let mut last = u64::MAX;
            for step in 0..=64 {
                let now = curve.position(curve.limit / 64 * step);
                assert!(now <= last, "{curve:?} {step}");
                last = now;
            }
            let range = (curve.limit - curve.setpoint) / 20;
            let above = curve.position(curve.setpoint + range);
            assert!(curve.limit < 1 << 20 || ONE - above < ONE / 4_000, "{curve:?} {above}");
        }
    }

    #[test]
    fn p3_the_line_falls_by_one_for_a_second_of_writes() {
        let (bandwidth, setpoint) = (100 << 20, 4 << 30);
        assert_eq!(line(setpoint, setpoint, bandwidth), ONE);
        assert_eq!(line(setpoint + bandwidth / 2, setpoint, bandwidth), ONE / 2);
        assert_eq!(line(setpoint - bandwidth / 2, setpoint, bandwidth), ONE * 3 / 2);
        assert_eq!(line(u64::MAX, setpoint, bandwidth), FLOOR);
        assert_eq!(line(0, setpoint, bandwidth), LINE_MAX);
        let device = thresholds(4 << 30, 8 << 30);
        let budget = Budget::alone(device);
        let rate = BytesPerSec(bandwidth);
        assert_eq!(DevicePosition::new(&budget, rate, Nanos::ZERO).span, bandwidth);
        assert_eq!(DevicePosition::new(&budget, rate, Nanos::from_secs(2)).span, 9 * bandwidth);
    }

    #[test]
    fn p4_the_reserve_keeps_a_queue_from_running_dry() {
        let (own, all) = (thresholds(10 << 20, 20 << 20), thresholds(100 << 20, 200 << 20));
        let elsewhere = Bytes(200 << 20);
        let budget = Budget { all, dirty_elsewhere: elsewhere, ..Budget::alone(own) };
        let place = DevicePosition::new(&budget, BytesPerSec(100 << 20), Nanos::ZERO);
        assert!(!place.is_free(0), "memory is full");
        assert!(place.position(1 << 20) >= 2 * ONE);
        assert!(place.position(5 << 20) >= ONE / 2);
        assert_eq!(place.position(11 << 20), 0, "above half of its share it waits like all");
        let budget = Budget { dirty_elsewhere: Bytes::ZERO, ..budget };
        let place = DevicePosition::new(&budget, BytesPerSec(100 << 20), Nanos::ZERO);
        assert!(place.is_free(15 << 20) && !place.is_free((15 << 20) + 1));
    }

    #[test]
    fn no_budget_is_out_of_range() {
        for size in [0, 1, 2, 4096, u64::MAX / 2, u64::MAX] {
            let all = thresholds(size / 2, size);
            for part in [0, 1, size / 3, size] {
                let device = thresholds(part, part);
                let budget = Budget { all, dirty_elsewhere: Bytes(size), ..Budget::alone(device) };
                let place = DevicePosition::new(&budget, BytesPerSec(u64::MAX), Nanos::ZERO);
                for dirty in [0, 1, part / 2, part, size, u64::MAX] {
                    assert!(place.position(dirty) <= 2 * LINE_MAX);
                    place.margin(dirty);
                }
            }
        }
    }
}
