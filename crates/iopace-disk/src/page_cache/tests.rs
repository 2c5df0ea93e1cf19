use super::*;

fn extent(page: u64, count: u64) -> Extent {
    page_extent(page, count)
}

fn config(memory_pages: u64, background: u64, limit: u64) -> PageCacheConfig {
    PageCacheConfig {
        memory: Bytes(memory_pages * PAGE),
        dirty_background: Bytes(background * PAGE),
        dirty_limit: Bytes(limit * PAGE),
        write_back_len: Bytes(8 * PAGE),
        write_back_inflight: 2,
    }
}

const T0: Instant = Instant::ZERO;
const ME: TaskId = TaskId(1);

#[test]
fn what_was_read_or_written_is_there_until_it_is_evicted() {
    let mut cache = PageCache::new(config(16, 8, 12));
    assert_eq!(cache.read(extent(0, 4)), Lookup::Miss(extent(0, 4)));
    cache.fill(extent(0, 4));
    assert_eq!(cache.read(extent(0, 4)), Lookup::Hit);
    assert_eq!(cache.read(extent(2, 4)), Lookup::Miss(extent(4, 2)));
    cache.write(T0, ME, extent(4, 1));
    assert_eq!(cache.read(extent(2, 3)), Lookup::Hit);
    for page in 100..115 {
        cache.fill(extent(page, 1));
    }
    assert_eq!(cache.read(extent(0, 1)), Lookup::Miss(extent(0, 1)), "least recently used goes");
    assert_eq!(cache.read(extent(4, 1)), Lookup::Hit, "dirty pages stay");
    assert!(cache.cached() <= Bytes(16 * PAGE));
}

#[test]
fn a_writer_waits_above_the_limit_and_goes_on_after_a_write_back() {
    let mut cache = PageCache::new(config(64, 4, 8));
    assert_eq!(cache.write(T0, ME, extent(0, 8)), Accept::Accepted);
    assert_eq!(cache.write(T0, ME, extent(8, 1)), Accept::Full);
    assert_eq!(cache.write(T0, ME, extent(0, 8)), Accept::Accepted, "a rewrite counts once");
    assert_eq!(cache.dirty(), Bytes(8 * PAGE));
    let run = cache.next_write_back(T0).expect("above the background threshold");
    assert_eq!(run, WriteBack { task: ME, extent: extent(0, 8) });
    assert_eq!(cache.write(T0, ME, extent(8, 1)), Accept::Full, "it is not on the disk yet");
    cache.written_back(run.extent, true);
    assert_eq!(cache.write(T0, ME, extent(8, 1)), Accept::Accepted);
}

#[test]
fn one_larger_than_the_limit_is_taken_when_nothing_else_is_dirty() {
    let mut cache = PageCache::new(config(8, 2, 4));
    assert_eq!(cache.write(T0, ME, extent(0, 100)), Accept::Accepted);
    assert_eq!(cache.write(T0, ME, extent(200, 1)), Accept::Full);
}

#[test]
fn write_back_goes_oldest_first_in_runs_of_one_task() {
    let mut cache = PageCache::new(config(256, 0, 128));
    cache.write(T0, ME, extent(50, 3));
    cache.write(T0, TaskId(2), extent(53, 3));
    cache.write(T0, ME, extent(10, 20));
    let runs: Vec<WriteBack> = std::iter::from_fn(|| {
        let run = cache.next_write_back(T0)?;
        cache.written_back(run.extent, true);
        Some(run)
    })
    .collect();
    let places: Vec<Extent> = runs.iter().map(|run| run.extent).collect();
    assert_eq!(places[..2], [extent(50, 3), extent(53, 3)]);
    assert_eq!(places[2..], [extent(10, 8), extent(18, 8), extent(26, 4)]);
    assert_eq!(runs[1].task, TaskId(2));
    assert_eq!(cache.dirty(), Bytes::ZERO);
}

#[test]
fn below_the_background_threshold_pages_wait_until_they_are_old() {
    let mut cache = PageCache::new(config(64, 8, 16));
    cache.write(Instant(5), ME, extent(0, 4));
    assert_eq!(cache.next_write_back(Instant(6)), None);
    assert_eq!(cache.next_expiry(), Instant(5) + DIRTY_EXPIRE);
    assert!(cache.next_write_back(Instant(5) + DIRTY_EXPIRE).is_some());
}

#[test]
fn a_page_written_during_its_write_back_is_dirty_again() {
    let mut cache = PageCache::new(config(64, 0, 16));
    cache.write(T0, ME, extent(0, 2));
    let run = cache.next_write_back(T0).expect("due");
    let mark = cache.sync();
    cache.write(T0, ME, extent(1, 1));
    assert!(!cache.is_synced(mark));
    cache.written_back(run.extent, true);
    assert!(cache.is_synced(mark), "what came after the sync is not its business");
    assert_eq!(cache.dirty(), Bytes(PAGE));
    assert_eq!(cache.next_write_back(T0).map(|run| run.extent), Some(extent(1, 1)));
}

#[test]
fn a_failed_write_back_is_told_once() {
    let mut cache = PageCache::new(config(64, 0, 16));
    cache.write(T0, ME, extent(0, 2));
    let run = cache.next_write_back(T0).expect("due");
    cache.written_back(run.extent, false);
    assert!(cache.take_failure());
    assert!(!cache.take_failure());
}

/// A cache that keeps a list of pages, each with whether it is dirty and on its way.
#[derive(Default)]
struct Naive(std::collections::BTreeMap<u64, (bool, bool)>);

#[test]
fn it_agrees_with_a_list_of_pages() {
    for seed in 1..=40u64 {
        let mut random = seed;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        // Memory for all: eviction aside, the naive model is exact.
        let mut cache = PageCache::new(config(10_000, 16, 10_000));
        let (mut naive, mut flying) = (Naive::default(), Vec::<Extent>::new());
        for step in 0..600 {
            let place = extent(next(120), 1 + next(12));
            match next(6) {
                0 => {
                    cache.fill(place);
                    pages(place).for_each(|page| {
                        naive.0.entry(page).or_default();
                    });
                }
                1 | 2 => {
                    assert_eq!(cache.write(Instant(step), ME, place), Accept::Accepted);
                    pages(place).for_each(|page| naive.0.entry(page).or_default().0 = true);
                }
                3 => {
                    if let Some(run) = cache.next_write_back(Instant(step)) {
                        for page in pages(run.extent) {
                            assert_eq!(naive.0[&page], (true, false), "seed {seed} page {page}");
                            naive.0.insert(page, (false, true));
                        }
                        flying.push(run.extent);
                    }
                }
                4 if !flying.is_empty() => {
                    let run = flying.swap_remove(next(flying.len() as u64) as usize);
                    cache.written_back(run, true);
                    pages(run).for_each(|page| naive.0.get_mut(&page).expect("there").1 = false);
                }
                _ => {
                    let is_hit = pages(place).all(|page| naive.0.contains_key(&page));
                    assert_eq!(cache.read(place) == Lookup::Hit, is_hit, "seed {seed}");
                }
            }
            let unclean = naive.0.values().filter(|(dirty, writing)| *dirty || *writing).count();
            assert_eq!(cache.dirty(), Bytes(unclean as u64 * PAGE), "seed {seed} step {step}");
        }
    }
}

#[test]
fn a_writer_that_waits_makes_everything_due() {
    // Below the background threshold, but with no room for the next one.
    let mut cache = PageCache::new(config(64, 8, 10));
    cache.write(T0, ME, extent(0, 6));
    assert_eq!(cache.next_write_back(T0), None);
    assert_eq!(cache.write(T0, ME, extent(20, 6)), Accept::Full);
    let run = cache.next_write_back(T0).expect("somebody waits");
    cache.written_back(run.extent, true);
    assert_eq!(cache.write(T0, ME, extent(20, 6)), Accept::Accepted);
    assert_eq!(cache.next_write_back(T0), None);
}

#[test]
fn trimmed_pages_are_neither_found_nor_written_back() {
    let mut cache = PageCache::new(config(64, 0, 32));
    cache.fill(extent(0, 2));
    cache.write(T0, ME, extent(2, 2));
    cache.trim(extent(1, 2));
    assert_eq!(cache.read(extent(0, 4)), Lookup::Miss(extent(1, 2)));
    let run = cache.next_write_back(T0).expect("one page is left");
    assert_eq!(run.extent, extent(3, 1));
    cache.write(T0, ME, extent(3, 1));
    cache.trim(extent(3, 1));
    cache.written_back(run.extent, true);
    assert_eq!(cache.next_write_back(T0), None, "not dirty again");
}

/// Pages with whether each is dirty, whether it is on its way, and its last use.
struct NaiveLru {
    pages: std::collections::BTreeMap<u64, (bool, bool, u64)>,
    uses: u64,
    most: usize,
}

impl NaiveLru {
    fn touch(&mut self, page: u64) {
        self.uses += 1;
        let uses = self.uses;
        self.pages.entry(page).and_modify(|entry| entry.2 = uses);
    }

    fn make_room(&mut self, count: usize) {
        while self.pages.len() + count > self.most {
            let clean = self.pages.iter().filter(|(_, (dirty, writing, _))| !dirty && !writing);
            let oldest = clean.min_by_key(|(_, (_, _, used))| *used).map(|(&page, _)| page);
            self.pages.remove(&oldest.expect("enough are clean"));
        }
    }
}

#[test]
fn under_pressure_it_evicts_what_a_list_of_pages_evicts() {
    for seed in 1..=20u64 {
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (random >> 33) % below
        };
        let mut cache = PageCache::new(config(40, 6, 20));
        let mut naive = NaiveLru { pages: Default::default(), uses: 0, most: 40 };
        let mut flying = Vec::<Extent>::new();
        for step in 0..1_500 {
            let place = extent(next(80), 1 + next(6));
            match next(6) {
                0 | 1 => {
                    cache.fill(place);
                    for page in pages(place) {
                        if !naive.pages.contains_key(&page) {
                            naive.make_room(1);
                            naive.pages.insert(page, (false, false, 0));
                        }
                        naive.touch(page);
                    }
                }
                2 if cache.write(Instant(step), ME, place) == Accept::Accepted => {
                    pages(place).for_each(|page| naive.touch(page));
                    let new = pages(place).filter(|page| !naive.pages.contains_key(page)).count();
                    naive.make_room(new);
                    for page in pages(place) {
                        naive.pages.entry(page).or_insert((false, false, 0)).0 = true;
                        naive.touch(page);
                    }
                }
                3 => {
                    if let Some(run) = cache.next_write_back(Instant(step)) {
                        pages(run.extent).for_each(|page| {
                            naive.pages.entry(page).and_modify(|p| (p.0, p.1) = (false, true));
                        });
                        flying.push(run.extent);
                    }
                }
                4 if !flying.is_empty() => {
                    let run = flying.swap_remove(next(flying.len() as u64) as usize);
                    cache.written_back(run, true);
                    pages(run).for_each(|page| {
                        naive.pages.entry(page).and_modify(|p| p.1 = false);
                    });
                }
                _ => {
                    let is_hit = pages(place).all(|page| naive.pages.contains_key(&page));
                    assert_eq!(cache.read(place) == Lookup::Hit, is_hit, "seed {seed} step {step}");
                    pages(place).for_each(|page| naive.touch(page));
                }
            }
            assert_eq!(cache.cached(), Bytes(naive.pages.len() as u64 * PAGE), "seed {seed}");
            assert!(cache.dirty() <= Bytes(20 * PAGE), "seed {seed} step {step}");
        }
    }
}
