//! What a scheduler promises, for all who must know: the suites hold it to this, warnings and
//! remedies name the scheduler that keeps a setting, and its page shows it.

use super::Params;
use crate::time::Nanos;
use core::fmt;

/// The longest wait of a request for its start, under these parameters and beside this load.
pub type WaitMax = &'static (dyn Fn(&Params, &Load) -> Nanos + Sync);

/// What a scheduler promises. One that promises nothing is [`Profile::PLAIN`].
#[derive(Clone, Copy)]
pub struct Profile {
    /// Its bound beside [`Load::CLOSED_LOOP`], with its parameters at their defaults: whoever is
    /// passed over there does not submit again. `None`: it has none, and the suite sees that.
    pub closed_loop_wait: Option<WaitMax>,
    /// Its bound beside [`Load::STREAM`], with any legal parameters. `None`: it starves by design,
    /// and the suite sees that; the search for faults does not look for starvation under it.
    pub stream_wait: Option<WaitMax>,
    /// Whether it divides the disk's time by weights, classes and guarantees of groups. Settings of
    /// groups are warned of under one that does not.
    pub divides: bool,
    /// Whether a long replay compares it unless schedulers are named. Each of them costs one pass
    /// over the trace, so these are few.
    pub is_compared: bool,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("has_closed_loop_wait", &self.closed_loop_wait.is_some())
            .field("has_stream_wait", &self.stream_wait.is_some())
            .field("divides", &self.divides)
            .field("is_compared", &self.is_compared)
            .finish()
    }
}

impl Profile {
    /// One that promises nothing: a request may wait for ever, and groups are nothing to it.
    pub const PLAIN: Profile =
        Profile { closed_loop_wait: None, stream_wait: None, divides: false, is_compared: false };
}

/// A load beside which a request waits for its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Clients, the one of the request included.
    pub clients_count: u64,
    /// Most requests of all clients at a time, the one that waits included; flushes that go before
    /// them come on top.
    pub requests: u64,
    /// The longest that the disk takes for one.
    pub service: Nanos,
}

impl Load {
    /// Six clients with up to four requests each, and as many flushes; a client submits when all
    /// of its own are done. The conformance suite puts it, with every window and number of slots.
    pub const CLOSED_LOOP: Load =
        Load { clients_count: 6, requests: 24, service: Nanos::from_millis(9) };

    /// One request beside eight of up to three tasks, each replaced when it is served. The suite
    /// of starvation puts it.
    pub const STREAM: Load = Load { clients_count: 4, requests: 9, service: Nanos::from_millis(9) };

    /// The time that the disk takes for so many requests.
    pub const fn serving(&self, requests: u64) -> Nanos {
        self.service.times(requests)
    }
}
