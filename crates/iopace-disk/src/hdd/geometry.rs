//! Where bytes lie on the platter: zones, distances, angles, and the time to get from one to
//! another.

use super::HddConfig;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};

/// Zones of a platter. Disks have 16 to 30; the steps are below two per cent of the rate.
const ZONES: u64 = 16;

/// Distances are counted in this many parts of the full stroke.
const STROKE: u64 = 1 << 20;

/// A zone: the byte at which it begins, its size, its transfer rate.
#[derive(Debug)]
struct Zone {
    start: u64,
    len: u64,
    rate: BytesPerSec,
}

/// The platter and its arm.
#[derive(Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    rotation: Nanos,
    seek_track: Nanos,
    seek_average: Nanos,
    seek_full: Nanos,
}

impl Geometry {
    /// Zones of equal width; the rate falls linearly. Their sizes fill the capacity.
    pub(super) fn new(config: &HddConfig) -> Geometry {
        let (outer, inner) = (config.rate_outer.0, config.rate_inner.0.min(config.rate_outer.0));
        let rates: Vec<u64> =
            (0..ZONES).map(|i| outer - (outer - inner) * i / (ZONES - 1)).collect();
        let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
        let mut start = 0;
        let mut zones = Vec::new();
        for rate in rates {
            let len = (u128::from(config.capacity.get()) * u128::from(rate) / sum) as u64;
            zones.push(Zone { start, len, rate: BytesPerSec(rate) });
            start += len;
        }
        if let Some(last) = zones.last_mut() {
            last.len += config.capacity.get() - start;
        }
        let HddConfig { rotation, seek_track, seek_average, seek_full, .. } = *config;
        Geometry { zones, rotation, seek_track, seek_average, seek_full }
    }

    fn zone(&self, byte: u64) -> (usize, &Zone) {
        let index = self.zones.partition_point(|zone| zone.start <= byte).max(1) - 1;
        (index, &self.zones[index])
    }

    /// The transfer rate at a byte.
    pub(super) fn rate(&self, byte: u64) -> BytesPerSec {
        self.zone(byte).1.rate
    }

    /// Where a byte lies across the platter, in parts of the stroke.
    fn radius(&self, byte: u64) -> u64 {
        let (index, zone) = self.zone(byte);
        let within = u128::from(byte - zone.start) * u128::from(STROKE / ZONES);
        index as u64 * (STROKE / ZONES) + (within / u128::from(zone.len.max(1))) as u64
    }

    /// Time to move the head from one byte to another: from track to track up to the average at a
    /// third of the stroke with the square root of the distance, linear from there on.
    pub(super) fn seek(&self, from: u64, to: u64) -> Nanos {
        let distance = self.radius(from).abs_diff(self.radius(to));
        let third = STROKE / 3;
        if distance == 0 {
            Nanos::ZERO
        } else if distance <= third {
            // distance / third below 2^20, in the root twice 20 bits: exact in 64.
            let root = (distance * STROKE / third * STROKE).isqrt();
            let more = self.seek_average.saturating_sub(self.seek_track).0;
            let part = u128::from(more) * u128::from(root) / u128::from(STROKE);
            self.seek_track + Nanos(part as u64)
        } else {
            let more = u128::from(self.seek_full.saturating_sub(self.seek_average).0);
            let part = u128::from(distance - third) * more / u128::from(STROKE - third);
            self.seek_average + Nanos(part as u64)
        }
    }

    /// The time from `now` until `byte` passes the head, if the head is over its track.
    pub(super) fn wait(&self, now: Instant, byte: u64) -> Nanos {
        let rotation = self.rotation.0;
        let (_, zone) = self.zone(byte);
        let angle = zone.rate.time_for(Bytes(byte - zone.start)).0 % rotation;
        Nanos((angle + rotation - now.0 % rotation) % rotation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::tiny;
    use super::*;

    #[test]
    fn the_seek_curve_passes_its_three_points_and_never_falls() {
        let config = tiny();
        let geometry = Geometry::new(&config);
        let end = config.capacity.get() - 1;
        assert_eq!(geometry.seek(5, 5), Nanos::ZERO);
        let near = geometry.seek(0, 1_000_000);
        assert!(near >= config.seek_track && near.0 < config.seek_track.0 * 11 / 10, "{near}");
        let full = geometry.seek(end, 0);
        assert!(full.0 > config.seek_full.0 * 99 / 100 && full <= config.seek_full, "{full}");
        let mut last = Nanos::ZERO;
        for part in 0..1_000 {
            let time = geometry.seek(0, end / 1_000 * part);
            assert!(time >= last, "at {part} thousandths");
            last = time;
        }
    }

    #[test]
    fn the_mean_of_all_seeks_is_near_the_average_of_the_data_sheet() {
        let config = tiny();
        let geometry = Geometry::new(&config);
        let place = |i: u64| config.capacity.get() / 200 * i;
        let all = (0..200).flat_map(|a| (0..200).map(move |b| (a, b)));
        let sum: u64 = all.map(|(a, b)| geometry.seek(place(a), place(b)).0).sum();
        let mean = sum / 40_000;
        let average = config.seek_average.0;
        assert!((average * 9 / 10..=average * 11 / 10).contains(&mean), "{} us", mean / 1_000);
    }

    #[test]
    fn a_byte_comes_by_once_in_a_turn() {
        let config = tiny();
        let geometry = Geometry::new(&config);
        let first = Instant::ZERO + geometry.wait(Instant::ZERO, 123_456_789);
        assert_eq!(geometry.wait(first, 123_456_789), Nanos::ZERO);
        let wait = geometry.wait(first + Nanos(1), 123_456_789);
        assert_eq!(wait, config.rotation.saturating_sub(Nanos(1)));
    }

    #[test]
    fn the_zones_fill_the_disk_and_slow_down_inwards() {
        let config = tiny();
        let zones = Geometry::new(&config).zones;
        assert_eq!(zones.iter().map(|zone| zone.len).sum::<u64>(), config.capacity.get());
        assert_eq!(zones[0].rate, config.rate_outer);
        assert_eq!(zones[15].rate, config.rate_inner);
        assert!(zones.is_sorted_by(|a, b| a.rate > b.rate && a.start + a.len == b.start));
    }
}
