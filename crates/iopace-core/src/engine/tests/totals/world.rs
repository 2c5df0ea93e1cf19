//! Clients of one group that read and write through the page cache as fast as they are let.

use crate::engine::tests::submit;
use crate::engine::{Config, Control, Engine, Input, Output, Start};
use crate::group::{Limits, Rates, Settings};
use crate::pace::{self, Thresholds};
use crate::request::{Cover, Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
use crate::time::Instant;
use crate::units::Bytes;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SEC: u64 = 1_000 * MS;
pub(super) const MIB: u64 = 1 << 20;

/// What a request takes at the disk, which serves all at once.
const SERVICE: u64 = MS;

/// Clients that ask for the next as soon as they have an answer, without a pause.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now: u64,
    at_disk: BTreeMap<(u64, u64), Start>,
    /// Bytes of a request of each task, and whether it is a buffered write.
    clients: Vec<(u64, bool)>,
    group: GroupId,
    asked_count: u64,
    /// Each client writes to one place, again and again.
    pub(super) is_in_place: bool,
    /// When the last read ended, and the longest time without one since it was set to 0.
    pub(super) read_at: u64,
    pub(super) gap: u64,
    /// Bytes and requests of reads and of buffered writes, and bytes written back.
    pub(super) seen: [[u64; 2]; 2],
    pub(super) written: u64,
    /// Those that do not ask for more.
    pub(super) is_over: [bool; 2],
}

pub(super) fn limited(sustained: Rates) -> Settings {
    Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() }
}

pub(super) fn bps(rate: u64) -> Settings {
    limited(Rates { bps: NonZeroU64::new(rate), ..Rates::default() })
}

pub(super) fn iops(rate: u64) -> Settings {
    limited(Rates { iops: NonZeroU64::new(rate), ..Rates::default() })
}

impl World {
    /// A group below one with other settings.
    pub(super) fn new(above: &Settings, own: &Settings) -> World {
        let memory = Thresholds { background: Bytes(256 * MIB), limit: Bytes(512 * MIB) };
        let pace = pace::find("rate").expect("in the registry");
        let mut engine = Engine::new(Config { memory, pace, ..Config::default() });
        let all = [(GroupId(1), GroupId::ROOT, above), (GroupId(2), GroupId(1), own)];
        for (id, parent, settings) in all {
            let control = Control::SetGroup(id, parent, *settings);
            engine.control(Instant(0), control).expect("a group");
        }
        World {
            engine,
            now: 0,
            at_disk: BTreeMap::new(),
            clients: Vec::new(),
            group: GroupId(2),
            asked_count: 0,
            is_in_place: false,
            read_at: 0,
            gap: 0,
            seen: [[0; 2]; 2],
            written: 0,
            is_over: [false; 2],
        }
    }

    pub(super) fn start(&mut self, count: usize, size: u64, writes: bool) {
        for _ in 0..count {
            self.clients.push((size, writes));
            self.ask(self.clients.len() - 1);
        }
    }

    pub(super) fn ask(&mut self, client: usize) {
        let (size, writes) = self.clients[client];
        if self.is_over[usize::from(writes)] {
            return;
        }
        self.asked_count += 1;
        // Far from each other, so that nothing is written twice or merged.
        let place = if self.is_in_place { client as u64 } else { self.asked_count };
        let offset = Bytes(place * 2 * MIB);
        let extent = Extent::new(offset, Bytes(size)).expect("small");
        let (tag, task, group) = (Tag(client as u64), TaskId(client as u64), self.group);
        let input = match writes {
            true => Input::Dirtied { tag, task, group, area: extent.into() },
            false => {
                Input::Submit(Submit { task, group, extent, ..submit(client as u64, Op::Read, 0) })
            }
        };
        self.engine.handle(Instant(self.now), input);
    }

    /// Asks for one more flush of a place where nothing is dirty, and so on.
    pub(super) fn flush(&mut self, tag: u64) {
        let extent = Extent::EMPTY;
        let flush = Submit { group: self.group, extent, ..submit(tag, Op::Flush, 0) };
        self.engine.handle(Instant(self.now), Input::Flush(flush, Cover::Nothing));
    }

    pub(super) fn run_for(&mut self, time: u64) {
        let end = self.now + time;
        loop {
            match self.engine.poll(Instant(self.now)) {
                Output::Resume(resume) => {
                    let wrote = Input::Wrote { id: resume.id, ok: true };
                    self.engine.handle(Instant(self.now), wrote);
                    self.seen[1][0] += resume.extent.len().get();
                    if resume.last {
                        self.seen[1][1] += 1;
                        self.ask(resume.tag.0 as usize);
                    }
                }
                Output::Start(start) => {
                    if start.write_back {
                        self.written += start.extent.len().get();
                    }
                    self.at_disk.insert((self.now + SERVICE, start.id.sequence), start);
                }
                Output::Finish(finish) if finish.op == Op::Flush => {
                    self.flush(finish.tag.0);
                }
                Output::Finish(finish) => {
                    self.gap = self.gap.max(self.now - self.read_at);
                    self.read_at = self.now;
                    self.seen[0][0] += finish.extent.len().get();
                    self.seen[0][1] += 1;
                    self.ask(finish.tag.0 as usize);
                }
                Output::Cleaned(_) | Output::Event(_) => {}
                Output::Wait(at, _) => {
                    let first = self.at_disk.first_key_value().map_or(u64::MAX, |(key, _)| key.0);
                    self.now = at.0.min(first).min(end).max(self.now);
                    if self.now == end {
                        return;
                    }
                    let due = self.at_disk.first_entry().filter(|one| one.key().0 <= self.now);
                    if let Some(start) = due.map(|one| one.remove()) {
                        let done = Input::Done { id: start.id, outcome: Outcome::Ok };
                        self.engine.handle(Instant(self.now), done);
                    }
                }
            }
        }
    }

    /// What reads and buffered writes had in so many seconds, after as many: of bytes (0) or of
    /// requests (1), per second.
    pub(super) fn rates(&mut self, unit: usize) -> [u64; 2] {
        self.run_for(5 * SEC);
        let before = self.seen;
        self.run_for(5 * SEC);
        [0, 1].map(|kind| (self.seen[kind][unit] - before[kind][unit]) / 5)
    }
}
