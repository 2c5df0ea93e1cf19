//! Merging: requests that adjoin each other go to the device as one command.
//!
//! # Model
//! When the scheduler has handed over a request, the *lead*, requests are looked for that are still
//! queued and continue it, behind its end (a back merge) or before its beginning (a front merge),
//! as the block layer of Linux does with bios:
//! ```text
//!   queued:   [ 3 ][ 4 ]      [ 7 ]          popped: [ 5 ], the lead
//!   command:  [ 3 ][ 4 ][ 5 ]                one place of the window, one command of the disk
//! ```
//! That is at dispatch and not, as in Linux, at insertion. What is queued stays a request of its
//! own until it goes: whatever stage it is in, it has its tag, its slot and its account, schedulers
//! never see a request that grows, and nothing has to be split again. A request that has waited for
//! a place in the window has met all the neighbours that it would have met in the queue.
//!
//! The scheduler takes what joins out of its queue ([`Scheduler::join`]), and books it for the task
//! as if it had popped it; one that does not do so has nothing merged. Each part of a command is
//! started and completed by itself, so limits, weights, guarantees and accounts are those of
//! requests. The window counts the command.
//!
//! # Properties
//! 1. The parts of a command are of one task and group, in one direction, all of them awaited or
//!    none, all write-back or none; none is a flush, has FUA or is paid for by a guarantee; and
//!    they are contiguous.
//! 2. A command has at most `merge_max` bytes and [`MERGE_PARTS_MAX`] parts, if its lead alone is
//!    not larger.
//! 3. Whatever is merged, every request starts once and ends once, with the outcome that the device
//!    has told for it.
//! 4. Without it ([`super::super::Config::merge_max`] of zero) nothing is kept or looked up.
//!
//! # Limits
//! Neighbours meet only in the queue: as long as the window has room a request goes alone, unless
//! its neighbours came at the same instant. `iops` limits count parts, as in cgroup v2, where bios
//! are counted before they are merged.
//!
//! # Sources
//! Linux block/elevator.c and blk-merge.c (`ELEVATOR_BACK_MERGE`, `ELEVATOR_FRONT_MERGE`,
//! `blk_rq_merge_ok`); tasks are kept apart as in cfq (`cfq_allow_merge`) and bfq.
//!
//! [`Scheduler::join`]: crate::sched::Scheduler::join

use crate::limits::MERGE_PARTS_MAX;
use crate::request::{Done, Extent, GroupId, Op, RequestId, Space, Submit, TaskId};
use crate::sched::guard::Guard;
use crate::table::{Entry, RequestState, Table};
use crate::time::Instant;
use crate::trace::Fault;
use crate::units::Bytes;
use crate::window::Window;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The properties that all parts of a command have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CommandKind {
    task: TaskId,
    group: GroupId,
    op: Op,
    space: Space,
    is_awaited: bool,
    is_write_back: bool,
}

impl CommandKind {
    /// The kind of a request; `None` if it goes alone.
    fn of(entry: &Entry) -> Option<CommandKind> {
        let Submit { task, group, op, sync, fua, .. } = entry.request.submit;
        // Files of a mount are written back one run at a time.
        let space = entry.request.space;
        let is_of_file = entry.run.is_some() && space != Space::DISK;
        let is_transfer = matches!(op, Op::Read | Op::Write) && !is_of_file;
        let is_ordinary = !fua && !entry.request.is_reserved();
        let is_write_back = entry.run.is_some();
        let kind = CommandKind { task, group, op, space, is_awaited: sync, is_write_back };
        (is_transfer && is_ordinary).then_some(kind)
    }
}

/// Less than the name of any other request, or equal to it.
const LEAST: RequestId = RequestId { slot: 0, sequence: 0 };

/// Queued requests by where they begin, or by where they end.
#[derive(Debug, Default)]
struct Places(BTreeSet<(CommandKind, Bytes, RequestId)>);

impl Places {
    /// One that is there.
    fn at(&self, kind: CommandKind, at: Bytes) -> Option<RequestId> {
        let &(of, there, id) = self.0.range((kind, at, LEAST)..).next()?;
        ((of, there) == (kind, at)).then_some(id)
    }
}

/// The merging of a device.
#[derive(Debug)]
pub(super) struct Merge {
    max: Bytes,
    begins: Places,
    ends: Places,
    /// The parts of the command that goes next, in order of position.
    parts: VecDeque<RequestId>,
    /// The extents of commands at the device by their leads, if the window learns.
    commands: BTreeMap<RequestId, Extent>,
    joined_count: u64,
}

impl Merge {
    /// Commands of at most so many bytes; zero: no merging.
    pub(super) fn up_to(max: Bytes) -> Option<Box<Merge>> {
        (max > Bytes::ZERO).then(|| {
            Box::new(Merge {
                max,
                begins: Places::default(),
                ends: Places::default(),
                parts: VecDeque::new(),
                commands: BTreeMap::new(),
                joined_count: 0,
            })
        })
    }

    /// Requests that went in the command of another one.
    pub(super) fn joined_count(&self) -> u64 {
        self.joined_count
    }

    /// A request goes into the scheduler.
    #[inline(never)]
    pub(super) fn enter(&mut self, id: RequestId, table: &Table) {
        let Some((kind, extent)) = known(id, table) else { return };
        self.begins.0.insert((kind, extent.offset(), id));
        self.ends.0.insert((kind, extent.end(), id));
    }

    /// A request leaves it: its kind and extent, if others may join it.
    fn leave(&mut self, id: RequestId, table: &Table) -> Option<(CommandKind, Extent)> {
        let (kind, extent) = known(id, table)?;
        self.begins.0.remove(&(kind, extent.offset(), id));
        self.ends.0.remove(&(kind, extent.end(), id));
        Some((kind, extent))
    }

    /// The queued request that continues what there is of a command, at its end or its beginning.
    fn next(&self, kind: CommandKind, whole: Extent, is_back: bool) -> Option<RequestId> {
        match is_back {
            true => self.begins.at(kind, whole.end()),
            false => self.ends.at(kind, whole.offset()),
        }
    }

    /// Makes a command of a request that was popped and of those that adjoin it. Its parts are
    /// known then, also if the scheduler fails. `is_told`: the window is told of commands.
    pub(super) fn gather(
        &mut self,
        now: Instant,
        lead: RequestId,
        sched: &mut Guard,
        table: &mut Table,
        is_told: bool,
    ) -> Result<(), Fault> {
        self.parts.clear();
        self.parts.push_back(lead);
        let Some((kind, mut whole)) = self.leave(lead, table) else { return Ok(()) };
        for is_back in [true, false] {
            while let Some(id) = self.next(kind, whole, is_back) {
                let joined = table[id].extent();
                let is_full =
                    self.parts.len() >= MERGE_PARTS_MAX || whole.len() + joined.len() > self.max;
                if is_full || !sched.join(now, id, lead, table)? {
                    break;
                }
                self.leave(id, table);
                table.join(id);
                self.joined_count += 1;
                match is_back {
                    true => self.parts.push_back(id),
                    false => self.parts.push_front(id),
                }
                let offset = whole.offset().min(joined.offset());
                whole = Extent::new(offset, whole.len() + joined.len()).expect("both fit");
            }
        }
        if is_told && !self.is_single() {
            self.commands.insert(lead, whole);
        }
        Ok(())
    }

    /// Whether the request that was popped goes alone.
    pub(super) fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// The next part of the command that goes, and whether more follow.
    pub(super) fn take_part(&mut self) -> Option<(RequestId, bool)> {
        let id = self.parts.pop_front()?;
        Some((id, !self.parts.is_empty()))
    }

    /// The size that the window is told of a request that starts: that of the command for its lead,
    /// nothing for those that joined it.
    #[inline(always)]
    pub(super) fn size_told(
        merge: &Option<Box<Merge>>,
        id: RequestId,
        entry: &Entry,
    ) -> Option<Bytes> {
        let own = entry.request.extent().len();
        match merge {
            None => Some(own),
            Some(_) if entry.state() == RequestState::Joined => None,
            Some(merge) => Some(merge.commands.get(&id).map_or(own, |whole| whole.len())),
        }
    }

    /// Tells the window of a request that is done.
    #[inline(always)]
    pub(super) fn tell_done(
        merge: &mut Option<Box<Merge>>,
        window: &mut dyn Window,
        now: Instant,
        is_joined: bool,
        done: Done,
    ) {
        let Some(merge) = merge else { return window.on_done(now, &done) };
        if is_joined {
            return window.on_joined_done(now, &done);
        }
        let extent = merge.commands.remove(&done.id).unwrap_or(done.extent);
        window.on_done(now, &Done { extent, ..done });
    }

    /// Another window knows no command that is at the device.
    pub(super) fn forget_commands(&mut self) {
        self.commands.clear();
    }
}

/// The kind and the place of a request that others may join.
fn known(id: RequestId, table: &Table) -> Option<(CommandKind, Extent)> {
    let entry = table.entry(id)?;
    Some((CommandKind::of(entry)?, entry.request.extent()))
}
