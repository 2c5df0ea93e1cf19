//! The trade-off curves: complete, and the same bytes each time.

use iopace_core::time::Nanos;
use iopace_sim::sweep::{QUANTUM_MS, WAIT_MS, csv, quantum_wait, svg, write};
use iopace_sim::tables::geom::slices::{MIXES, SlicePoint};

#[test]
fn the_curves_repeat_byte_for_byte_and_are_complete() {
    let points = quantum_wait(1, Nanos::from_secs(1));
    assert_eq!(points.len(), MIXES.len() * QUANTUM_MS.len() * WAIT_MS.len());
    assert_eq!(points, quantum_wait(1, Nanos::from_secs(1)));
    let table = csv(&points);
    assert_eq!(table.lines().count(), points.len() + 1);
    assert!(table.lines().all(|line| line.split(',').count() == 9), "{table}");
    for row in MIXES {
        let picture = svg(&points, row);
        assert_eq!(picture, svg(&points, row));
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert!(picture.matches("<polyline").count() >= 3 * WAIT_MS.len(), "{row}");
    }
}

#[test]
fn a_longer_slice_gives_the_stream_more() {
    let points = quantum_wait(1, Nanos::from_secs(2));
    let share = |quantum| {
        let of = |p: &&SlicePoint| (p.row, p.wait_ms, p.quantum_ms) == (MIXES[0], 10, quantum);
        points.iter().find(of).and_then(|point| point.outcome.dd_share).expect("swept")
    };
    assert!(share(100) > share(5));
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let file = std::env::temp_dir().join(format!("iopace-sweep-{}", std::process::id()));
    std::fs::write(&file, "in the way").expect("a writable directory");
    let error = write(&[], &file.join("below")).expect_err("a file is in the way");
    std::fs::remove_file(&file).expect("it is ours");
    assert!(error.to_string().contains("below"), "{error}");
}
