//! A host's part in the queue of a volume that several hosts use: told to a window, and by it.

use crate::group::Weight;
use crate::limits::GROUP_WEIGHT_DEFAULT;
use crate::time::Nanos;
use crate::units::scaled;

/// A number of requests at the device, as a mean over time, in 256ths of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowSize(pub u64);

impl WindowSize {
    /// One request.
    pub const ONE: WindowSize = WindowSize(256);

    /// So many requests.
    pub const fn requests(count: u32) -> WindowSize {
        WindowSize(count as u64 * 256)
    }

    /// The mean number of requests that spend `spent` at the device in `length`, each counted with
    /// its own time (Little's law).
    pub(crate) fn mean(spent: Nanos, length: Nanos) -> WindowSize {
        WindowSize(scaled(spent.0, 256, length.0))
    }
}

/// The target of a queue as a multiple of the latency alone. Depth must not be lost where it pays:
/// a 7200 rpm disk that sorts 31 commands answers each about 17 times later than one alone, an NVMe
/// disk that holds 256 about 10 times. Beyond 32 only the queue grows.
pub const TARGET_TIMES: u64 = 32;

/// The same of a device that several hosts use: the betas of the hosts come on top of it, and a
/// queue that is longer than the requests that hosts have at all shares nothing.
pub const SHARED_TARGET_TIMES: u64 = 16;

/// PARDA's beta of a host of default weight that nobody coordinates: so many of its requests wait
/// at the device beyond those that the target pays for. With more, hosts are sooner at their
/// shares; with fewer, the latency is nearer to the target.
pub const BETA_DEFAULT: WindowSize = WindowSize::requests(2);

/// What holds for the window of a host whose device others use too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostShare {
    /// PARDA's beta, in proportion to the weight of the host: windows of hosts that follow the
    /// latency alone stand to each other as their betas.
    pub beta: WindowSize,
    /// The latency at which the device's queue is long enough, the same for all hosts; none: a
    /// multiple of what the host's requests take alone.
    pub target: Option<Nanos>,
    /// The size that the window is to have now, by what is known of all hosts. Without it the
    /// window follows the latency.
    pub size: Option<WindowSize>,
    /// The size is held for so long; then the window follows the latency.
    pub held_for: Nanos,
    /// Whether a request that is alone of this host is taken for one that is alone at the device.
    pub is_quiet: bool,
}

impl HostShare {
    /// The share of a host that knows of no other: by its weight and a target that is set for all
    /// hosts alike.
    pub fn uncoordinated(weight: Weight, target: Option<Nanos>) -> HostShare {
        let beta = scaled(BETA_DEFAULT.0, u64::from(weight.get()), u64::from(GROUP_WEIGHT_DEFAULT));
        HostShare {
            beta: WindowSize(beta),
            target,
            size: None,
            held_for: Nanos::ZERO,
            is_quiet: true,
        }
    }
}

/// How the queue of a host stands and what has passed through it since the window policy was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Requests that were done.
    pub done_count: u64,
    /// The sum of their times at the device.
    pub at_disk: Nanos,
    /// The mean of what such requests take alone at the device, if it is known.
    pub alone: Option<Nanos>,
    /// The size of the window.
    pub size: WindowSize,
}
