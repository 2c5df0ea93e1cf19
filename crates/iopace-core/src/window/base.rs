//! How long the device takes for a request that has it to itself.
//!
//! A request is *alone* if it was started on an idle device and nothing else was started before it
//! was done: its latency is the device's own, without any queue. The mean is kept by kind and size,
//! since a write into a cache and a seek differ by a factor of ten. A device that is never idle
//! shows none; then the known value fades upwards, so that one learned from an easier load does not
//! bind for ever.

use super::Started;
use crate::request::Done;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// Kinds: reads and writes, each up to 16 KiB, up to 256 KiB and longer.
const CLASSES: usize = 6;

/// Weight of a sample in the mean: 1/8, that of TCP's smoothed round trip (RFC 6298).
const WEIGHT: u64 = 8;

/// Without a sample for this long a value grows by an eighth: tenfold in some 20 s.
const FADE: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
struct LatencyClass {
    /// Mean latency alone; zero: not known.
    mean: Nanos,
    /// When it was last learned or faded.
    at: Instant,
}

/// Latencies of requests alone at the device.
#[derive(Debug, Default)]
pub(super) struct BaseLatency {
    classes: [LatencyClass; CLASSES],
    in_flight: u32,
    is_alone: bool,
    /// When the device was last idle and a request was started.
    first_at: Option<Instant>,
    /// Whether others use the device too.
    is_shared: bool,
    /// What is known stays as it is.
    is_held: bool,
}

impl BaseLatency {
    /// Others use the device too: nothing fades. While they do use it, a request that is alone here
    /// says nothing. The first latency of a kind may be that of a request that was started on an
    /// idle device with others behind it: they might never leave it idle again.
    pub(super) fn share(&mut self, is_shared: bool, is_quiet: bool) {
        (self.is_shared, self.is_held) = (is_shared, is_shared && !is_quiet);
    }

    /// Requests at the device.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A request goes to the device.
    pub(super) fn on_start(&mut self, now: Instant, _started: &Started) {
        self.is_alone = self.in_flight == 0;
        if self.is_alone {
            self.first_at = Some(now);
        }
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// Learns from a completion; the latency that the request would have had alone, if known.
    pub(super) fn on_done(&mut self, now: Instant, done: &Done) -> Option<Nanos> {
        let was_alone = self.is_alone && self.in_flight == 1;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.is_alone = false;
        // What took no time was at no disk: memory has served it.
        if !done.ok || done.extent.is_empty() || now <= done.started {
            return None;
        }
        let class = &mut self.classes[index(done)];
        let is_first = self.is_shared && class.mean == Nanos::ZERO;
        let was_alone = was_alone || (is_first && self.first_at == Some(done.started));
        if self.is_held {
            return Some(class.mean).filter(|mean| *mean > Nanos::ZERO);
        }
        if was_alone {
            let sample = now.since(done.started).max(Nanos(1));
            *class = LatencyClass { mean: smooth(class.mean, sample).max(Nanos(1)), at: now };
        } else if !self.is_shared && class.mean > Nanos::ZERO && now.since(class.at) >= FADE {
            *class = LatencyClass { mean: class.mean + Nanos(class.mean.0 / WEIGHT), at: now };
        }
        Some(class.mean).filter(|mean| *mean > Nanos::ZERO)
    }
}

/// A mean with a new sample; zero is none yet. Overflow: latencies are far below 2^60 ns (36
/// years).
pub(super) fn smooth(mean: Nanos, sample: Nanos) -> Nanos {
    if mean == Nanos::ZERO {
        return sample;
    }
    Nanos(mean.0 - mean.0 / WEIGHT + sample.0 / WEIGHT)
}

fn index(done: &Done) -> usize {
    let size = match done.extent.len() {
        len if len <= Bytes::from_kib(16) => 0,
        len if len <= Bytes::from_kib(256) => 1,
        _ => 2,
    };
    size + 3 * usize::from(done.op.is_write())
}

/// Latencies seen against those alone, over one window of completions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Against {
    seen: u128,
    alone: u128,
    /// Completions.
    pub(super) count: u32,
}

impl Against {
    /// Adds a completion; one whose latency alone is not known counts, and says nothing.
    pub(super) fn add(&mut self, seen: Nanos, alone: Option<Nanos>) {
        self.count = self.count.saturating_add(1);
        if let Some(alone) = alone {
            self.seen += u128::from(seen.0);
            self.alone += u128::from(alone.0);
        }
    }

    /// `multiple x alone / seen` in 256ths; `None` if nothing is known.
    pub(super) fn room(&self, multiple: u64) -> Option<u64> {
        let room = (self.alone * u128::from(multiple) * 256).checked_div(self.seen)?;
        Some(u64::try_from(room).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::tests::requests::{done, started};

    #[test]
    fn only_a_request_alone_teaches() {
        let mut base = BaseLatency::default();
        base.on_start(Instant::ZERO, &started(true));
        assert_eq!(base.on_done(Instant(10), &done(true, 0)), Some(Nanos(10)));
        base.on_start(Instant::ZERO, &started(true));
        base.on_start(Instant::ZERO, &started(true));
        assert_eq!(base.on_done(Instant(900), &done(true, 0)), Some(Nanos(10)));
        assert_eq!(base.on_done(Instant(900), &done(true, 0)), Some(Nanos(10)));
        base.on_start(Instant::ZERO, &started(true));
        let late = Instant(2_000_000_000);
        assert_eq!(base.on_done(late, &done(true, late.0 - 90)), Some(Nanos(9 + 11)));
    }

    #[test]
    fn what_is_not_seen_again_fades_upwards() {
        let mut base = BaseLatency::default();
        base.on_start(Instant::ZERO, &started(true));
        base.on_done(Instant(800), &done(true, 0));
        let mut mean = Nanos(800);
        for second in 1..=20 {
            base.on_start(Instant::ZERO, &started(true));
            base.on_start(Instant::ZERO, &started(true));
            let now = Instant(second * 1_000_000_000 + 800);
            mean = base.on_done(now, &done(true, 0)).expect("known");
            base.on_done(now, &done(true, 0));
        }
        assert!(mean > Nanos(8_000) && mean < Nanos(9_000), "{mean:?}");
    }

    #[test]
    fn failures_and_completions_without_a_start_are_harmless() {
        let mut base = BaseLatency::default();
        let failed = Done { ok: false, ..done(true, 0) };
        base.on_start(Instant::ZERO, &started(true));
        assert_eq!(base.on_done(Instant(5), &failed), None);
        assert_eq!(base.on_done(Instant(6), &done(true, 0)), None);
    }
}
