use super::*;

/// The same, page by page: each with its use, whether it is dirty and whether it was read.
struct Naive {
    config: PageCacheConfig,
    frames: BTreeMap<u64, (u64, bool, bool)>,
    stamp: u64,
}

impl Naive {
    fn touch(&mut self, page: u64, is_read: bool) -> bool {
        let Some(frame) = self.frames.get_mut(&page) else { return false };
        self.stamp += 1;
        (frame.0, frame.2) = (self.stamp, frame.2 || is_read);
        true
    }

    fn make_room(&mut self, count: u64) -> bool {
        while (self.frames.len() as u64 + count) * PAGE > self.config.memory.get() {
            let clean = self.frames.iter().filter(|(_, (_, is_dirty, _))| !is_dirty);
            let class = |was_read| was_read || !self.config.drop_behind;
            let next = clean.min_by_key(|(_, frame)| (class(frame.2), frame.0));
            let Some((&page, _)) = next else { return false };
            self.frames.remove(&page);
        }
        true
    }

    fn insert(&mut self, page: u64, is_dirty: bool) {
        self.stamp += 1;
        self.frames.insert(page, (self.stamp, is_dirty, !is_dirty));
    }

    fn read(&mut self, extent: Extent) -> Lookup {
        let all: Vec<u64> = pages(extent).filter(|&page| !self.touch(page, true)).collect();
        match (all.first(), all.last()) {
            (Some(first), Some(last)) => Lookup::Miss(page_extent(*first, last + 1 - first)),
            _ => Lookup::Hit,
        }
    }

    fn fill(&mut self, extent: Extent) {
        for page in whole_pages(extent) {
            if !self.frames.contains_key(&page) && self.make_room(1) {
                self.insert(page, false);
            }
            self.touch(page, true);
        }
    }

    fn write(&mut self, extent: Extent) {
        let new = pages(extent).filter(|&page| !self.touch(page, false)).count();
        self.make_room(new as u64);
        for page in pages(extent) {
            match self.frames.get_mut(&page) {
                Some(frame) => (frame.1, frame.2) = (true, false),
                None => self.insert(page, true),
            }
        }
    }

    fn cleaned(&mut self, extent: Extent) {
        for page in pages(extent) {
            self.frames.entry(page).and_modify(|frame| frame.1 = false);
        }
        self.make_room(0);
    }

    fn trim(&mut self, extent: Extent) {
        for page in whole_pages(extent) {
            self.frames.remove(&page);
        }
    }
}

impl PageCache {
    /// As many pages as the runs say, each run as long as it can be, and clean ones in the order.
    fn check(&self) {
        let sum = |is_counted: fn(&FrameRun) -> bool| {
            let runs = self.runs.iter().filter(|(_, run)| is_counted(run));
            runs.map(|(first, run)| run.end - first).sum::<u64>()
        };
        assert_eq!((self.pages, self.dirty_pages), (sum(|_| true), sum(|run| run.is_dirty)));
        let runs: Vec<(&u64, &FrameRun)> = self.runs.iter().collect();
        for pair in runs.windows(2) {
            let ((first, run), (&next_first, next)) = (pair[0], pair[1]);
            assert!(run.end <= next_first);
            assert!(run.end < next_first || !run.joins(run.end - first, next), "{pair:?}");
        }
        let clean = self.runs.iter().filter(|(_, run)| !run.is_dirty);
        let lru: BTreeMap<_, _> = clean.map(|(&at, run)| (key(&self.config, run), at)).collect();
        assert_eq!(self.lru, lru);
    }
}

#[test]
fn runs_do_what_single_pages_do() {
    let mut random = 1u64;
    for round in 0..200 {
        let memory = Bytes((8 + round % 5 * 8) * PAGE);
        let config = PageCacheConfig { memory, drop_behind: round % 2 == 0 };
        let mut cache = PageCache::new(config);
        let mut naive = Naive { config, frames: BTreeMap::new(), stamp: 0 };
        for step in 0..300 {
            let mut draw = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % below
            };
            let (unit, places) = if draw(4) == 0 { (1_000, 300) } else { (PAGE, 70) };
            let (offset, len) = (draw(places) * unit, draw(places / 3) * unit);
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
            match draw(8) {
                0 | 1 => assert_eq!(cache.read(extent), naive.read(extent), "{round}: {step}"),
                2 | 3 => (cache.fill(extent), naive.fill(extent)).1,
                4 | 5 => (cache.write(extent), naive.write(extent)).1,
                6 => (cache.cleaned(extent), naive.cleaned(extent)).1,
                _ => (cache.trim(extent), naive.trim(extent)).1,
            }
            cache.check();
            let dirty = naive.frames.values().filter(|frame| frame.1).count() as u64;
            assert_eq!(cache.dirty_pages, dirty, "{round}: {step}");
            assert_eq!(cache.pages, naive.frames.len() as u64, "{round}: {step}");
        }
    }
}

fn extent(page: u64, count: u64) -> Extent {
    page_extent(page, count)
}

fn cache(memory_pages: u64) -> PageCache {
    PageCache::new(PageCacheConfig { memory: Bytes(memory_pages * PAGE), drop_behind: false })
}

#[test]
fn what_was_read_or_written_is_there_until_it_is_evicted() {
    let mut cache = cache(16);
    assert_eq!(cache.read(extent(0, 4)), Lookup::Miss(extent(0, 4)));
    cache.fill(extent(0, 4));
    assert_eq!(cache.read(extent(0, 4)), Lookup::Hit);
    assert_eq!(cache.read(extent(2, 4)), Lookup::Miss(extent(4, 2)));
    cache.write(extent(4, 1));
    assert_eq!(cache.read(extent(2, 3)), Lookup::Hit);
    for page in 100..115 {
        cache.fill(extent(page, 1));
    }
    assert_eq!(cache.read(extent(0, 1)), Lookup::Miss(extent(0, 1)), "least recently used goes");
    assert_eq!(cache.read(extent(4, 1)), Lookup::Hit, "dirty pages stay");
    assert!(cache.cached() <= Bytes(16 * PAGE));
}

#[test]
fn dirty_pages_take_frames_from_readers_until_they_are_clean() {
    let mut cache = cache(16);
    cache.fill(extent(0, 16));
    cache.write(extent(100, 10));
    assert_eq!(cache.dirty(), Bytes(10 * PAGE));
    assert_eq!(cache.cached(), Bytes(16 * PAGE));
    assert_eq!(cache.read(extent(0, 16)), Lookup::Miss(extent(0, 10)));
    cache.fill(extent(0, 16));
    assert_eq!(cache.read(extent(100, 10)), Lookup::Hit);
    cache.cleaned(extent(100, 10));
    assert_eq!(cache.dirty(), Bytes::ZERO);
    cache.fill(extent(200, 16));
    assert_eq!(cache.read(extent(100, 10)), Lookup::Miss(extent(100, 10)));
}

#[test]
fn with_drop_behind_written_pages_go_before_older_ones_that_are_read() {
    let mut cache = PageCache::new(PageCacheConfig { memory: Bytes(16 * PAGE), drop_behind: true });
    cache.fill(extent(0, 8));
    cache.write(extent(100, 8));
    cache.cleaned(extent(100, 4));
    assert_eq!(cache.read(extent(103, 1)), Lookup::Hit, "read again: it is like the others");
    cache.write(extent(200, 3));
    assert_eq!(cache.read(extent(0, 8)), Lookup::Hit);
    assert_eq!(cache.read(extent(100, 4)), Lookup::Miss(extent(100, 3)));
}

#[test]
fn more_dirty_than_memory_grows_beyond_it_and_comes_back() {
    let mut cache = cache(8);
    cache.write(extent(0, 20));
    assert_eq!(cache.cached(), Bytes(20 * PAGE));
    cache.cleaned(extent(0, 20));
    assert_eq!(cache.cached(), Bytes(8 * PAGE));
}

#[test]
fn what_is_trimmed_is_gone_dirty_or_not() {
    let mut cache = cache(64);
    cache.fill(extent(0, 4));
    cache.write(extent(4, 4));
    cache.trim(Extent::new(Bytes(PAGE + 1), Bytes(5 * PAGE)).expect("small"));
    assert_eq!(cache.dirty(), Bytes(2 * PAGE));
    assert_eq!(cache.read(extent(0, 8)), Lookup::Miss(extent(2, 4)));
    cache.cleaned(extent(0, 8));
    assert_eq!(cache.dirty(), Bytes::ZERO);
}

#[test]
fn parts_of_pages_are_dirty_as_whole_pages_and_fill_none() {
    let mut cache = cache(64);
    let part = Extent::new(Bytes(100), Bytes(PAGE)).expect("small");
    cache.write(part);
    assert_eq!(cache.dirty(), Bytes(2 * PAGE));
    cache.fill(Extent::new(Bytes(10 * PAGE + 1), Bytes(PAGE)).expect("small"));
    assert_eq!(cache.read(extent(10, 1)), Lookup::Miss(extent(10, 1)));
    cache.write(Extent::new(Bytes(20 * PAGE), Bytes(0)).expect("small"));
    assert_eq!(cache.dirty(), Bytes(2 * PAGE));
}
