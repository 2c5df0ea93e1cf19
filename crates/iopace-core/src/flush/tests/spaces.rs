//! Pages of several spaces.

use super::*;

#[test]
fn pages_of_two_spaces_have_nothing_to_do_with_each_other() {
    let mut flusher = Flusher::default();
    let [disk, one, two] = [Space::DISK, Space(1), Space(2)];
    for space in [disk, two, one] {
        assert_eq!(flusher.fresh(area(space, 0, 4)), Bytes(4 * PAGE));
        flusher.wrote(T0, owner(1, 0), area(space, 0, 4), Bytes::ZERO);
    }
    // Far into a file, and behind it in the map: the first pages of the next.
    flusher.wrote(T0, owner(1, 0), area(one, 1 << 50, 4), Bytes::ZERO);
    assert_eq!(dirty_pages(&flusher, 0), (16, 16, 0));
    let mut mark = flusher.sync_area(area(one, 0, 1 << 51));
    let runs: Vec<Run> = std::iter::from_fn(|| {
        let run = flusher.urgent(Bytes(64 * PAGE), |_| false)?;
        flusher.take(&run);
        Some(run)
    })
    .collect();
    let areas: Vec<Area> = runs.iter().map(|run| run.area).collect();
    assert_eq!(areas, [area(one, 0, 4), area(one, 1 << 50, 4)]);
    for run in &runs {
        assert!(!flusher.is_area_synced(&mut mark));
        flusher.done(run, true);
    }
    assert!(flusher.is_area_synced(&mut mark) && flusher.is_clean(area(one, 0, 1 << 51)));
    flusher.discard(area(two, 0, 1 << 51), |_, size| assert_eq!(size, Bytes(4 * PAGE)));
    assert_eq!(take(&mut flusher, T0).map(|run| run.area), Some(extent(0, 4)));
    assert_eq!(take(&mut flusher, T0), None);
}
