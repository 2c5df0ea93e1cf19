//! Buffered writes, the flusher and flushes through the engine.

use super::*;
use crate::group::Settings;
use crate::pace::Budget;
use core::num::NonZeroU64;

mod caps;
mod lost;

/// An engine with so many bytes of background and limit.
fn with_memory(background: u64, limit: u64) -> Engine {
    let memory = Thresholds { background: Bytes(background), limit: Bytes(limit) };
    Engine::new(Config { memory, ..Config::default() })
}

fn write(engine: &mut Engine, now: u64, number: u64, offset: u64, len: u64) -> Vec<Output> {
    let (tag, task, group) = (Tag(number), TaskId(number), GroupId::ROOT);
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
    engine.handle(Instant(now), Input::Dirtied { tag, task, group, area: extent.into() });
    outputs(engine, now)
}

/// Drains; what is resumed is in memory at once.
fn outputs(engine: &mut Engine, now: u64) -> Vec<Output> {
    let mut all = Vec::new();
    loop {
        match engine.poll(Instant(now)) {
            Output::Wait(..) => return all,
            Output::Resume(resume) => {
                engine.handle(Instant(now), Input::Wrote { id: resume.id, ok: true });
                all.push(Output::Resume(resume));
            }
            other => all.push(other),
        }
    }
}

#[test]
fn a_buffered_write_is_in_memory_at_once_below_the_limit() {
    let mut engine = with_memory(1 << 20, 2 << 20);
    let all = write(&mut engine, 1, 5, 0, 10_000);
    assert!(matches!(&all[..], [Output::Resume(Resume { tag: Tag(5), last: true, .. })]));
    assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes(3 * 4096));
    assert_eq!(engine.live_count(), 0);
}

#[test]
fn the_hard_limit_holds_and_writes_go_on_in_order_of_arrival() {
    let mut engine = with_memory(4096, 16 * 4096);
    for number in 0..4 {
        write(&mut engine, 1, number, number << 20, 4 * 4096);
    }
    assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes(16 * 4096));
    assert!(write(&mut engine, 2, 8, 8 << 20, 4096).is_empty());
    assert!(write(&mut engine, 2, 9, 9 << 20, 4096).is_empty());
    assert!(write(&mut engine, 2, 10, 0, 4096).is_empty(), "not even a rewrite passes them");
    assert_eq!(engine.status().reason, Reason::Disk);
    // The four writes are on their way to the disk: the first comes back.
    assert_eq!(engine.status().in_flight_count, 4);
    let first = (0u32..).zip(0u64..).map(|(slot, sequence)| RequestId { slot, sequence });
    let id = first.take(1).next().expect("the first");
    engine.handle(Instant(3), Input::Done { id, outcome: Outcome::Ok });
    let all = outputs(&mut engine, 3);
    let tags = all.iter().filter_map(|output| match output {
        Output::Resume(resume) => Some(resume.tag.0),
        _ => None,
    });
    assert_eq!(tags.collect::<Vec<_>>(), [8, 9, 10]);
    assert!(matches!(all[0], Output::Cleaned(area) if area.extent.len() == Bytes(4 * 4096)));
}

#[test]
fn who_knows_by_itself_is_not_told_what_is_clean() {
    let memory = Thresholds { background: Bytes(0), limit: Bytes(64 * 4096) };
    for tells_cleaned in [true, false] {
        let mut engine = Engine::new(Config { memory, tells_cleaned, ..Config::default() });
        let mut all = write(&mut engine, 1, 1, 0, 4 * 4096);
        let id = starts(&all)[0].id;
        // One page is written again meanwhile: of the others it is told page by page.
        all.extend(write(&mut engine, 2, 1, 4096, 4096));
        engine.handle(Instant(3), Input::Done { id, outcome: Outcome::Ok });
        all.extend(outputs(&mut engine, 3));
        let is_told = all.iter().any(|output| matches!(output, Output::Cleaned(_)));
        assert_eq!(is_told, tells_cleaned, "{all:?}");
        assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes(4096));
    }
}

/// A portion waits for room, and then there is less memory than it has bytes.
#[test]
fn what_has_passed_goes_in_in_pieces_if_memory_shrinks() {
    let mut engine = with_memory(0, 64 * 4096);
    let mut all = write(&mut engine, 1, 1, 0, 64 * 4096);
    all.extend(write(&mut engine, 1, 2, 1 << 20, 16 * 4096));
    let all_memory = Thresholds { background: Bytes(0), limit: Bytes(8 * 4096) };
    let budget = Budget::alone(all_memory);
    engine.control(Instant(2), Control::Memory(budget)).expect("a budget");
    all.extend(outputs(&mut engine, 2));
    let (mut starts, mut written, mut now) = (all, 0, 2);
    while !starts.is_empty() {
        let mut next = Vec::new();
        for start in starts {
            let Output::Start(start) = start else { continue };
            now += 1;
            engine.handle(Instant(now), Input::Done { id: start.id, outcome: Outcome::Ok });
            let before = engine.dirty(GroupId::ROOT).device.0;
            assert!(before <= 64 * 4096);
            next.extend(outputs(&mut engine, now));
            let dirty = engine.dirty(GroupId::ROOT).device.0;
            assert!(dirty <= before.max(8 * 4096), "{before} to {dirty}");
        }
        let sizes = next.iter().filter_map(|output| match output {
            Output::Resume(resume) => Some(resume.extent.len().0),
            _ => None,
        });
        written += sizes.sum::<u64>();
        starts = next;
    }
    assert_eq!((written, engine.live_count()), (16 * 4096, 0));
}

#[test]
fn a_write_larger_than_the_limit_goes_in_in_portions() {
    let mut engine = with_memory(0, 8 * 4096);
    let mut all = write(&mut engine, 1, 1, 0, 20 * 4096);
    let mut now = 1;
    let mut written = 0;
    loop {
        let mut starts = Vec::new();
        for output in std::mem::take(&mut all) {
            match output {
                Output::Resume(resume) => written += resume.extent.len().0,
                Output::Start(start) => starts.push(start),
                _ => {}
            }
        }
        assert!(engine.dirty(GroupId::ROOT).device <= Bytes(8 * 4096));
        if starts.is_empty() {
            break;
        }
        for start in starts {
            assert!(start.write_back);
            now += 1;
            let done = Input::Done { id: start.id, outcome: Outcome::Ok };
            engine.handle(Instant(now), done);
            all.extend(outputs(&mut engine, now));
        }
    }
    assert_eq!((written, engine.live_count()), (20 * 4096, 0));
    assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes::ZERO);
}

#[test]
fn a_failed_portion_ends_its_write_and_dirties_nothing() {
    let mut engine = with_memory(1 << 20, 2 << 20);
    let (tag, task, group) = (Tag(1), TaskId(1), GroupId::ROOT);
    let extent = Extent::new(Bytes(0), Bytes(1 << 20)).expect("small");
    engine.handle(Instant(1), Input::Dirtied { tag, task, group, area: extent.into() });
    let Output::Resume(resume) = engine.poll(Instant(1)) else { panic!("there is room") };
    assert!(!resume.last, "a quarter of the limit at once");
    engine.handle(Instant(1), Input::Wrote { id: resume.id, ok: false });
    assert!(outputs(&mut engine, 1).is_empty());
    assert_eq!((engine.live_count(), engine.dirty(group).device), (0, Bytes::ZERO));
}

/// The write behind one that was given up is not the rest of it: it counts by itself.
#[test]
fn a_write_that_was_given_up_is_over_for_stage_pace() {
    let mut engine = with_memory(4 << 20, 8 << 20);
    engine.control(Instant(0), Control::Pace(&crate::pace::rate::POLICY)).expect("a policy");
    let mut settings = Settings::default();
    settings.max.sustained.wiops = NonZeroU64::new(1);
    // Its portions are 4 ms of this: the write below is let in in several.
    settings.max.sustained.wbps = NonZeroU64::new(100 << 20);
    let control = Control::SetGroup(GroupId(1), GroupId::ROOT, settings);
    engine.control(Instant(0), control).expect("a group");
    outputs(&mut engine, 0);
    let (task, group) = (TaskId(1), GroupId(1));
    let mut write = |now: u64, len: u64, ok| {
        let extent = Extent::new(Bytes(0), Bytes(len)).expect("small");
        engine.handle(
            Instant(now),
            Input::Dirtied { tag: Tag(now), task, group, area: extent.into() },
        );
        let first = engine.poll(Instant(now));
        if let Output::Resume(resume) = &first {
            engine.handle(Instant(now), Input::Wrote { id: resume.id, ok });
        }
        outputs(&mut engine, now);
        first
    };
    let Output::Resume(resume) = write(1, 1 << 20, false) else { panic!("below its limit") };
    assert!(!resume.last);
    let Output::Wait(at, Reason::Budget) = write(2, 4096, true) else { panic!("too many") };
    // 4 ms of the limit have passed: four pieces of 128 KiB, one operation per second.
    assert_eq!((resume.extent.len(), at), (Bytes(102 * 4096), Instant(4_000_000_000)));
}

#[test]
fn a_flush_waits_for_the_write_back_of_what_is_dirty() {
    let mut engine = with_memory(1 << 20, 2 << 20);
    write(&mut engine, 1, 1, 0, 4096);
    engine.handle(Instant(2), Input::Submit(submit(7, Op::Flush, 0)));
    let all = outputs(&mut engine, 2);
    let [Output::Start(start)] = &all[..] else { panic!("write-back first, not {all:?}") };
    assert!(start.write_back);
    engine.handle(Instant(9), Input::Done { id: start.id, outcome: Outcome::Ok });
    let all = outputs(&mut engine, 9);
    let [Output::Cleaned(_), Output::Start(start)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((start.op, start.tag), (Op::Flush, Tag(7)));
    engine.handle(Instant(12), Input::Done { id: start.id, outcome: Outcome::Ok });
    let all = outputs(&mut engine, 12);
    let [Output::Finish(finish)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((finish.outcome, finish.times.total().0), (Outcome::Ok, 10));
}

#[test]
fn a_removed_group_is_forgotten_when_its_memory_is_clean() {
    let mut engine = with_memory(0, 1 << 20);
    let group = GroupId(3);
    let control = Control::SetGroup(group, GroupId::ROOT, crate::group::Settings::default());
    engine.control(Instant(1), control).expect("a group");
    let (tag, task) = (Tag(1), TaskId(1));
    let extent = Extent::new(Bytes(0), Bytes(4096)).expect("small");
    engine.handle(Instant(1), Input::Dirtied { tag, task, group, area: extent.into() });
    let all = outputs(&mut engine, 1);
    let Some(Output::Start(start)) = all.last() else { panic!("{all:?}") };
    engine.control(Instant(2), Control::RemoveGroup(group)).expect("it is empty");
    outputs(&mut engine, 2);
    assert!(!engine.is_group_forgotten(group));
    engine.handle(Instant(3), Input::Done { id: start.id, outcome: Outcome::Ok });
    outputs(&mut engine, 3);
    assert!(engine.is_group_forgotten(group));
}

/// A group below a group of other limits, with 1024 pages dirty and a request that waits for its
/// limit; then it is removed. When everything of it is done, in ns, at a disk that takes no time.
fn gone_after(own: u64, above: Option<u64>) -> u64 {
    let limited = |wbps: Option<u64>| {
        let mut settings = Settings::default();
        settings.max.sustained.wbps = wbps.and_then(NonZeroU64::new);
        settings
    };
    let (parent, group, start) = (GroupId(1), GroupId(2), Instant(1));
    let mut engine = with_memory(0, 64 << 20);
    let all = [(parent, GroupId::ROOT, above), (group, parent, Some(own))];
    for (id, parent, wbps) in all {
        engine.control(start, Control::SetGroup(id, parent, limited(wbps))).expect("a group");
    }
    let extent = |offset| Extent::new(Bytes(offset), Bytes(4096)).expect("small");
    for page in 0..1024 {
        let (tag, task) = (Tag(page), TaskId(page));
        engine.handle(start, Input::Dirtied { tag, task, group, area: extent(page << 20).into() });
        let direct = Submit { group, ..submit(page, Op::Write, page << 30) };
        engine.handle(start, Input::Submit(direct));
    }
    let (mut now, mut is_removed) = (start, false);
    loop {
        match engine.poll(now) {
            Output::Resume(resume) => {
                engine.handle(now, Input::Wrote { id: resume.id, ok: true });
            }
            Output::Start(start) => {
                engine.handle(now, Input::Done { id: start.id, outcome: Outcome::Ok });
            }
            Output::Finish(_) | Output::Cleaned(_) | Output::Event(_) => {}
            Output::Wait(..) if !is_removed => {
                is_removed = true;
                engine.control(now, Control::RemoveGroup(group)).expect("it may be removed");
                assert!(!engine.is_group_forgotten(group), "it has requests and dirty memory");
            }
            Output::Wait(..) if engine.is_group_forgotten(group) => return now.since(start).0,
            Output::Wait(at, _) => now = at.max(now),
        }
    }
}

#[test]
fn a_removed_group_waits_for_no_limit_of_its_own_but_for_those_above() {
    const SECOND: u64 = 1_000_000_000;
    // 4 MiB of write-back at a page per second takes 17 minutes, and so do the writes past memory.
    assert!(gone_after(4096, None) <= SECOND, "no limit is left");
    let within = gone_after(4096, Some(1 << 20));
    assert!((6 * SECOND..=9 * SECOND).contains(&within), "8 MiB with 1 MiB/s: {within} ns");
}

#[test]
fn a_flush_of_an_extent_waits_for_nothing_else() {
    let mut engine = with_memory(u64::MAX / 2, u64::MAX / 2);
    write(&mut engine, 1, 1, 1 << 30, 64 << 20);
    write(&mut engine, 1, 2, 0, 4096);
    let extent = Extent::new(Bytes(0), Bytes(1 << 20)).expect("small");
    let (tag, task, group) = (Tag(3), TaskId(2), GroupId::ROOT);
    let (op, cover) = (Op::Flush, Cover::Piece(extent.into()));
    let flush = Submit { tag, task, group, op, extent: Extent::EMPTY, fua: false, sync: true };
    engine.handle(Instant(2), Input::Flush(flush, cover));
    let started = starts(&outputs(&mut engine, 2));
    assert_eq!(started.len(), 1, "only what it covers is written back: {started:?}");
    assert!(started[0].write_back && started[0].extent.end() == Bytes(4096));
    let done = Input::Done { id: started[0].id, outcome: Outcome::Ok };
    engine.handle(Instant(3), done);
    let started = starts(&outputs(&mut engine, 3));
    assert!(matches!(started[..], [Start { op: Op::Flush, tag: Tag(3), .. }]), "{started:?}");
    engine.handle(Instant(4), Input::Done { id: started[0].id, outcome: Outcome::Ok });
    let all = outputs(&mut engine, 4);
    assert!(matches!(all[..], [Output::Finish(Finish { tag: Tag(3), .. })]), "{all:?}");
    // Nothing is dirty there now: the next one has nothing to wait for, nor has one of nothing.
    for (now, cover) in [(5, cover), (6, Cover::Nothing)] {
        engine.handle(Instant(now), Input::Flush(flush, cover));
        let started = starts(&outputs(&mut engine, now));
        assert!(matches!(started[..], [Start { op: Op::Flush, .. }]), "{started:?}");
    }
    assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes(64 << 20), "nothing else was asked for");
}

#[test]
fn what_is_void_is_not_written_back() {
    let mut engine = with_memory(1 << 20, 2 << 20);
    write(&mut engine, 1, 1, 0, 64 * 4096);
    let extent = Extent::new(Bytes(0), Bytes(1 << 40)).expect("small");
    engine.handle(Instant(2), Input::Void(extent.into()));
    let far = Instant::ZERO + Nanos::from_secs(60);
    assert!(starts(&outputs(&mut engine, far.0)).is_empty());
    assert_eq!(engine.dirty(GroupId::ROOT).device, Bytes::ZERO);
    assert_eq!(engine.live_count(), 0);
}

#[test]
fn what_a_small_sync_waits_for_waits_for_no_gap() {
    let memory = Thresholds { background: Bytes(1 << 20), limit: Bytes(64 << 20) };
    let window = crate::window::find("latency").expect("in the registry");
    let mut engine = Engine::new(Config { memory, window, ..Config::default() });
    // A reader appears: write-back waits until it is known what it gets in quiet.
    let read = Submit { sync: true, ..submit(1, Op::Read, 1 << 30) };
    engine.handle(Instant(1), Input::Submit(read));
    let started = starts(&outputs(&mut engine, 1));
    engine.handle(Instant(2), Input::Done { id: started[0].id, outcome: Outcome::Ok });
    outputs(&mut engine, 2);
    let all = write(&mut engine, 3, 2, 0, 16 << 20);
    assert!(starts(&all).is_empty(), "a gap");
    let all = write(&mut engine, 4, 3, 1 << 30, 8192);
    assert!(starts(&all).is_empty(), "a gap");
    let extent = Extent::new(Bytes(1 << 30), Bytes(1 << 20)).expect("small");
    let flush = Submit { tag: Tag(4), op: Op::Flush, extent: Extent::EMPTY, ..read };
    engine.handle(Instant(5), Input::Flush(flush, Cover::Piece(extent.into())));
    let started = starts(&outputs(&mut engine, 5));
    assert_eq!(started.len(), 1, "its own pages, and at once: {started:?}");
    assert!(started[0].write_back);
    assert_eq!(
        (started[0].extent.offset(), started[0].extent.len()),
        (Bytes(1 << 30), Bytes(8192))
    );
    engine.handle(Instant(6), Input::Done { id: started[0].id, outcome: Outcome::Ok });
    let started = starts(&outputs(&mut engine, 6));
    assert!(matches!(started[..], [Start { op: Op::Flush, tag: Tag(4), .. }]), "{started:?}");
}

fn starts(all: &[Output]) -> Vec<Start> {
    let starts = all.iter().filter_map(|output| match output {
        Output::Start(start) => Some(*start),
        _ => None,
    });
    starts.collect()
}
