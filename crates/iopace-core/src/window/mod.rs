//! Stage 4: how many requests may the disk hold, and how much write-back among them?
//!
//! [`Window`] is the congestion control. Its signal is the device: when requests are started and
//! when they are done, never a count of writes alone. It is asked twice: before the scheduler,
//! because a popped request cannot be taken back, and before the flusher, because write-back that
//! is already in line behind everybody's back cannot be taken back either.

use crate::registry;
use crate::request::{Done, Op};
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::{Reason, Verdict};
use core::fmt;
use core::ops::{Deref, DerefMut};
use fixed::Fixed;

pub mod aimd;
mod base;
pub mod fixed;
pub mod latency;
mod share;
#[cfg(test)]
mod tests;

pub use share::{
    BETA_DEFAULT, HostShare, QueueTotals, SHARED_TARGET_TIMES, TARGET_TIMES, WindowSize,
};

/// One window policy, made to allow never more than so many requests.
pub type WindowPolicy = registry::Policy<fn(u32) -> AnyWindow>;

/// All policies, the simplest first.
pub static REGISTRY: &[&WindowPolicy] = &[&fixed::POLICY, &aimd::POLICY, &latency::POLICY];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static WindowPolicy> {
    registry::find(REGISTRY, name)
}

/// Write-back requests in line when nobody reads: 1 MiB in clusters of 128 KiB, FreeBSD's
/// hirunningspace of 2009 (vfs_bio.c).
pub const WRITE_BACK_DEPTH: u32 = 8;

/// Write-back that is in line or at the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBack {
    /// Requests.
    pub requests_count: u32,
    /// Bytes.
    pub size: Bytes,
    /// Whether a flush waits for it, other than a small one, whose write-back is not asked about.
    pub is_awaited: bool,
}

/// A request that goes to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// What it does.
    pub op: Op,
    /// How much.
    pub size: Bytes,
    /// Whether a task waits for it; write-back is what nobody waits for.
    pub sync: bool,
}

/// Why a policy lets the disk hold fewer requests than was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowed {
    /// More at once would only take longer each, as the latency of those before has shown.
    Latency,
    /// A batch of write-back is at the disk, which takes one request at a time meanwhile.
    WriteBack,
}

impl Narrowed {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Narrowed::Latency => "latency",
            Narrowed::WriteBack => "write_back",
        }
    }
}

/// How a policy stands: what is drawn and exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPicture {
    /// Requests that the disk may hold.
    pub depth: u32,
    /// Why the depth is less than was set, if it is.
    pub narrowed: Option<Narrowed>,
    /// Write-back requests that may be in line or at the disk.
    pub write_back_depth: u32,
    /// Time between two batches of write-back; zero when it may go on without a break.
    pub write_back_gap: crate::time::Nanos,
    /// Latency of what tasks wait for when no write-back is in the way, as learned.
    pub quiet_latency: crate::time::Nanos,
    /// The same latency as it is now.
    pub latency: crate::time::Nanos,
}

/// How many requests may be in flight.
pub trait Window: fmt::Debug + Send {
    /// The number of requests that it allows at the disk at present: at least one.
    fn depth(&self) -> u32;

    /// Changes the most it will ever allow.
    fn set_depth(&mut self, depth: u32);

    /// Whether one more may start while `in_flight` are at the disk.
    #[inline]
    fn has_room(&self, in_flight: u32) -> bool {
        in_flight < self.depth()
    }

    /// The number of write-back requests that it allows in line, if that is all it goes by.
    fn write_back_depth(&self) -> u32 {
        WRITE_BACK_DEPTH
    }

    /// Whether the flusher may put one more write-back request of `size` into line, with so much
    /// there already. `Pass` charges it; `Wait` changes nothing, and [`Instant::NEVER`] means:
    /// after a completion. Must say yes at some instant if nothing is in line.
    fn write_back(&mut self, _now: Instant, in_line: &WriteBack, _size: Bytes) -> Verdict {
        if in_line.requests_count < self.write_back_depth() {
            return Verdict::Pass;
        }
        Verdict::Wait(Instant::NEVER, Reason::Window)
    }

    /// A request goes to the disk.
    fn on_start(&mut self, _now: Instant, _started: &Started) {}

    /// Learns from a completion.
    fn on_done(&mut self, _now: Instant, _done: &Done) {}

    /// A request is done that went to the disk in the command of another one, which was told of
    /// with the size of the whole command.
    fn on_joined_done(&mut self, _now: Instant, _done: &Done) {}

    /// Others use the device as well from now on, and this is the host's part in it; none: nobody
    /// does. A policy that does not know of others goes on as before.
    fn set_share(&mut self, _now: Instant, _share: Option<HostShare>) {}

    /// How the queue of a host among others stands; none without a share.
    fn queue_totals(&self) -> Option<QueueTotals> {
        None
    }

    /// How it stands.
    fn picture(&self) -> WindowPicture {
        let (depth, write_back_depth) = (self.depth(), self.write_back_depth());
        WindowPicture { depth, write_back_depth, ..WindowPicture::default() }
    }
}

/// A policy at work, whichever it is. Three calls are made for every request, of which the fixed
/// one has no use for two: what they are told is not put together there.
#[derive(Debug)]
pub enum AnyWindow {
    /// The default.
    Fixed(Fixed),
    /// Another one.
    Other(Box<dyn Window>),
}

impl AnyWindow {
    /// As [`Window::has_room`].
    #[inline(always)]
    pub fn has_room(&self, in_flight: u32) -> bool {
        match self {
            AnyWindow::Fixed(fixed) => fixed.has_room(in_flight),
            AnyWindow::Other(window) => window.has_room(in_flight),
        }
    }

    /// The policy, if it is one that is told of starts and completions.
    #[inline(always)]
    pub fn learning(&mut self) -> Option<&mut (dyn Window + 'static)> {
        match self {
            AnyWindow::Fixed(_) => None,
            AnyWindow::Other(window) => Some(&mut **window),
        }
    }
}

impl Deref for AnyWindow {
    type Target = dyn Window;

    fn deref(&self) -> &(dyn Window + 'static) {
        match self {
            AnyWindow::Fixed(fixed) => fixed,
            AnyWindow::Other(window) => &**window,
        }
    }
}

impl DerefMut for AnyWindow {
    fn deref_mut(&mut self) -> &mut (dyn Window + 'static) {
        match self {
            AnyWindow::Fixed(fixed) => fixed,
            AnyWindow::Other(window) => &mut **window,
        }
    }
}
