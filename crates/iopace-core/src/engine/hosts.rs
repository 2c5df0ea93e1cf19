//! Stage window from outside, for a device that several hosts use: the host's part in its queue,
//! and what the others have to know of this one.

use super::Engine;
use crate::cluster::{self, GroupUse};
use crate::request::GroupId;
use crate::time::Instant;
use crate::window::{HostShare, QueueTotals, WindowPicture};

impl Engine {
    /// Another part in the queue of a device that other hosts use too.
    pub(super) fn set_host_share(&mut self, share: Option<HostShare>) {
        self.config.host_share = share;
        self.queue.set_share(self.cx.now, share);
    }

    /// How stage window stands.
    pub fn window_picture(&self) -> WindowPicture {
        self.queue.window_picture()
    }

    /// How the queue of a host among others stands ([`super::Control::HostShare`]); none without a
    /// share, or with a policy of stage window that does not know of others.
    pub fn queue_totals(&self) -> Option<QueueTotals> {
        self.queue.queue_totals()
    }

    /// The use of a group since the beginning, with all below it; `None` if the device does not
    /// know the group. For [`crate::cluster::DemandMeter`].
    pub fn group_use(&self, now: Instant, id: GroupId) -> Option<GroupUse> {
        let account = self.cx.groups.get(id)?;
        let counts = match id {
            GroupId::ROOT => self.cx.tasks.counts(),
            _ => account.counts.clone(),
        };
        let requests_count = counts.reads_count + counts.writes_count + counts.flushes_count;
        let mut pressure = account.pressure;
        pressure.advance(now);
        let cost = cluster::cost(requests_count, counts.read + counts.written);
        Some(GroupUse { cost, waited: pressure.some() })
    }
}
