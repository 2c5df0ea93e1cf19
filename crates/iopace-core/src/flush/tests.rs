use super::*;
use crate::request::{Extent, Space};
use core::ops::Range;

mod naive;
mod random;
mod spaces;

const T0: Instant = Instant::ZERO;

/// Pages of the disk.
fn extent(first: u64, count: u64) -> Area {
    area(Space::DISK, first, count)
}

fn area(space: Space, first: u64, count: u64) -> Area {
    let extent = Extent::new(Bytes(first * PAGE), Bytes(count * PAGE)).expect("small");
    Area { space, extent }
}

fn owner(task: u64, group: u32) -> Owner {
    Owner { task: TaskId(task), group: GroupId(group) }
}

fn at_ms(ms: u64) -> Instant {
    T0 + Nanos::from_millis(ms)
}

/// The next run if everything is due, of 8 pages at most; it is taken.
fn take(flusher: &mut Flusher, now: Instant) -> Option<Run> {
    let run = flusher.candidate(now, Bytes::ZERO, false, Bytes(8 * PAGE))?;
    flusher.take(&run);
    Some(run)
}

fn dirty_pages(flusher: &Flusher, group: u32) -> (u64, u64, u64) {
    let dirty = flusher.dirty(GroupId(group));
    let [device, group, write_back] = [dirty.device, dirty.group, dirty.write_back];
    (device.get() / PAGE, group.get() / PAGE, write_back.get() / PAGE)
}

#[test]
fn p1_a_rewrite_of_a_dirty_page_counts_once() {
    let mut flusher = Flusher::default();
    assert_eq!(flusher.wrote(T0, owner(1, 1), extent(10, 4), Bytes::ZERO), Bytes(4 * PAGE));
    assert_eq!(flusher.fresh(extent(8, 4)), Bytes(2 * PAGE));
    let byte = Extent::new(Bytes(13 * PAGE + 7), Bytes(1)).expect("small").into();
    assert_eq!(flusher.wrote(at_ms(5), owner(2, 2), byte, Bytes::ZERO), Bytes::ZERO);
    assert_eq!(dirty_pages(&flusher, 1), (4, 4, 0));
    assert!(!flusher.has_dirty(GroupId(2)));
    assert_eq!(flusher.next_expiry(), T0 + DIRTY_EXPIRE, "the age is that of the first write");
    assert_eq!(take(&mut flusher, T0).map(|run| run.owner), Some(owner(1, 1)));
}

#[test]
fn p1_what_was_promised_counts_until_it_is_written_or_broken() {
    let mut flusher = Flusher::default();
    flusher.promise(GroupId(3), Bytes(5 * PAGE));
    assert_eq!(dirty_pages(&flusher, 3), (5, 5, 0));
    assert_eq!(flusher.candidate(T0, Bytes::ZERO, true, Bytes(PAGE)), None, "nothing is there");
    flusher.wrote(T0, owner(1, 3), extent(0, 3), Bytes(3 * PAGE));
    assert_eq!(dirty_pages(&flusher, 3), (5, 5, 0));
    flusher.broken(GroupId(3), Bytes(2 * PAGE));
    assert_eq!(dirty_pages(&flusher, 3), (3, 3, 0));
}

#[test]
fn p2_a_page_written_again_on_its_way_is_one_frame_and_two_pages_of_work() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 1), extent(0, 4), Bytes::ZERO);
    let run = take(&mut flusher, T0).expect("due");
    assert_eq!(flusher.fresh(extent(0, 4)), Bytes(4 * PAGE), "all of it would be more work");
    assert_eq!(flusher.wrote(T0, owner(2, 2), extent(1, 2), Bytes::ZERO), Bytes(2 * PAGE));
    assert_eq!(flusher.wrote(T0, owner(2, 2), extent(1, 2), Bytes::ZERO), Bytes::ZERO);
    assert_eq!(dirty_pages(&flusher, 1), (4, 4, 4));
    assert_eq!(dirty_pages(&flusher, 2), (4, 0, 4), "the frame belongs to what is under way");
    assert!(flusher.has_dirty(GroupId(2)), "it must not be forgotten");
    assert_eq!(take(&mut flusher, T0), None, "not while it is on its way");
    assert_eq!(flusher.done(&run, true), Bytes(2 * PAGE));
    assert_eq!(dirty_pages(&flusher, 2), (2, 2, 0));
    let second = take(&mut flusher, T0).expect("dirty again");
    assert_eq!(second, Run { owner: owner(2, 2), area: extent(1, 2), is_urgent: false });
    assert_eq!(flusher.done(&second, true), Bytes(2 * PAGE));
    let stats = flusher.stats();
    assert_eq!((stats.dirtied_pages, stats.written_back_pages), (6, 6));
}

#[test]
fn p2_discarding_takes_back_what_was_not_written() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 1), extent(0, 8), Bytes::ZERO);
    let run = take(&mut flusher, T0).expect("due");
    flusher.wrote(T0, owner(2, 2), extent(0, 2), Bytes::ZERO);
    flusher.wrote(T0, owner(1, 1), extent(20, 2), Bytes::ZERO);
    let mut spared = Vec::new();
    flusher.discard(extent(0, 21), |group, size| spared.push((group, size)));
    assert_eq!(spared, [(GroupId(1), Bytes(PAGE)), (GroupId(2), Bytes(2 * PAGE))]);
    assert!(!flusher.has_dirty(GroupId(2)));
    assert_eq!(flusher.done(&run, true), Bytes(8 * PAGE));
    assert_eq!(dirty_pages(&flusher, 1), (1, 1, 0));
}

#[test]
fn p3_a_sync_is_not_held_up_by_whoever_goes_on_writing() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 0), extent(0, 8), Bytes::ZERO);
    let mark = flusher.sync();
    assert!(!flusher.is_synced(mark));
    flusher.wrote(at_ms(1), owner(1, 0), extent(8, 8), Bytes::ZERO);
    let all = Bytes(64 * PAGE);
    let run = flusher.candidate(at_ms(1), all, false, all).expect("asked for");
    assert_eq!(run.area, extent(0, 8), "what follows came after the sync");
    flusher.take(&run);
    flusher.wrote(at_ms(2), owner(1, 0), extent(4, 4), Bytes::ZERO);
    assert!(!flusher.is_synced(mark));
    flusher.done(&run, true);
    assert!(flusher.is_synced(mark));
    assert_eq!(flusher.candidate(at_ms(3), all, false, all), None);
}

#[test]
fn p9_what_a_small_sync_waits_for_waits_for_no_turn_and_no_chunk() {
    let mut flusher = Flusher::default();
    let (all, most) = (Bytes(1 << 30), Bytes(16 * PAGE));
    flusher.wrote(T0, owner(1, 0), extent(0, 1000), Bytes::ZERO);
    let bulk = flusher.candidate(T0, Bytes::ZERO, false, most).expect("above background");
    flusher.take(&bulk);
    flusher.wrote(T0, owner(2, 0), extent(2000, 2), Bytes::ZERO);
    flusher.wrote(T0, owner(2, 0), extent(2100, 40), Bytes::ZERO);
    assert_eq!(flusher.urgent(most, |_| false), None);
    let mut mark = flusher.sync_area(extent(2000, 10));
    assert!(mark.is_small());
    let run = flusher.urgent(most, |_| false).expect("asked for");
    assert_eq!((run.area, run.is_urgent), (extent(2000, 2), true));
    flusher.take(&run);
    assert_eq!(flusher.urgent(most, |_| false), None);
    // The chunk goes on where it was.
    let next = flusher.candidate(T0, Bytes::ZERO, false, most).expect("above background");
    assert_eq!((next.area, next.is_urgent), (extent(16, 16), false));
    // Written again on its way: the next sync waits for that too.
    flusher.wrote(T0, owner(2, 0), extent(2001, 1), Bytes::ZERO);
    let mut again = flusher.sync_area(extent(2000, 10));
    assert_eq!(flusher.urgent(most, |_| false), None);
    assert_eq!(flusher.done(&run, true), Bytes(PAGE));
    assert!(flusher.is_area_synced(&mut mark) && !flusher.is_area_synced(&mut again));
    let run = flusher.urgent(all, |_| false).expect("asked for again");
    assert_eq!(run.area, extent(2001, 1));
    flusher.take(&run);
    flusher.done(&run, true);
    assert!(flusher.is_area_synced(&mut again));
    let out = flusher.stats();
    assert_eq!((out.dirtied_pages, out.written_back_pages), (1043, 3));
}

#[test]
fn p9_a_larger_sync_has_turns() {
    let mut flusher = Flusher::default();
    let count = SMALL_SYNC_MAX.get() / PAGE;
    flusher.wrote(T0, owner(1, 0), extent(0, count + 1), Bytes::ZERO);
    assert!(!flusher.sync_area(extent(0, count + 1)).is_small());
    assert_eq!(flusher.urgent(SMALL_SYNC_MAX, |_| false), None);
    assert!(flusher.sync_area(extent(1, count)).is_small());
    let run = flusher.urgent(Bytes(1 << 30), |_| false).expect("asked for");
    assert_eq!(run.area, extent(1, count));
}

#[test]
fn p3_a_sync_of_an_extent_asks_for_its_pages_first_and_for_no_others() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 0), extent(0, 100), Bytes::ZERO);
    flusher.wrote(T0, owner(2, 0), extent(200, 100), Bytes::ZERO);
    let mut mark = flusher.sync_area(extent(210, 4));
    let all = Bytes(1 << 30);
    let run = flusher.candidate(T0, all, false, all).expect("asked for");
    assert_eq!(run.area, extent(210, 4));
    flusher.take(&run);
    assert_eq!(flusher.candidate(T0, all, false, all), None);
    assert!(!flusher.is_area_synced(&mut mark));
    flusher.wrote(T0, owner(2, 0), extent(211, 1), Bytes::ZERO);
    flusher.done(&run, true);
    assert!(flusher.is_area_synced(&mut mark));
}

#[test]
fn p4_a_stream_gets_old_in_time() {
    let mut flusher = Flusher::default();
    // A page every 100 ms for 40 s, nothing of it due but by age.
    let all = Bytes(1 << 30);
    for step in 0..400 {
        let now = at_ms(step * 100);
        flusher.wrote(now, owner(1, 0), extent(step, 1), Bytes::ZERO);
        assert!(flusher.next_expiry() >= now || step > 299);
        while let Some(run) = flusher.candidate(now, all, false, all) {
            let last = run.area.extent.end().get() / PAGE - 1;
            let age_ms = (step - last) * 100;
            assert!((29_000..=30_000).contains(&age_ms), "page {last} at {age_ms} ms");
            flusher.take(&run);
            flusher.done(&run, true);
        }
    }
    assert!(flusher.stats().written_back_pages >= 100);
    assert!(flusher.stats().runs_count <= 10, "a second of it at once");
}

#[test]
fn p5_write_back_ends_at_the_background_threshold() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 0), extent(0, 20), Bytes::ZERO);
    let (background, len) = (Bytes(8 * PAGE), Bytes(4 * PAGE));
    let mut left = Vec::new();
    while let Some(run) = flusher.candidate(T0, background, false, len) {
        flusher.take(&run);
        flusher.done(&run, true);
        left.push(dirty_pages(&flusher, 0).0);
    }
    assert_eq!(left, [16, 12, 8]);
    assert!(flusher.candidate(T0, background, true, len).is_some(), "somebody waits for memory");
}

#[test]
fn p6_streams_stay_streams_a_chunk_at_a_time() {
    let mut flusher = Flusher::default();
    flusher.set_chunk(Bytes(32 * PAGE));
    // Two streams, each so slow that every write has a number of its own.
    for step in 0..16 {
        let now = at_ms(step * 2_000);
        flusher.wrote(now, owner(1, 0), extent(step * 4, 4), Bytes::ZERO);
        flusher.wrote(now, owner(2, 0), extent(1_000 + step * 4, 4), Bytes::ZERO);
    }
    let runs: Vec<Run> = std::iter::from_fn(|| take(&mut flusher, at_ms(32_000))).collect();
    let tasks: Vec<u64> = runs.iter().map(|run| run.owner.task.0).collect();
    assert_eq!(tasks, [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2]);
    for pair in runs.chunks(4) {
        assert!(pair.windows(2).all(|two| two[0].area.extent.end() == two[1].area.extent.offset()));
    }
}

#[test]
fn p6_groups_take_turns_of_a_chunk() {
    let mut flusher = Flusher::default();
    flusher.set_chunk(Bytes(24 * PAGE));
    for group in 1..=3 {
        flusher.wrote(T0, owner(1, group), extent(u64::from(group) * 1_000, 48), Bytes::ZERO);
    }
    let mut groups = Vec::new();
    while let Some(run) = take(&mut flusher, T0) {
        groups.push(run.owner.group.0);
        flusher.done(&run, true);
    }
    assert_eq!(groups[..3], [1, 2, 3], "a newcomer goes first, once");
    let turns: Vec<usize> = groups[3..].chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
    assert_eq!(turns, [2, 3, 3, 3, 2, 2], "{groups:?}");
}

/// A line of eight places: a run of group 1 is done in one step, the groups above it have one done
/// in 400. How many runs of each are done in so many steps, without the first 5000.
fn held_up(groups: u32, steps: u64) -> BTreeMap<u32, u64> {
    let (mut flusher, mut counts) = (Flusher::default(), BTreeMap::new());
    let (mut line, mut held_until) = (Vec::<Run>::new(), BTreeMap::new());
    for group in (1..=groups).rev() {
        let place = extent(u64::from(group) << 30, 8 * (steps + 5_000));
        flusher.wrote(T0, owner(1, group), place, Bytes::ZERO);
        // Those that are held up are there first, and have the line to themselves.
        while group > 1 && line.len() < 8 {
            line.extend(take(&mut flusher, T0));
        }
    }
    for step in 0..steps + 5_000 {
        let done = line.iter().position(|run| {
            let group = run.owner.group.0;
            group == 1 || held_until.get(&group).is_none_or(|until| *until <= step)
        });
        if let Some(index) = done {
            let run = line.remove(index);
            flusher.done(&run, true);
            *counts.entry(run.owner.group.0).or_default() += u64::from(step >= 5_000);
            held_until.insert(run.owner.group.0, step + 400);
        }
        while line.len() < 8 {
            line.extend(take(&mut flusher, at_ms(step)));
        }
    }
    counts
}

#[test]
fn p7_groups_that_are_held_up_hold_up_nobody() {
    for groups in [2, 3, 5] {
        let counts = held_up(groups, 20_000);
        assert!(counts[&1] > 18_000, "of 20 000 at most: {counts:?}");
        let held: u64 = (2..=groups).map(|group| counts[&group]).sum();
        assert!(held >= 40 * u64::from(groups - 1), "of 50 each at most: {counts:?}");
    }
}

#[test]
fn p7_a_group_has_only_so_much_in_line() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 1), extent(0, 100_000), Bytes::ZERO);
    let runs: Vec<Run> = std::iter::from_fn(|| take(&mut flusher, T0)).collect();
    assert_eq!(runs.len(), GROUP_IN_LINE_RUNS as usize);
    flusher.done(&runs[5], true);
    assert!(take(&mut flusher, T0).is_some());
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 1), extent(0, 100_000), Bytes::ZERO);
    let len = Bytes::from_mib(1);
    let mut count = 0;
    while let Some(run) = flusher.candidate(T0, Bytes::ZERO, false, len) {
        flusher.take(&run);
        count += 1;
    }
    assert_eq!(count, GROUP_IN_LINE_MAX.get() / len.get());
}

#[test]
fn p8_a_failed_write_back_is_told_once() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 0), extent(0, 2), Bytes::ZERO);
    let mark = flusher.sync();
    let run = take(&mut flusher, T0).expect("due");
    assert_eq!(flusher.done(&run, false), Bytes(2 * PAGE));
    assert!(flusher.is_synced(mark), "there is nothing left to wait for");
    assert!(flusher.take_failure());
    assert!(!flusher.take_failure());
}

#[test]
fn the_last_page_of_the_largest_device_can_be_dirty() {
    let mut flusher = Flusher::default();
    let end = Extent::new(Bytes(u64::MAX - 10), Bytes(10)).expect("the last bytes").into();
    assert_eq!(flusher.wrote(T0, owner(1, 0), end, Bytes::ZERO), Bytes(PAGE));
    assert_eq!(flusher.wrote(T0, owner(1, 0), Area::default(), Bytes::ZERO), Bytes::ZERO);
    let run = take(&mut flusher, T0).expect("due");
    assert_eq!(run.area.extent.end(), Bytes(u64::MAX));
    assert_eq!(flusher.done(&run, true), Bytes(PAGE));
}

#[test]
#[should_panic(expected = "still has dirty memory")]
fn a_group_with_dirty_memory_is_not_forgotten() {
    let mut flusher = Flusher::default();
    flusher.wrote(T0, owner(1, 7), extent(0, 1), Bytes::ZERO);
    flusher.remove_group(GroupId(7));
}

#[test]
#[should_panic(expected = "broke more than it was promised")]
fn nobody_takes_back_more_than_was_promised() {
    let mut flusher = Flusher::default();
    flusher.promise(GroupId(7), Bytes(PAGE));
    flusher.broken(GroupId(7), Bytes(PAGE + 1));
}

#[test]
fn p11_a_group_above_its_mark_is_written_back_down_to_it() {
    let mut flusher = Flusher::default();
    let next = |flusher: &mut Flusher| {
        let run = flusher.candidate(T0, Bytes(u64::MAX), false, Bytes(8 * PAGE))?;
        flusher.take(&run);
        Some((run.owner.group.0, run.area.extent.len().get() / PAGE))
    };
    flusher.set_background(GroupId(1), Some(Bytes(16 * PAGE)));
    for group in [1, 2] {
        let first = 100 * u64::from(group);
        flusher.wrote(T0, owner(1, group), extent(first, 16), Bytes::ZERO);
    }
    assert_eq!(next(&mut flusher), None, "just up to it");
    flusher.wrote(T0, owner(1, 1), extent(116, 14), Bytes::ZERO);
    // Runs of full length, and none of the other group.
    assert_eq!([next(&mut flusher), next(&mut flusher)], [Some((1, 8)), Some((1, 8))]);
    assert_eq!(next(&mut flusher), None);
    flusher.set_background(GroupId(1), Some(Bytes(13 * PAGE)));
    flusher.set_background(GroupId(1), None);
    assert_eq!(next(&mut flusher), None, "without a mark it waits for its age");
}
