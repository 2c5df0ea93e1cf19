use super::*;

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
