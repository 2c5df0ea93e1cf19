//! The flusher at work: dirty memory into line for the disk, flushes behind what they cover.

use super::memory::{Memory, piece};
use super::{Engine, Output};
use crate::admit::Ask;
use crate::flush::{AreaMark, Flusher, Mark, PAGE, Run};
use crate::limits::WRITE_BACK_REQUESTS_MAX;
use crate::request::{Area, Cover, Extent, GroupId, Lane, Op, RequestId, Submit, Tag};
use crate::table::Entry;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Verdict;
use std::collections::VecDeque;

/// How often the flusher learns how much is worth a turn: the interval of the bandwidth estimate.
const CHUNK_INTERVAL: Nanos = Nanos::from_millis(200);

/// Bounds of a turn: one owner's pages in a row. The smallest is what a disk writes while its head
/// could have moved twice; the largest keeps others from waiting for more than a second or two.
const CHUNK_MIN: Bytes = Bytes::from_mib(1);
const CHUNK_MAX: Bytes = Bytes::from_mib(64);

/// A flush that waits for write-back: of everything (`M` is [`Mark`]) or of an area.
#[derive(Debug)]
struct Syncing<M> {
    mark: M,
    submit: Submit,
    since: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    whole: VecDeque<Syncing<Mark>>,
    parts: Vec<Syncing<AreaMark>>,
}

impl Syncs {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.whole.len() + self.parts.len()
    }

    /// Who pays for each, and since when it waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (GroupId, Instant)> {
        let whole = self.whole.iter().map(|sync| (sync.submit.group, sync.since));
        whole.chain(self.parts.iter().map(|sync| (sync.submit.group, sync.since)))
    }

    /// Whether one waits for more than a small sync does.
    fn is_large(&self) -> bool {
        !self.whole.is_empty() || self.parts.iter().any(|part| !part.mark.is_small())
    }

    /// A flush comes and covers so much of what is dirty now. It waits, or nothing of it is dirty:
    /// then whether write-back has failed that no flush has told yet.
    fn begin(
        &mut self,
        (since, submit): (Instant, Submit),
        cover: &Cover,
        flusher: &mut Flusher,
    ) -> Option<bool> {
        match *cover {
            Cover::All => {
                let mark = flusher.sync();
                let waits = !self.whole.is_empty() || !flusher.is_synced(mark);
                self.whole.extend(waits.then_some(Syncing { mark, submit, since }));
                (!waits).then(|| flusher.take_failure())
            }
            Cover::Piece(area) => {
                let mut mark = flusher.sync_area(area);
                let waits = !flusher.is_area_synced(&mut mark);
                self.parts.extend(waits.then_some(Syncing { mark, submit, since }));
                (!waits).then_some(false)
            }
            Cover::Nothing => Some(false),
        }
    }

    /// Those whose write-back is done: how long each has waited for it, and whether it failed.
    fn end(&mut self, now: Instant, flusher: &mut Flusher) -> Vec<(Submit, (Nanos, bool))> {
        let mut ended = Vec::new();
        self.parts.retain_mut(|part| {
            let is_synced = flusher.is_area_synced(&mut part.mark);
            if is_synced {
                // Whether write-back of this area failed is known to who carries the flush out.
                ended.push((part.submit, (now.since(part.since), false)));
            }
            !is_synced
        });
        while self.whole.front().is_some_and(|first| flusher.is_synced(first.mark))
            && let Some(first) = self.whole.pop_front()
        {
            ended.push((first.submit, (now.since(first.since), flusher.take_failure())));
        }
        ended
    }
}

impl Engine {
    /// A flush comes: what it covers and is dirty now has to be written back first. If nothing is:
    /// whether write-back before it failed, untold.
    pub(super) fn sync(&mut self, submit: Submit, cover: &Cover) -> Option<bool> {
        debug_assert!(submit.extent.is_empty(), "a flush has no size: {submit:?}");
        if let Some(recording) = &mut self.recording {
            recording.flush_comes(submit.tag, *cover);
        }
        let Memory { syncs, flusher, .. } = &mut self.memory;
        let has_failed = syncs.begin((self.now, submit), cover, flusher);
        if has_failed.is_none() {
            self.groups.hold(submit.group);
            self.memory.ask();
        }
        has_failed
    }

    /// Flushes whose write-back is done stand in line for the disk.
    fn end_syncs(&mut self) {
        let Memory { syncs, flusher, .. } = &mut self.memory;
        for (submit, written) in syncs.end(self.now, flusher) {
            self.groups.release(submit.group);
            self.enter(&submit, |entry| entry.written = written);
        }
    }

    /// Puts write-back into line, as far as something is due and stage window lets it.
    #[inline]
    pub(super) fn write_back(&mut self) {
        if !self.memory.is_asked(self.now) {
            return;
        }
        if self.memory.has_nothing(self.now) {
            (self.memory.is_asked, self.memory.again) = (false, Instant::NEVER);
            return;
        }
        self.write_back_asked();
    }

    #[inline(never)]
    fn write_back_asked(&mut self) {
        self.end_syncs();
        self.memory.is_asked = false;
        self.memory.again = Instant::NEVER;
        self.learn_chunk();
        self.write_back_urgent();
        self.memory.in_line.is_awaited = self.memory.syncs.is_large();
        while self.has_place() {
            let memory = &mut self.memory;
            let background = memory.frames.used().device.background;
            let pressed = memory.door.is_gated();
            let len = memory.write_back_len;
            let Some(run) = memory.flusher.candidate(self.now, background, pressed, len) else {
                if self.releases() {
                    continue;
                }
                return;
            };
            let (size, group) = (run.area.extent.len(), run.owner.group);
            if self.holds_back(group) {
                continue;
            }
            match self.window.write_back(self.now, &self.memory.in_line, size) {
                Verdict::Pass => {}
                Verdict::Wait(at, _) => {
                    self.memory.again = at.max(self.now + Nanos(1));
                    return;
                }
            }
            let is_closed = self.admit.is_closed(self.now, group, Lane::WriteBack);
            let id = self.put_into_line(run);
            self.stands(group, id, size, is_closed);
            // Its limit is charged before more of it is looked at.
            self.admit_waiting();
        }
    }

    /// What small syncs wait for goes into line like a read: a task waits for it, and stage window
    /// decides about it when it goes to the device.
    fn write_back_urgent(&mut self) {
        while self.has_place() && (self.memory.urgent_count as usize) < WRITE_BACK_REQUESTS_MAX / 2
        {
            let Memory { flusher, parked, write_back_len, .. } = &self.memory;
            let Some(run) = flusher.urgent(*write_back_len, |group| parked.has_urgent(group))
            else {
                return;
            };
            let group = run.owner.group;
            self.memory.urgent_count += 1;
            let id = self.put_into_line(run);
            self.stands_urgent(group, id);
            self.admit_waiting();
        }
    }

    /// Whether there is a place in line for one more.
    fn has_place(&self) -> bool {
        let count = self.memory.in_line.requests_count + self.memory.urgent_count;
        (count as usize) + self.memory.parked.count() < WRITE_BACK_REQUESTS_MAX
    }

    fn put_into_line(&mut self, run: Run) -> RequestId {
        self.memory.flusher.take(&run);
        let extent = within(run.area.extent, self.memory.capacity);
        let submit = Submit {
            tag: Tag(u64::MAX),
            task: run.owner.task,
            group: run.owner.group,
            op: Op::Write,
            extent: Area { extent, ..run.area }.in_order(),
            fua: false,
            sync: run.is_urgent,
        };
        self.enter(&submit, |entry| entry.run = Some(run))
    }

    /// Learns from the measured bandwidth how much is worth a turn: half a second of it, as in the
    /// kernel (`writeback_chunk_size`).
    fn learn_chunk(&mut self) {
        if self.now < self.memory.chunk_at {
            return;
        }
        self.memory.chunk_at = self.now + CHUNK_INTERVAL;
        self.memory.hold(self.now);
        if let Some(turn) = self.memory.pace.turn(self.memory.door.live_count()) {
            self.memory.flusher.set_chunk(turn);
            return;
        }
        let dirty = self.memory.flusher.dirty(GroupId::ROOT);
        let bandwidth = self.memory.pace.picture(&dirty).write_bandwidth.0;
        if bandwidth > 0 {
            let chunk = Bytes(bandwidth / 2).clamp(CHUNK_MIN, CHUNK_MAX);
            self.memory.flusher.set_chunk(chunk);
        }
    }

    /// A run is on the disk, or failed.
    pub(super) fn written_back(&mut self, run: &Run, ok: bool) {
        let (now, group, memory) = (self.now, run.owner.group, &mut self.memory);
        let size = run.area.extent.len();
        if run.is_urgent {
            memory.urgent_count -= 1;
        } else {
            memory.in_line.requests_count -= 1;
            memory.in_line.size = memory.in_line.size - size;
        }
        let cleaned = memory.flusher.done(run, ok);
        // All of it was written, also pages that were dirtied again meanwhile and counted again.
        memory.pace.cleaned(now, group, size, &memory.flusher.dirty(group));
        memory.frames.wrote(size);
        self.tell_cleaned(run.area, cleaned);
        self.memory.ask();
        self.open_gate();
    }

    /// Whether nothing in an area is dirty or on its way to the disk.
    pub fn is_clean(&self, area: Area) -> bool {
        self.memory.flusher.is_clean(area)
    }

    /// Says which pages of an area are clean now.
    fn tell_cleaned(&mut self, area: Area, cleaned: Bytes) {
        if !self.tells_cleaned {
            return;
        }
        if cleaned == area.extent.len() {
            return self.outputs.push_back(Output::Cleaned(area));
        }
        self.tell_clean_pages(area);
    }

    /// The same, page by page.
    #[cold]
    pub(super) fn tell_clean_pages(&mut self, Area { space, extent }: Area) {
        let end = extent.end().get();
        let mut offset = extent.offset().get();
        while offset < end {
            let page = Area { space, extent: piece(offset, PAGE.min(end - offset)) };
            if self.memory.flusher.is_clean(page) {
                self.outputs.push_back(Output::Cleaned(page));
            }
            offset += PAGE;
        }
    }

    /// The content of an area is void: what was dirty there is not.
    pub(super) fn discard(&mut self, area: Area) {
        let mut cleaned = Vec::new();
        self.memory.flusher.discard(area, |group, size| cleaned.push((group, size)));
        if cleaned.is_empty() {
            return;
        }
        for (group, size) in cleaned {
            let memory = &mut self.memory;
            memory.pace.cleaned(self.now, group, size, &memory.flusher.dirty(group));
            self.forget_if_dead(group);
        }
        self.memory.ask();
        self.open_gate();
    }

    /// Submits a request of the engine or of a frontend; `fill` completes its entry.
    pub(super) fn enter(&mut self, submit: &Submit, fill: impl FnOnce(&mut Entry)) -> RequestId {
        let (id, entry) = self.table.enter(self.now, submit);
        fill(entry);
        let is_write_back = entry.run.is_some();
        let Submit { task, group, sync, .. } = *submit;
        entry.request.account = self.accounting.arrived(self.now, task, group);
        self.groups.arrived(self.now, group, sync);
        if self.admit.pass(group, submit.limit_bytes()) {
            self.admitted(id, false, Nanos::ZERO);
        } else {
            let lane = if is_write_back { Lane::WriteBack } else { Lane::of(submit.op) };
            self.admit.enqueue(self.now, Ask { lane, ..Ask::new(id, submit) });
            self.is_changed = true;
        }
        id
    }
}

/// Keeps whole pages within the device, whose size need not be a multiple of a page.
fn within(extent: Extent, capacity: Bytes) -> Extent {
    let end = extent.end().min(capacity).max(extent.offset());
    piece(extent.offset().get(), (end - extent.offset()).get())
}
