//! Memory at work for the disk: dirty memory into line, flushes behind what they cover.

use super::{Memory, piece};
use crate::engine::context::Context;
use crate::engine::queue::{Admitted, Queue};
use crate::flush::Run;
use crate::limits::WRITE_BACK_REQUESTS_MAX;
use crate::request::{Area, Cover, Extent, GroupId, Op, RequestId, Space, Submit, Tag};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, PAGE};
use crate::verdict::Verdict;

/// How often the flusher learns how much is worth a turn: the interval of the bandwidth estimate.
const CHUNK_INTERVAL: Nanos = Nanos::from_millis(200);

/// Bounds of a turn: one owner's pages in a row. The smallest is what a disk writes while its head
/// could have moved twice; the largest keeps others from waiting for more than a second or two.
const CHUNK_MIN: Bytes = Bytes::from_mib(1);
const CHUNK_MAX: Bytes = Bytes::from_mib(64);

/// A group below a limit is written back when more than this part of a second's worth of the limit
/// is dirty. The limit paces its writers and its write-back alike: what write-back leaves lie while
/// they write has to go at the limit afterwards, in a sync, so that the limit would be paid twice.
/// A quarter: little of a sync, and runs of full length from half a MiB per second on. The kernel
/// scales the background threshold of a `bdi_writeback` by its bandwidth likewise.
const LIMITED_BACKGROUND: u64 = 4;

impl Memory {
    /// A flush comes: what it covers and is dirty now has to be written back first. If nothing is:
    /// whether write-back before it failed, untold.
    pub(in crate::engine) fn sync(
        &mut self,
        cx: &mut Context,
        submit: &Submit,
        cover: &Cover,
    ) -> Option<bool> {
        debug_assert!(submit.extent.is_empty(), "a flush has no size: {submit:?}");
        let has_failed = self.syncs.begin((cx.now, *submit), cover, &mut self.flusher);
        if has_failed.is_none() {
            cx.groups.hold(submit.group);
            self.is_asked = true;
        }
        has_failed
    }

    /// Puts write-back into line, as far as something is due and stage window lets it.
    #[inline]
    pub(in crate::engine) fn write_back(&mut self, queue: &mut Queue, cx: &mut Context) {
        if !(self.is_asked || self.again <= cx.now || self.flusher.next_expiry() <= cx.now) {
            return;
        }
        (self.is_asked, self.again) = (false, Instant::NEVER);
        if !self.has_nothing() {
            self.write_back_asked(queue, cx);
        } else if cx.now >= self.chunk_at {
            self.learn_chunk(queue, cx);
        }
    }

    #[inline(never)]
    fn write_back_asked(&mut self, queue: &mut Queue, cx: &mut Context) {
        let now = cx.now;
        // Flushes whose write-back is done stand in line for the disk.
        for (submit, (written, is_lost)) in self.syncs.end(cx.now, &mut self.flusher) {
            cx.groups.release(submit.group);
            queue.enter(cx, &submit, |entry| {
                (entry.written, entry.is_lost) = (written, is_lost);
            });
        }
        self.learn_chunk(queue, cx);
        self.write_back_urgent(queue, cx);
        self.in_line.is_awaited = self.syncs.is_large();
        while self.has_place() {
            let background = self.frames.used().device.background;
            let pressed = self.door.is_gated();
            let run = self.flusher.candidate(cx.now, background, pressed, self.write_back_len);
            let Some(run) = run else {
                if self.parked.releases(&mut self.flusher) {
                    continue;
                }
                return;
            };
            let (size, group) = (run.area.extent.len(), run.owner.group);
            let is_closed = || queue.is_closed(cx, group);
            if self.parked.holds_back(&mut self.flusher, group, is_closed) {
                continue;
            }
            if let Verdict::Wait(at, _) = queue.may_write_back(cx.now, &self.in_line, size) {
                self.again = at.max(cx.now + Nanos(1));
                return;
            }
            let is_closed = queue.is_closed(cx, group);
            let id = self.put_into_line(queue, cx, run);
            if !(is_closed && queue.is_waiting(id) && self.parked.park(group, id)) {
                self.stands_in_line(size);
            }
            // Its limit is charged before more of it is looked at.
            queue.admit_waiting(cx, &mut |admitted| self.admitted(now, admitted));
        }
    }

    /// Write-back of small syncs goes into line like a read: a task waits for it, and stage window
    /// decides about it when it goes to the device.
    fn write_back_urgent(&mut self, queue: &mut Queue, cx: &mut Context) {
        let now = cx.now;
        while self.has_place() && (self.urgent_count as usize) < WRITE_BACK_REQUESTS_MAX / 2 {
            let is_passed_over = |group| self.parked.urgent.contains_key(&group);
            let Some(run) = self.flusher.urgent(self.write_back_len, is_passed_over) else {
                return;
            };
            let group = run.owner.group;
            self.urgent_count += 1;
            let id = self.put_into_line(queue, cx, run);
            if queue.is_waiting(id) && queue.is_closed(cx, group) {
                self.parked.urgent.insert(group, id);
            }
            queue.admit_waiting(cx, &mut |admitted| self.admitted(now, admitted));
        }
    }

    /// Whether there is a place in line for one more.
    fn has_place(&self) -> bool {
        let count = self.in_line.requests_count + self.urgent_count;
        (count as usize) + self.parked.count() < WRITE_BACK_REQUESTS_MAX
    }

    fn stands_in_line(&mut self, size: Bytes) {
        self.in_line.requests_count += 1;
        self.in_line.size += size;
    }

    fn put_into_line(&mut self, queue: &mut Queue, cx: &mut Context, run: Run) -> RequestId {
        self.flusher.take(&run);
        let Area { space, extent } = run.area;
        let extent = if space == Space::DISK { within(extent, self.capacity) } else { extent };
        let submit = Submit {
            tag: Tag(u64::MAX),
            task: run.owner.task,
            group: run.owner.group,
            op: Op::Write,
            extent,
            fua: false,
            sync: run.is_urgent,
        };
        queue.enter(cx, &submit, |entry| (entry.request.space, entry.run) = (space, Some(run)))
    }

    /// A request that waited was admitted. Limits of reads and writes together were charged: the
    /// door has to know. Write-back that was parked is in line now.
    pub(in crate::engine) fn admitted(&mut self, now: Instant, admitted: Admitted) {
        for (group, total) in admitted.totals {
            self.pace.admitted(now, group, total);
        }
        let Some((id, group, size)) = admitted.run else { return };
        if self.parked.urgent.get(&group) == Some(&id) {
            self.parked.urgent.remove(&group);
            self.is_asked = true;
        } else if self.parked.leave(&mut self.flusher, group, id) {
            self.stands_in_line(size);
            self.is_asked = true;
        }
    }

    /// Learns from the measured bandwidth how much is worth a turn: half a second of it, as in the
    /// kernel (`writeback_chunk_size`); and how much may be dirty for the sake of those who read.
    fn learn_chunk(&mut self, queue: &Queue, cx: &Context) {
        if cx.now < self.chunk_at {
            return;
        }
        self.chunk_at = cx.now + CHUNK_INTERVAL;
        let dirty = self.flusher.dirty(GroupId::ROOT);
        let read_at = queue.read_at().filter(|_| self.pace.spares_frames());
        if self.frames.look(cx.now, dirty.device, read_at) {
            self.use_budget(cx.now);
        }
        if let Some(turn) = self.pace.turn(self.door.live_count()) {
            self.flusher.set_chunk(turn);
            return;
        }
        let bandwidth = self.pace.picture(&dirty).write_bandwidth.0;
        if bandwidth > 0 {
            let chunk = Bytes(bandwidth / 2).clamp(CHUNK_MIN, CHUNK_MAX);
            self.flusher.set_chunk(chunk);
        }
    }

    /// A run is on the disk, or failed.
    #[inline(never)]
    pub(in crate::engine) fn written_back(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        (run, ok): (Run, bool),
    ) {
        let (group, size) = (run.owner.group, run.area.extent.len());
        if run.is_urgent {
            self.urgent_count -= 1;
        } else {
            self.in_line.requests_count -= 1;
            self.in_line.size = self.in_line.size - size;
        }
        let cleaned = self.flusher.done(&run, ok);
        // All of it was written, also pages that were dirtied again meanwhile and counted again.
        self.pace.cleaned(cx.now, group, size, &self.flusher.dirty(group), &cx.groups.table);
        self.frames.wrote(size);
        if self.tells_cleaned {
            match cleaned == run.area.extent.len() {
                true => cx.outputs.cleaned(run.area),
                false => self.tell_clean_pages(cx, run.area),
            }
        }
        self.is_asked = true;
        self.open_gate(queue, cx);
    }

    /// Says which pages of an area are clean now, page by page.
    #[cold]
    pub(in crate::engine) fn tell_clean_pages(
        &self,
        cx: &mut Context,
        Area { space, extent }: Area,
    ) {
        let end = extent.end().get();
        let mut offset = extent.offset().get();
        while offset < end {
            let page = Area { space, extent: piece(offset, PAGE.min(end - offset)) };
            if self.flusher.is_clean(page) {
                cx.outputs.cleaned(page);
            }
            offset += PAGE;
        }
    }

    /// The content of an area is void: what was dirty there is not.
    pub(in crate::engine) fn discard(&mut self, queue: &mut Queue, cx: &mut Context, area: Area) {
        let mut cleaned = Vec::new();
        self.flusher.discard(area, |group, size| cleaned.push((group, size)));
        if cleaned.is_empty() {
            return;
        }
        for (group, size) in cleaned {
            self.pace.cleaned(cx.now, group, size, &self.flusher.dirty(group), &cx.groups.table);
            cx.left(group);
        }
        self.is_asked = true;
        self.open_gate(queue, cx);
    }

    // The drive contract.

    /// When something happens here by itself.
    pub(in crate::engine) fn next(&self, now: Instant) -> Instant {
        if self.flusher.is_empty() {
            return self.door.next().0.min(self.again);
        }
        let expiry = self.flusher.next_due();
        // A page that is too old already waits for the window, which answers by an instant or an
        // event.
        let expiry = if expiry > now { expiry } else { Instant::NEVER };
        self.door.next().0.min(self.again).min(expiry)
    }

    /// A request has ended, or the window is another one: write-back may go on. False if that
    /// changes nothing here.
    #[inline]
    pub(in crate::engine) fn ask(&mut self, now: Instant) -> bool {
        if now < self.quiet_until {
            return false;
        }
        self.is_asked = true;
        true
    }

    /// Ends a look. With nothing to write back it is quiet until the flusher is to learn: being
    /// asked changes nothing until then, so reads alone never go through write-back.
    #[inline]
    pub(in crate::engine) fn is_quiet(&mut self, now: Instant) -> bool {
        self.quiet_until = if self.has_nothing() { self.chunk_at } else { Instant::ZERO };
        now < self.quiet_until
    }

    /// Whether there is nothing to write back, and nobody waits for write-back.
    #[inline]
    fn has_nothing(&self) -> bool {
        self.flusher.is_empty()
            && self.syncs.count() == 0
            && !self.in_line.is_awaited
            && self.parked.is_empty()
    }
}

/// How much of a group with that limit, in bytes per second, stays dirty without being written
/// back.
pub(super) fn limited_background(rate: u64) -> Bytes {
    Bytes(rate / LIMITED_BACKGROUND)
}

/// Keeps whole pages within the device, whose size need not be a multiple of a page.
fn within(extent: Extent, capacity: Bytes) -> Extent {
    let end = extent.end().min(capacity).max(extent.offset());
    piece(extent.offset().get(), (end - extent.offset()).get())
}
