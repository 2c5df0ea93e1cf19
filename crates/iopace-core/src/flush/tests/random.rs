//! The flusher against the list of pages: random operations, and everything equal at every step.

use super::naive::{Naive, SPACE_PAGES, Seen, area_of, pages_of};
use super::*;
use std::collections::BTreeSet;

const PAGES: u64 = 400;
const GROUPS: u64 = 4;

/// A sync and all that was outstanding when it came.
struct Waiting {
    whole: Option<Mark>,
    part: Option<AreaMark>,
    outstanding: BTreeSet<u64>,
}

struct Test {
    random: u64,
    now: Instant,
    flusher: Flusher,
    naive: Naive,
    waiting: Vec<Waiting>,
    promises: Vec<(Owner, Range<u64>, Bytes)>,
    failed: bool,
    /// How much of it is taking, of 100, and how much of that is done.
    take_percent: u64,
    done_percent: u64,
    run_max: u64,
    /// Time passes slowly.
    is_dense: bool,
    /// Who wrote last, and up to where.
    last: (Owner, u64),
    /// The write-back of this group is never done by chance.
    held: Option<GroupId>,
}

impl Test {
    fn new(seed: u64) -> Test {
        Test {
            random: seed,
            now: Instant::ZERO,
            flusher: Flusher::default(),
            naive: Naive::new(PAGES as usize),
            waiting: Vec::new(),
            promises: Vec::new(),
            failed: false,
            take_percent: 20 + seed % 3 * 20,
            done_percent: 30 + seed % 4 * 20,
            run_max: [1, 2, 8, 32][seed as usize % 4],
            is_dense: seed.is_multiple_of(2),
            last: (owner(0, 0), 0),
            held: seed.is_multiple_of(3).then_some(GroupId(1)),
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn range(&mut self) -> Range<u64> {
        let count = [1, 1, 4, 16, 100][self.next(5) as usize];
        let first = self.next(PAGES);
        Test::inside(first..first + count)
    }

    /// The part of it in the space that it begins in.
    fn inside(range: Range<u64>) -> Range<u64> {
        range.start..range.end.min((range.start / SPACE_PAGES + 1) * SPACE_PAGES)
    }

    fn owner(&mut self) -> Owner {
        owner(self.next(2), self.next(GROUPS) as u32)
    }

    fn step(&mut self) {
        let most_ms = [1, 1, 1, 1, 200, 1_500, 9_000][self.next(7) as usize];
        let most_ms = if self.is_dense { most_ms / 50 + 1 } else { most_ms };
        self.now = self.now + Nanos::from_millis(self.next(most_ms));
        let kind = self.next(100);
        if kind < self.take_percent {
            return self.write_back();
        }
        match self.next(43) {
            0..20 => self.write(),
            20..26 => self.promise(),
            26..31 => self.keep_promise(),
            31..34 => self.discard(),
            34 => self.sync(),
            35 => self.sync_extent(),
            36 => self.remove_group(),
            40..43 => self.hold_or_release(),
            37 => {
                let chunk = 1 + self.next(64);
                self.flusher.set_chunk(Bytes(chunk * PAGE));
                self.naive.chunk = chunk;
            }
            _ => assert_eq!(self.flusher.take_failure(), std::mem::take(&mut self.failed)),
        }
    }

    fn write(&mut self) {
        let (mut owner, mut range) = (self.owner(), self.range());
        // Often the last one goes on behind what it wrote.
        if self.next(2) == 0 && self.last.1 + 20 < PAGES {
            owner = self.last.0;
            range = Test::inside(self.last.1..self.last.1 + 1 + self.next(16));
        }
        self.last = (owner, range.end);
        self.wrote(owner, range, Bytes::ZERO);
    }

    fn wrote(&mut self, owner: Owner, range: Range<u64>, promised: Bytes) {
        // Not the whole of the first and the last page: they are dirty as a whole.
        let Area { space, extent } = area_of(&range);
        let part = Extent::new(extent.offset() + Bytes(5), extent.len() - Bytes(100));
        let part = Area { space, extent: part.expect("inside") };
        let fresh = self.flusher.wrote(self.now, owner, part, promised);
        assert_eq!(fresh, pages::bytes(self.naive.write(self.now, owner, range)));
    }

    fn promise(&mut self) {
        let (owner, range) = (self.owner(), self.range());
        let size = self.flusher.fresh(area_of(&range));
        self.flusher.promise(owner.group, size);
        *self.naive.promised.entry(owner.group).or_default() += size.get();
        self.promises.push((owner, range, size));
    }

    fn keep_promise(&mut self) {
        if self.promises.is_empty() {
            return;
        }
        let index = self.next(self.promises.len() as u64) as usize;
        let (owner, range, size) = self.promises.swap_remove(index);
        *self.naive.promised.get_mut(&owner.group).expect("promised") -= size.get();
        if self.next(3) == 0 {
            self.flusher.broken(owner.group, size);
        } else {
            self.wrote(owner, range, size);
        }
    }

    fn discard(&mut self) {
        let range = self.range();
        let Area { space, extent } = area_of(&range);
        let part = Extent::new(extent.offset(), extent.len() - Bytes(1)).expect("inside");
        let part = Area { space, extent: part };
        let mut spared = BTreeMap::new();
        self.flusher.discard(part, |group, size| {
            assert_eq!(spared.insert(group, size.get() / PAGE), None, "one call for each");
        });
        assert_eq!(spared, self.naive.discard(range.start..range.end - 1), "the last is touched");
    }

    fn sync(&mut self) {
        let outstanding = self.naive.outstanding(0..PAGES);
        self.naive.sync();
        let whole = Some(self.flusher.sync());
        self.waiting.push(Waiting { whole, part: None, outstanding });
    }

    fn sync_extent(&mut self) {
        let range = self.range();
        let outstanding = self.naive.outstanding(range.clone());
        let part = Some(self.flusher.sync_area(area_of(&range)));
        self.naive.sync_extent(range);
        self.waiting.push(Waiting { whole: None, part, outstanding });
    }

    fn hold_or_release(&mut self) {
        let group = GroupId(self.next(GROUPS) as u32);
        if self.next(3) == 0 {
            self.flusher.hold(group);
            self.naive.held_back.insert(group);
        } else {
            self.flusher.release(group);
            self.naive.held_back.remove(&group);
        }
    }

    fn remove_group(&mut self) {
        let group = GroupId(self.next(GROUPS) as u32);
        if !self.flusher.has_dirty(group) {
            self.flusher.remove_group(group);
            self.naive.remove_group(group);
        }
    }

    fn write_back(&mut self) {
        if self.next(100) < self.done_percent && !self.naive.in_line.is_empty() {
            let index = self.next(self.naive.in_line.len() as u64) as usize;
            if Some(self.naive.in_line[index].1.owner.group) == self.held {
                return;
            }
            let ok = self.next(10) > 0;
            return self.done(index, ok);
        }
        if self.next(3) == 0 {
            let urgent = self.naive.urgent(self.run_max);
            assert_eq!(self.flusher.urgent(Bytes(self.run_max * PAGE), |_| false), urgent);
            return urgent.iter().for_each(|run| self.take(run));
        }
        let background = self.next(PAGES) * PAGE;
        let pressed = self.next(8) == 0;
        let Some(run) = self.candidate(background, pressed) else { return };
        if self.next(4) > 0 {
            self.take(&run);
        }
    }

    fn candidate(&mut self, background: u64, pressed: bool) -> Option<Run> {
        let (now, max) = (self.now, self.run_max);
        let naive = self.naive.candidate(now, background, pressed, max);
        for _ in 0..2 {
            let run = self.flusher.candidate(now, Bytes(background), pressed, Bytes(max * PAGE));
            assert_eq!(run, naive, "asking changes nothing");
        }
        if naive.is_none() {
            for (page, mud) in self.naive.all_ready() {
                let is_old = mud.at + DIRTY_EXPIRE <= now;
                let group = mud.owner.group;
                let is_out = self.naive.is_full(group) || self.naive.held_back.contains(&group);
                assert!(!is_old || is_out, "page {page} is too old");
            }
        }
        naive
    }

    fn take(&mut self, run: &Run) {
        self.flusher.take(run);
        self.naive.take(self.now, run);
    }

    fn done(&mut self, index: usize, ok: bool) {
        let (run, clean) = self.naive.done(index, ok);
        self.failed |= !ok;
        assert_eq!(self.flusher.done(&run, ok), pages::bytes(clean));
    }

    /// Compares everything that can be asked.
    fn compare(&mut self) {
        let range = self.range();
        let fresh = pages::bytes(self.naive.fresh(range.clone()));
        assert_eq!(self.flusher.fresh(area_of(&range)), fresh);
        let (dirty, writing) = self.naive.frames(None);
        let promised = Bytes(self.naive.promised.values().sum());
        let device = pages::bytes(dirty + writing) + promised;
        for id in (0..GROUPS as u32).map(GroupId) {
            let (dirty, writing) = self.naive.frames(Some(id));
            let promised = self.naive.promised.get(&id).copied().unwrap_or_default();
            let group = Bytes((dirty + writing) * PAGE + promised);
            let write_back = pages::bytes(self.naive.frames(None).1);
            assert_eq!(self.flusher.dirty(id), Dirty { device, group, write_back });
            let has = group > Bytes::ZERO || self.naive.again(Some(id)) > 0;
            assert_eq!(self.flusher.has_dirty(id), has, "{id:?}");
        }
        let oldest = self.naive.all_ready().map(|(_, mud)| mud.since + DIRTY_EXPIRE).min();
        assert_eq!(self.flusher.next_expiry(), oldest.unwrap_or(Instant::NEVER));
        let stats = self.flusher.stats();
        assert_eq!(stats, self.naive.stats);
        let out = stats.written_back_pages + stats.lost_pages + stats.discarded_pages;
        assert_eq!(stats.dirtied_pages, out + dirty + writing + self.naive.again(None));
        self.compare_syncs();
        assert_eq!(self.flusher.pages.intervals_count(), self.naive.stretches());
    }

    fn compare_syncs(&mut self) {
        let left = self.naive.outstanding(0..PAGES);
        for waiting in &mut self.waiting {
            let is_synced = left.is_disjoint(&waiting.outstanding);
            let said = match (waiting.whole, &mut waiting.part) {
                (Some(mark), _) => self.flusher.is_synced(mark),
                (None, Some(mark)) => self.flusher.is_area_synced(mark),
                (None, None) => unreachable!("one of them"),
            };
            assert_eq!(said, is_synced);
        }
        self.waiting.retain(|waiting| !left.is_disjoint(&waiting.outstanding));
    }

    /// Everything that is due is carried out, and nothing else.
    fn end(&mut self) {
        std::mem::take(&mut self.naive.held_back)
            .into_iter()
            .for_each(|id| self.flusher.release(id));
        self.sync();
        loop {
            while let Some(run) = self.candidate(u64::MAX, false) {
                for page in pages_of(run.area) {
                    let mud = self.naive.cells[page as usize].dirty.expect("dirty");
                    assert!(self.naive.is_due(self.now, &mud), "page {page} is not due");
                }
                self.take(&run);
            }
            if self.naive.in_line.is_empty() {
                break;
            }
            self.done(0, true);
            self.compare();
        }
        assert!(self.waiting.is_empty(), "every sync has ended");
        assert!(self.flusher.is_synced(Mark(u64::MAX)), "all was dirty before the last one");
    }
}

fn run(seeds: Range<u64>, steps: u64) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let mut test = Test::new(seed);
        for step in 0..steps {
            test.step();
            test.compare();
            for mud in test.naive.cells.iter().flat_map(|cell| &cell.dirty) {
                let latest = mud.since + MERGE_AGE;
                assert!(mud.since <= mud.at && mud.at <= latest, "seed {seed} step {step}");
            }
        }
        test.end();
        let seen = test.naive.seen;
        all.again += seen.again;
        all.passed += seen.passed;
        all.used += seen.used;
        all.full += seen.full;
        all.new_first += seen.new_first;
        all.behind += seen.behind;
        all.asked += seen.asked;
        all.turns += seen.turns;
        all.urgent += seen.urgent;
        all.held_back += seen.held_back;
    }
    all
}

#[test]
fn p1_p2_p3_p4_p5_p9_p10_it_agrees_with_a_list_of_pages() {
    let seen = run(1..61, 800);
    let least = [
        seen.again,
        seen.passed,
        seen.used,
        seen.full,
        seen.new_first,
        seen.behind,
        seen.asked,
        seen.turns,
        seen.urgent,
        seen.held_back,
    ];
    assert!(least.iter().all(|&count| count > 20), "not all situations came up: {seen:?}");
}
