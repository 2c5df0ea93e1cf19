//! From a request in a machine's memory to a job for its device, or to an answer at once.

use super::blk::{Header, Kind, RANGE_BYTES, RANGES_MAX, Range, Status};
use super::chain::{Request, Table, Walk, gather, scatter, take_front, total};
use super::machine::Machine;
use super::pending::{Pending, Place};
use super::regions::Segment;
use super::{REQUEST_BYTES_MAX, SECTOR_BYTES};
use crate::answer::Progress;
use crate::buffer::{Buffer, Lent};
use crate::device::pieces::{Parts, pieces};
use crate::held::{Held, IN_PLACE_BYTES};
use crate::io::target::Target;
use crate::job::Job;
use iopace_core::request::{Cover, Extent, GroupId, Op, Space, TaskId};
use iopace_core::units::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A direct disk takes memory from such places only.
const DIRECT_ALIGN: usize = crate::limits::DIRECT_BLOCK_BYTES as usize;

/// The thread of a machine takes its requests in with this.
pub(super) struct Intake {
    machine: Arc<Machine>,
    /// The target of this machine's flushes, so that it is told of errors that others know.
    flushed: Option<Target>,
    walk: Walk,
    heads: Vec<u16>,
    /// Requests found and not submitted yet.
    batch: Vec<Job>,
    /// Requests of this queue that are answered and not told yet: heads, and bytes written.
    ended: Vec<(u16, u32)>,
    /// Room for reads from the page cache of which the machine's memory is in pieces.
    scratch: Buffer,
}

impl Intake {
    pub(super) fn new(machine: Arc<Machine>) -> Intake {
        let flushed = machine.device.flushed_by_client();
        let (walk, heads, scratch) = (Walk::default(), Vec::new(), Buffer::default());
        let (batch, ended) = (Vec::new(), Vec::new());
        Intake { machine, flushed, walk, heads, batch, ended, scratch }
    }

    /// Takes all that is there in a queue. How many requests.
    pub(super) fn take(&mut self, ring: usize) -> usize {
        let mut heads = std::mem::take(&mut self.heads);
        let machine = Arc::clone(&self.machine);
        match machine.rings[ring].take(&mut heads) {
            Ok(Some(table)) => {
                for (at, &head) in heads.iter().enumerate() {
                    match self.walk.walk(&table, head) {
                        Ok(request) => self.request((ring, head), &table, request),
                        Err(why) => {
                            if !machine.rings[ring].refuse(&heads[at..], why) {
                                break;
                            }
                        }
                    }
                }
                self.tell_ended(ring);
                self.submit();
                machine.call();
            }
            Ok(None) => heads.clear(),
            Err(broken) => {
                heads.clear();
                machine.rings[ring].give_up(broken);
            }
        }
        let count = heads.len();
        self.heads = heads;
        count
    }

    fn tell_ended(&mut self, ring: usize) {
        if !self.ended.is_empty() {
            self.machine.answer(ring, &self.ended);
            self.ended.clear();
        }
    }

    fn submit(&mut self) {
        if !self.batch.is_empty() {
            self.machine.device.submit(&mut self.batch);
            self.machine.payer.end();
        }
    }

    /// The group that pays for the next request: one for all that is submitted together.
    fn payer(&self) -> GroupId {
        self.batch.first().map_or_else(|| self.machine.payer.group(), |first| first.group)
    }

    /// Counts a request in; when there is no room, what was gathered goes first.
    fn admit(&mut self, ring: usize, held: Held) {
        if self.machine.account.try_open(held) {
            return;
        }
        self.tell_ended(ring);
        self.submit();
        self.machine.call();
        self.machine.account.open(held);
    }

    /// A request is answered at once.
    fn end(&mut self, head: u16, request: &Request, status: Status, bytes: u32) {
        request.status.write_from(&[status as u8]);
        self.ended.push((head, bytes + 1));
    }

    fn request(&mut self, (ring, head): (usize, u16), table: &Table, request: Request) {
        let Header { kind, sector } = request.header;
        let status = request.status;
        let place = Place { ring, head, status, regions: Arc::clone(&table.regions) };
        let disk = &self.machine.disk;
        let data = match kind {
            Some(Kind::In) => total(&self.walk.writable),
            _ => total(&self.walk.readable),
        };
        let refused = match kind {
            Some(Kind::In) => !disk.has(sector, data),
            Some(Kind::Out) => disk.read_only || !disk.has(sector, data),
            Some(Kind::Discard | Kind::WriteZeroes) => disk.read_only,
            Some(Kind::Flush | Kind::Id) => false,
            None => return self.end(head, &request, Status::Unsupported, 0),
        };
        if refused || data > REQUEST_BYTES_MAX {
            return self.end(head, &request, Status::IoError, 0);
        }
        let at = |sector: u64, bytes| Extent::new(Bytes(sector * SECTOR_BYTES), Bytes(bytes));
        match kind {
            Some(Kind::In | Kind::Out) if data == 0 => self.end(head, &request, Status::Ok, 0),
            Some(Kind::In) => {
                let extent = at(sector, data).expect("within the disk");
                self.read(place, &request, extent);
            }
            Some(Kind::Out) => {
                let extent = at(sector, data).expect("within the disk");
                self.write(place, extent);
            }
            Some(Kind::Flush) => self.push_small(place, (Op::Flush, Extent::EMPTY), None),
            Some(Kind::Id) => {
                scatter(&self.walk.writable, &self.machine.disk.id);
                let bytes = total(&self.walk.writable).min(self.machine.disk.id.len() as u64);
                self.end(head, &request, Status::Ok, bytes as u32);
            }
            Some(Kind::Discard) => self.ranges(place, &request, Op::Trim),
            _ => self.ranges(place, &request, Op::WriteZeroes),
        }
    }

    /// Memory of the machine that the disk can take as it is: one piece, in a right place.
    fn lend(&self, segments: &[Segment], place: &Place) -> Option<Buffer> {
        let [Segment { start, len }] = *segments else { return None };
        let is_direct = self.machine.device.info().direct;
        if is_direct && (start.addr() % DIRECT_ALIGN != 0 || len % DIRECT_ALIGN != 0) {
            return None;
        }
        let lender = Arc::clone(&place.regions);
        // SAFETY: the regions keep the segment mapped, readable and writable; this program has no
        // reference to memory of a machine, and never looks at data.
        Some(Buffer::on(unsafe { Lent::new(start, len, lender) }))
    }

    fn read(&mut self, place: Place, request: &Request, extent: Extent) {
        let (device, group) = (Arc::clone(&self.machine.device), self.payer());
        let len = extent.len().get() as usize;
        if let Some(mut buffer) = self.lend(&self.walk.writable, &place) {
            if device.read_cached(group, extent, buffer.as_mut_slice()) {
                return self.end(place.head, request, Status::Ok, len as u32);
            }
            let held = Held::without_data();
            self.admit(place.ring, held);
            let pending = self.pending(&place, held).reading(len as u32, Vec::new());
            return self.push(Op::Read, extent, buffer, pending);
        }
        if len <= IN_PLACE_BYTES {
            self.scratch.resize(IN_PLACE_BYTES);
            let scratch = &mut self.scratch.as_mut_slice()[..len];
            if device.read_cached(group, extent, scratch) {
                scatter(&self.walk.writable, scratch);
                return self.end(place.head, request, Status::Ok, len as u32);
            }
        }
        let room = self.walk.writable.clone();
        let mut held = Held::with_data(len, false);
        held.bytes += size_of_val(&*room) as u64;
        self.admit(place.ring, held);
        let pending = self.pending(&place, held).reading(len as u32, room);
        self.push(Op::Read, extent, Buffer::default(), pending);
    }

    fn write(&mut self, place: Place, extent: Extent) {
        let is_paced = !self.machine.device.info().direct && !self.is_write_through();
        if let Some(buffer) = self.lend(&self.walk.readable, &place) {
            let held = Held { is_paced, ..Held::without_data() };
            self.admit(place.ring, held);
            let pending = self.pending(&place, held);
            return self.push(Op::Write, extent, buffer, pending);
        }
        let len = extent.len().get() as usize;
        let held = Held::with_data(len, is_paced);
        self.admit(place.ring, held);
        let mut buffer = Buffer::new(len);
        gather(&self.walk.readable, buffer.as_mut_slice());
        let pending = self.pending(&place, held);
        self.push(Op::Write, extent, buffer, pending);
    }

    /// The ranges of a discard or a write of zeroes, in pieces; answered when all are done.
    fn ranges(&mut self, place: Place, request: &Request, op: Op) {
        let ranges = match self.read_ranges(op) {
            Ok(ranges) => ranges,
            Err(status) => return self.end(place.head, request, status, 0),
        };
        let extents = |range: &Range| {
            let bytes = u64::from(range.count) * SECTOR_BYTES;
            Extent::new(Bytes(range.sector * SECTOR_BYTES), Bytes(bytes)).expect("within the disk")
        };
        let all: Vec<Extent> = ranges.iter().map(extents).flat_map(pieces).collect();
        if all.is_empty() {
            return self.end(place.head, request, Status::Ok, 0);
        }
        let parts = Parts::new(all.len());
        for piece in all {
            self.push_small(place.clone(), (op, piece), Some(&parts));
        }
    }

    /// The ranges, or how the request ends if they make no sense.
    fn read_ranges(&mut self, op: Op) -> Result<Vec<Range>, Status> {
        let (bytes, disk) = (total(&self.walk.readable), &self.machine.disk);
        let count = bytes / RANGE_BYTES as u64;
        if count == 0 || bytes % RANGE_BYTES as u64 != 0 || count > u64::from(RANGES_MAX) {
            return Err(Status::IoError);
        }
        let mut ranges = Vec::new();
        for _ in 0..count {
            let mut bytes = [0; RANGE_BYTES];
            take_front(&mut self.walk.readable, &mut bytes);
            let range = Range::of(&bytes);
            // A discard may not ask for holes: it makes them anyway (section 5.2.6.2).
            if range.flags & !u32::from(op == Op::WriteZeroes) != 0 {
                return Err(Status::Unsupported);
            }
            if !disk.has(range.sector, u64::from(range.count) * SECTOR_BYTES) {
                return Err(Status::IoError);
            }
            ranges.push(range);
        }
        Ok(ranges)
    }

    fn is_write_through(&self) -> bool {
        self.machine.is_write_through.load(Ordering::Acquire)
    }

    fn pending(&self, place: &Place, held: Held) -> Pending {
        Pending::new(Arc::clone(&self.machine), place.clone(), held)
    }

    /// A request without data, or a piece of one.
    fn push_small(
        &mut self,
        place: Place,
        (op, extent): (Op, Extent),
        parts: Option<&Arc<Parts<Status>>>,
    ) {
        let held = Held::without_data();
        self.admit(place.ring, held);
        let mut pending = self.pending(&place, held);
        if let Some(parts) = parts {
            pending = pending.part_of(parts);
        }
        self.push(op, extent, Buffer::default(), pending);
    }

    fn push(&mut self, op: Op, extent: Extent, buffer: Buffer, pending: Pending) {
        let task = TaskId(self.machine.number);
        let group = match self.batch.first() {
            Some(first) => first.group,
            None => self.machine.payer.begin(),
        };
        let (space, cover, progress) = (Space::DISK, Cover::All, Progress::default());
        let target = self.flushed.as_ref().filter(|_| op == Op::Flush).cloned();
        let ticket = Box::new(pending);
        let fua = matches!(op, Op::Write | Op::WriteZeroes) && self.is_write_through();
        let job =
            Job { task, group, op, extent, space, cover, fua, buffer, target, progress, ticket };
        self.batch.push(job);
    }
}
