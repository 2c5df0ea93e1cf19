//! A buffered write, from the door until it is in memory: where it stands, and what it waited for.

use crate::request::{Area, Extent, GroupId, Op, StageTimes, Submit, Tag, TaskId};
use crate::stats::TaskPlace;
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Reason;

/// Where a write stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteStage {
    /// Behind another one of its task.
    Line,
    /// Stage pace says when to ask again, and why.
    Pace(Instant, Reason),
    /// So much of it has passed and waits for room.
    Gate(Bytes),
    /// A portion is on its way into memory; so much memory is promised for it.
    Writing { size: Bytes, promised: Bytes },
}

/// A buffered write that is not in memory as a whole.
#[derive(Debug)]
pub(super) struct BufferedWrite {
    pub(super) sequence: u64,
    pub(super) tag: Tag,
    pub(super) task: TaskId,
    pub(super) group: GroupId,
    /// All of it.
    pub(super) size: Extent,
    /// The part that is not in memory yet.
    pub(super) rest: Area,
    pub(super) arrived: Instant,
    /// When the present portion was first asked for.
    pub(super) asked: Instant,
    pub(super) stand: WriteStage,
    /// Its task's account.
    pub(super) place: TaskPlace,
    /// What it has waited for until `since`. While it stands in line: the reading of the line's
    /// clocks when it came.
    pub(super) waited: StageTimes,
    pub(super) since: Instant,
    /// Its number in the shadow's line; 0 for none.
    pub(super) followed: u64,
}

impl BufferedWrite {
    /// The write in the words of a request.
    pub(super) fn submit(&self) -> Submit {
        let (tag, op, fua, sync) = (Tag(0), Op::Write, false, true);
        Submit { tag, task: self.task, group: self.group, op, extent: self.size, fua, sync }
    }

    /// Why it is not further yet, if that is for itself to say.
    pub(super) fn reason(&self) -> Option<Reason> {
        match self.stand {
            WriteStage::Pace(_, reason) => Some(reason),
            WriteStage::Gate(_) => Some(Reason::Memory),
            WriteStage::Line | WriteStage::Writing { .. } => None,
        }
    }
}
