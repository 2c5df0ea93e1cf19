//! How the rate policy sees the device and each group.

use super::Rate;
use super::groups::Group;
use super::position::ONE;
use crate::pace::{Dirty, Picture};
use crate::request::GroupId;
use crate::units::{Bytes, BytesPerSec};

impl Rate {
    /// Of the device; rates are those of the group that dirties most.
    pub(super) fn device_view(&self, dirty: &Dirty) -> Picture {
        let busiest = self.groups.active.iter().filter_map(|&id| self.groups.get(id));
        let group = busiest.max_by_key(|group| group.dirty_rate);
        let mut picture = self.group_view(GroupId(self.last_group), dirty).unwrap_or_default();
        let all = self.groups.active.iter().filter_map(|&id| self.groups.get(id));
        picture.dirty = dirty.device;
        picture.freerun = Bytes(self.place.device.freerun);
        picture.setpoint = Bytes(self.place.device.setpoint);
        picture.limit = Bytes(self.place.device.limit);
        picture.write_bandwidth = self.bandwidth.average();
        picture.dirty_rate = BytesPerSec(all.map(|group| group.dirty_rate).sum());
        if let Some(group) = group {
            self.paint(&mut picture, group, dirty.device.0);
        }
        let position = self.place.position(dirty.device.0);
        picture.position_permille = (position * 1_000 / ONE) as u32;
        picture
    }

    /// Of a group.
    pub(super) fn group_view(&self, id: GroupId, dirty: &Dirty) -> Option<Picture> {
        let group = self.groups.get(id.0)?;
        let floor = self.place.device.limit.saturating_sub(dirty.device.0) / 8;
        let own = self.place.device.part(group.share, floor);
        let mut picture = Picture {
            dirty: dirty.group,
            freerun: Bytes(own.freerun),
            setpoint: Bytes(own.setpoint),
            limit: Bytes(own.limit),
            write_bandwidth: group.bandwidth,
            dirty_rate: BytesPerSec(group.dirty_rate),
            pause: self.last_pause,
            ..Picture::default()
        };
        self.paint(&mut picture, group, dirty.device.0);
        Some(picture)
    }

    fn paint(&self, picture: &mut Picture, group: &Group, dirty: u64) {
        let position = self.position(group, dirty);
        picture.base_rate = BytesPerSec(group.base.rate);
        picture.balanced_rate = BytesPerSec(group.base.balanced);
        picture.task_rate = BytesPerSec(group.base.task_rate(position));
        picture.position_permille = (position * 1_000 / ONE) as u32;
    }
}
