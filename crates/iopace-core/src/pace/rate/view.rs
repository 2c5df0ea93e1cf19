//! How the rate policy sees groups, for those who look.

use super::Rate;
use super::groups::Group;
use super::position::{Curve, ONE};
use crate::pace::{Dirty, Picture};
use crate::units::{Bytes, BytesPerSec};

impl Rate {
    /// The marks of a group's part of the device's memory.
    pub(super) fn part(&self, group: &Group, dirty: u64) -> Curve {
        let floor = self.place.device.limit.saturating_sub(dirty) / 8;
        self.place.device.part(group.share, floor)
    }

    /// The marks, and the rates of a group.
    pub(super) fn view(&self, group: Option<&Group>, marks: &Curve, dirty: &Dirty) -> Picture {
        let Curve { freerun, setpoint, limit } = *marks;
        let marks = Picture {
            freerun: Bytes(freerun),
            setpoint: Bytes(setpoint),
            limit: Bytes(limit),
            ..Picture::default()
        };
        let Some(group) = group else { return marks };
        let position = self.position(group, dirty.device.0);
        Picture {
            base_rate: BytesPerSec(group.base.rate),
            balanced_rate: BytesPerSec(group.base.balanced),
            task_rate: BytesPerSec(group.base.task_rate(position)),
            position_permille: (position * 1_000 / ONE) as u32,
            pause: self.last_pause,
            ..marks
        }
    }
}
