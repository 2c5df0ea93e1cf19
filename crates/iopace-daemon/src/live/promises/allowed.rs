//! What a limit allows over a time beside its rate.

use super::super::limits::Rate;
use crate::api::{Activity, LiveGroup};
use iopace_core::group::Limits;
use iopace_core::group::meter::{LATENESS_MAX, TURN_MAX};
use iopace_core::time::Nanos;

/// What a limit lets pass beside its rate, as its meters have it ([`iopace_core::group::meter`]):
/// the burst; what nobody could use while a timer was late; and what write-back could not use while
/// the turns of others took their time.
pub(super) fn at_once(rate: &Rate, limits: &Limits, writes_back: bool) -> u128 {
    let kept = if writes_back && !rate.is_read() { TURN_MAX } else { LATENESS_MAX };
    let for_so_long = |rate: u64, time: Nanos| {
        (u128::from(rate) * u128::from(time.as_nanos())).div_ceil(1_000_000_000)
    };
    let burst = rate.of(&limits.burst).map_or(0, |burst| burst.saturating_sub(rate.set));
    for_so_long(rate.set, kept) + for_so_long(burst, limits.burst_length)
}

/// Bytes of a request of a group.
pub(super) fn mean_size(group: &LiveGroup) -> u64 {
    let Activity { read, write, .. } = &group.activity;
    let bytes = u128::from(read.bytes_s) + u128::from(write.bytes_s);
    let ops_milli = u128::from(read.ops_milli_s) + u128::from(write.ops_milli_s);
    u64::try_from((bytes * 1_000).checked_div(ops_milli).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::super::limits::rates;
    use super::super::super::span::Sums;
    use super::*;
    use iopace_core::group::Rates;
    use std::num::NonZeroU64;

    #[test]
    fn a_limit_allows_its_burst_and_what_its_meters_keep() {
        let set = NonZeroU64::new(20);
        let sustained = Rates { wiops: set, riops: set, iops: set, ..Rates::default() };
        let plain = Limits { sustained, ..Limits::default() };
        let all = rates(&sustained, &Sums::default(), 1);
        let of = |key: &str| all.iter().find(|rate| rate.key == key).expect("it is set");
        // Write-back after a quiet second; twenty milliseconds of 20 a second are one, rounded up.
        let told = [("wiops", true, 20), ("iops", true, 20), ("riops", true, 1)];
        for (key, writes_back, units) in told.into_iter().chain([("wiops", false, 1)]) {
            assert_eq!(at_once(of(key), &plain, writes_back), units, "{key} {writes_back}");
        }
        let burst = Rates { riops: NonZeroU64::new(50), ..Rates::default() };
        let limits = Limits { burst, burst_length: Nanos::from_secs(3), ..plain };
        assert_eq!(at_once(of("riops"), &limits, false), 91);
        assert_eq!(at_once(of("iops"), &limits, false), 1, "another rate");
    }
}
