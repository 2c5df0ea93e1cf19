//! Write-back of groups whose limit is used up, and of the others beside it. The disk takes 1 ms
//! for each request.

use super::*;
use crate::group::{Limits, Rates, Settings};
use crate::limits::WRITE_BACK_REQUESTS_MAX;
use crate::pace;
use core::num::NonZeroU64;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;
const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

const LIMITED: u32 = 1;
const FREE: u32 = 2;

fn wbps(rate: u64) -> Settings {
    let sustained = Rates { wbps: NonZeroU64::new(rate), ..Rates::default() };
    Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() }
}

/// An engine, its disk, and what was written back when, by group.
struct World {
    engine: Engine,
    now: u64,
    wait: Instant,
    disk: VecDeque<(u64, RequestId)>,
    written: Vec<(u64, u32)>,
    /// When each write was in memory as a whole, and each sync done.
    ended: Vec<u64>,
}

impl World {
    fn new() -> World {
        World::with(&pace::none::POLICY)
    }

    fn with(pace: &'static pace::PacePolicy) -> World {
        let gib = |count: u64| Bytes(count << 30);
        let memory = Thresholds { background: gib(1), limit: gib(2) };
        let engine = Engine::new(Config { window_depth: 8, memory, pace, ..Config::default() });
        let (disk, written) = (VecDeque::new(), Vec::new());
        let ended = Vec::new();
        let mut world = World { engine, now: 1, wait: Instant::NEVER, disk, written, ended };
        world.drain();
        world
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(Instant(self.now)) {
                Output::Start(start) => {
                    self.written.push((self.now, (start.extent.offset().get() >> 40) as u32));
                    self.disk.push_back((self.now + MS, start.id));
                }
                Output::Resume(resume) => {
                    let input = Input::Wrote { id: resume.id, ok: true };
                    self.engine.handle(Instant(self.now), input);
                    self.ended.extend(resume.last.then_some(self.now));
                }
                Output::Finish(_) => self.ended.push(self.now),
                Output::Wait(at, _) => return self.wait = at,
                _ => {}
            }
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let done = self.disk.front().map_or(u64::MAX, |(at, _)| *at);
            let next = done.min(self.wait.0);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
            if done == next {
                let (_, id) = self.disk.pop_front().expect("one is there");
                let input = Input::Done { id, outcome: Outcome::Ok };
                self.engine.handle(Instant(self.now), input);
            }
            self.drain();
        }
    }

    fn group(&mut self, id: u32, parent: GroupId, settings: Settings) {
        let control = Control::SetGroup(GroupId(id), parent, settings);
        self.engine.control(Instant(self.now), control).expect("legal");
        self.drain();
    }

    fn extent(group: u32, at: u64, len: u64) -> Extent {
        Extent::new(Bytes((u64::from(group) << 40) + at), Bytes(len)).expect("small")
    }

    fn write(&mut self, group: u32, at: u64, len: u64) {
        let (tag, task) = (Tag(0), TaskId(u64::from(group)));
        let extent = World::extent(group, at, len);
        let input = Input::Dirtied { tag, task, group: GroupId(group), area: extent.into() };
        self.engine.handle(Instant(self.now), input);
        self.drain();
    }

    fn sync(&mut self, group: u32, at: u64, len: u64) {
        let (tag, task, op) = (Tag(1), TaskId(u64::from(group)), Op::Flush);
        let cover = Cover::Piece(World::extent(group, at, len).into());
        let (group, extent) = (GroupId(group), Extent::EMPTY);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        self.engine.handle(Instant(self.now), Input::Flush(submit, cover));
        self.drain();
    }

    /// Until so many writes and syncs have ended: when the last one did.
    fn until(&mut self, count: usize) -> u64 {
        while self.ended.len() < count {
            assert!(self.now < 3600 * SEC, "{} of {count}", self.ended.len());
            self.run_until(self.now + MS);
        }
        self.ended[count - 1]
    }

    fn written_of(&self, group: u32) -> impl Iterator<Item = u64> + '_ {
        self.written.iter().filter(move |(_, of)| *of == group).map(|(at, _)| *at)
    }
}

#[test]
fn a_limited_group_has_one_run_that_waits_and_none_in_line() {
    let mut world = World::new();
    world.group(LIMITED, GroupId::ROOT, wbps(512));
    (0..16).for_each(|mib| world.write(LIMITED, mib * MIB, MIB));
    world.run_until(100 * SEC);
    let waiting = world.engine.status().waiting_count;
    assert_eq!((waiting, world.engine.memory.runs_count()), (1, (1, 0)));
}

#[test]
fn what_is_old_of_others_does_not_wait_for_the_limit() {
    let mut world = World::new();
    world.group(LIMITED, GroupId::ROOT, wbps(512));
    world.group(FREE, GroupId::ROOT, Settings::default());
    (0..32).for_each(|mib| world.write(LIMITED, mib * MIB, MIB));
    world.run_until(20 * SEC);
    world.write(FREE, 0, MIB);
    world.run_until(600 * SEC);
    let first = world.written_of(FREE).next().expect("written back");
    assert!((50 * SEC..=51 * SEC).contains(&first), "{first}");
}

#[test]
fn groups_without_a_place_to_wait_are_not_forgotten() {
    let (mut world, count) = (World::new(), WRITE_BACK_REQUESTS_MAX as u32 + 200);
    world.group(1, GroupId::ROOT, wbps(PAGE));
    let children = 2..count + 2;
    children.clone().for_each(|id| world.group(id, GroupId(1), Settings::default()));
    children.for_each(|id| world.write(id, 0, PAGE));
    world.run_until(35 * SEC);
    assert!(world.written.len() < count as usize);
    world.group(1, GroupId::ROOT, Settings::default());
    world.run_until(60 * SEC);
    assert_eq!(world.written.len(), count as usize);
}

#[test]
fn small_syncs_of_a_limited_group_hold_up_nobody() {
    let mut world = World::new();
    world.group(LIMITED, GroupId::ROOT, wbps(PAGE));
    world.group(FREE, GroupId::ROOT, Settings::default());
    // More than there are places: 80 files with every other page of 32 dirty.
    for file in 0..80 {
        (0..16).for_each(|page| world.write(LIMITED, (file << 24) + page * 2 * PAGE, PAGE));
    }
    (0..80).for_each(|file| world.sync(LIMITED, file << 24, MIB));
    (0..64).for_each(|mib| world.write(FREE, mib * MIB, MIB));
    let (begin, piece) = (world.now, MIB);
    world.sync(FREE, 0, 64 * MIB);
    world.write(FREE, 1 << 30, PAGE);
    world.sync(FREE, 1 << 30, piece);
    world.run_until(begin + 3600 * SEC);
    let last = world.written_of(FREE).last().expect("written back");
    // 64 MiB in runs of 128 KiB, and a page, 1 ms each, eight at a time.
    assert!(last - begin < SEC, "{} ms", (last - begin) / MS);
}

/// `dd conv=fsync` by a group with such settings, in one whose settings are the others: `count`
/// writes of `len` bytes, each so far from the last. When the last write is in memory and when all
/// is synced, in ms, and the most requests that the disk got in any second.
fn dd(all: [Settings; 2], (count, len, step): (usize, u64, u64)) -> (u64, u64, usize) {
    let mut world = World::with(pace::find("rate").expect("in the registry"));
    world.group(1, GroupId::ROOT, all[0]);
    world.group(2, GroupId(1), all[1]);
    world.run_until(2 * SEC);
    let begin = world.now;
    (0..count as u64).for_each(|number| world.write(2, number * step, len));
    let wrote = world.until(count) - begin;
    world.sync(2, 0, count as u64 * step);
    let synced = world.until(count + 1) - begin;
    let starts: Vec<u64> = world.written_of(2).collect();
    let within = |at: usize| starts[at..].iter().take_while(|one| **one < starts[at] + SEC).count();
    (wrote / MS, synced / MS, (0..starts.len()).map(within).max().unwrap_or(0))
}

/// The limit paces the writers and their write-back; were all of this left to the sync, it would
/// take as long as the writing again (18.99 s).
#[test]
fn a_limit_is_not_paid_once_more_in_a_sync() {
    let free = Settings::default();
    for all in [[wbps(20 * MIB), free], [free, wbps(20 * MIB)], [wbps(20 * MIB); 2]] {
        let (wrote, synced, most) = dd(all, (200, MIB, MIB));
        assert!((9_900..=10_100).contains(&wrote), "{wrote} ms");
        assert!((9_900..=10_100).contains(&synced), "{synced} ms");
        // 20 MiB in runs of 128 KiB, and the quarter of a second that was left lie at the sync.
        assert!(most <= 160 * 128 / 100, "{most}");
    }
    let sustained = Rates { wiops: NonZeroU64::new(100), ..Rates::default() };
    let limited = Settings { max: Limits { sustained, ..Limits::default() }, ..free };
    // A thousand operations each: pages far from each other, and writes of eight pieces.
    for load in [(1_000, PAGE, MIB), (125, MIB, MIB)] {
        let (wrote, synced, _) = dd([limited, free], load);
        assert!((9_900..=10_100).contains(&wrote), "{wrote} ms");
        // A small sync waits for the quarter of a second that was left lie.
        assert!((9_900..=10_300).contains(&synced), "{synced} ms");
    }
}

#[test]
fn without_a_limit_nothing_is_written_back_before_it_is_due() {
    let mut world = World::with(pace::find("rate").expect("in the registry"));
    world.group(LIMITED, GroupId::ROOT, wbps(20 * MIB));
    world.group(FREE, GroupId::ROOT, Settings::default());
    (0..64).for_each(|mib| world.write(FREE, mib * MIB, MIB));
    (0..64).for_each(|mib| world.write(LIMITED, mib * MIB, MIB));
    world.run_until(20 * SEC);
    assert_eq!(world.written_of(FREE).count(), 0);
    // All but a quarter of a second of the limit.
    let left = world.engine.dirty(GroupId(LIMITED)).group;
    assert!((5 * MIB - 128 * 1024..=5 * MIB).contains(&left.get()), "{left:?}");
}
