//! The requests of a recording, as a device gets them again.

use super::format::{RecordingFile, Request};
use iopace_core::request::{Area, Cover, Extent, GroupId, Op, Space, Submit, Tag, TaskId};
use iopace_core::units::Bytes;
use iopace_disk::modelled::{self, Io};
use std::collections::BTreeMap;

/// Bytes that every disk can address.
const SECTOR: u64 = 512;

/// Each pass lies so much further on the disk than the one before, so that what that one has left
/// in the disk's cache is not read, or written over, a second time. Distances stay as they were.
const PASS_APART: u64 = 1 << 30;

/// A request on its way.
pub(super) struct Again {
    pub(super) place: usize,
    pub(super) io: Io,
    pub(super) cover: Cover,
}

impl modelled::Asked for Again {
    fn io(&self) -> Io {
        self.io
    }

    fn cover(&self) -> Cover {
        self.cover
    }
}

/// The load of a recording, on a disk.
#[derive(Debug)]
pub(super) struct RecordedLoad<'a> {
    pub(super) file: &'a RecordingFile,
    /// By number in the file.
    group_ids: BTreeMap<u64, GroupId>,
    /// Where each space begins on the disk.
    places: BTreeMap<u32, u64>,
    capacity: u64,
    /// Requests of tasks that were there until the end.
    pub(super) constant: BTreeMap<TaskId, usize>,
}

impl<'a> RecordedLoad<'a> {
    /// The load on a disk of that capacity, with the groups by their numbers in the file.
    pub(super) fn new(
        file: &'a RecordingFile,
        group_ids: BTreeMap<u64, GroupId>,
        capacity: Bytes,
    ) -> RecordedLoad<'a> {
        let (places, constant) = (places(&file.requests), constant(file));
        RecordedLoad {
            file,
            group_ids,
            places,
            capacity: capacity.get() / SECTOR * SECTOR,
            constant,
        }
    }

    /// The request, as the device gets it in that pass.
    pub(super) fn again(&self, place: usize, pass: u64) -> Again {
        let one = &self.file.requests[place];
        let area = self.area(one, pass);
        let cover = match (one.flags.has('p'), one.flags.has('n')) {
            (true, _) => Cover::Piece(area),
            (_, true) => Cover::Nothing,
            _ => Cover::All,
        };
        let is_flush = one.op == Op::Flush;
        let submit = Submit {
            tag: Tag(0),
            task: TaskId(one.task),
            group: self.group_ids.get(&one.group).copied().unwrap_or(GroupId::ROOT),
            op: one.op,
            extent: if is_flush { Extent::EMPTY } else { area.extent },
            fua: one.flags.has('f'),
            sync: !one.flags.has('a'),
        };
        let buffered = one.flags.has('b') && self.file.header.pace.is_some();
        Again { place, io: Io { submit, buffered }, cover }
    }

    /// Its place on the disk: spaces lie one behind the other, and at the end it goes on at the
    /// beginning.
    fn area(&self, one: &Request, pass: u64) -> Area {
        let base =
            self.places.get(&one.space).copied().unwrap_or(0).saturating_add(pass * PASS_APART);
        let length = one.length.min(self.capacity);
        let mut offset = base.saturating_add(one.offset);
        if offset.saturating_add(length) > self.capacity {
            offset %= (self.capacity - length).max(SECTOR) / SECTOR * SECTOR;
        }
        let offset = offset.min(self.capacity - length);
        let extent = Extent::new(Bytes(offset), Bytes(length)).unwrap_or_default();
        Area { space: Space::DISK, extent }
    }
}

/// Where each space begins: one behind the other.
fn places(requests: &[Request]) -> BTreeMap<u32, u64> {
    let mut spans: BTreeMap<u32, u64> = BTreeMap::new();
    for one in requests {
        let span = spans.entry(one.space).or_default();
        *span = (*span).max(one.offset.saturating_add(one.length));
    }
    let mut next = 0_u64;
    for span in spans.values_mut() {
        let begin = next;
        next = next.saturating_add(span.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX));
        *span = begin;
    }
    spans
}

/// How many requests each task has that was there in the last tenth of the recording.
fn constant(file: &RecordingFile) -> BTreeMap<TaskId, usize> {
    let mut tasks: BTreeMap<TaskId, (usize, i64)> = BTreeMap::new();
    for one in file.requests.iter().filter(|one| one.is_of_client()) {
        let (count, last) = tasks.entry(TaskId(one.task)).or_default();
        (*count, *last) = (*count + 1, one.done_ns);
    }
    let bound = (file.length_ns() / 10 * 9).cast_signed();
    let there = tasks.into_iter().filter(|(_, (_, last))| *last >= bound);
    there.map(|(task, (count, _))| (task, count)).collect()
}
