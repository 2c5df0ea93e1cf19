//! The one place that reads a clock: monotonic, as the core's [`Instant`], and it goes on while
//! the machine sleeps: what was given for a time ([`iopace_core::cluster`]) ends meanwhile.

use iopace_core::time::{Instant, Nanos};
use std::sync::OnceLock;

/// A time in the attributes of a file. It is handed on; no clock is read.
pub use std::time::SystemTime as FileTime;

/// The time from which those of files count.
pub const EPOCH: FileTime = FileTime::UNIX_EPOCH;

static ORIGIN: OnceLock<Nanos> = OnceLock::new();

/// The present time since the first call in this process.
pub fn now() -> Instant {
    let origin = ORIGIN.get_or_init(since_boot);
    Instant(since_boot().0 - origin.0)
}

/// The time since the machine was started, in which the kernel tells when processes were.
pub fn since_boot() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// The time that a file which is changed now gets, in seconds and nanoseconds since 1970.
pub fn of_files() -> (i64, i64) {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (time.tv_sec, time.tv_nsec)
}

/// How long ago `at` was.
pub fn elapsed(at: Instant) -> std::time::Duration {
    let Nanos(past) = now().since(at);
    std::time::Duration::from_nanos(past)
}

/// How long until `at`; zero if it has passed, `None` if it never comes.
pub fn until(at: Instant) -> Option<std::time::Duration> {
    if at.is_never() {
        return None;
    }
    let Nanos(left) = at.since(now());
    Some(std::time::Duration::from_nanos(left))
}
