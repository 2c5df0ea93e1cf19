//! Trade-off curves: what a parameter buys, and what it costs.
//!
//! [`quantum_wait`] runs both mixes of the geom table under rr for every pair of time slice and
//! waiting time. Long slices seek less and make the other program wait longer; a short wait gives
//! up a program that would have come back, a long one idles the disk.

mod plot;
pub mod slots;

pub use plot::svg;

use crate::tables::geom::FIGURES;
use crate::tables::geom::slices::{MIXES, SlicePoint, pairs};
use iopace_core::time::Nanos;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Time slices of the sweep in ms: rr's whole range (1 to 500), about doubling.
pub const QUANTUM_MS: [u64; 7] = [5, 10, 25, 50, 100, 250, 500];

/// Waiting times of the sweep in ms: rr's whole range.
pub const WAIT_MS: [u64; 5] = [1, 2, 5, 10, 30];

/// Length of the runs of the published curves.
pub const DURATION: Nanos = Nanos::from_secs(30);

/// rr over slice and wait, both mixes; ordered by mix, wait, slice.
pub fn quantum_wait(seed: u64, duration: Nanos) -> Vec<SlicePoint> {
    let of = |wait_ms| QUANTUM_MS.map(|quantum_ms| (quantum_ms, wait_ms));
    pairs(&WAIT_MS.map(of).concat(), seed, duration)
}

/// The points as comma-separated values with a header line.
pub fn csv(points: &[SlicePoint]) -> String {
    let mut text = String::from("row,quantum_ms,wait_ms");
    for (figure, _) in FIGURES {
        let _ = write!(text, ",{figure}");
    }
    text.push('\n');
    for point in points {
        let SlicePoint { row, quantum_ms, wait_ms, outcome } = point;
        let _ = write!(text, "{row},{quantum_ms},{wait_ms}");
        for (figure, _) in FIGURES {
            let value = outcome.figure(figure);
            let _ = write!(text, ",{}", value.map_or(String::new(), |n| n.to_string()));
        }
        text.push('\n');
    }
    text
}

/// Writes the curves of `points` into a directory: one CSV, and one SVG for each mix. Returns the
/// files.
///
/// # Errors
/// The directory or a file cannot be written; the message names it.
pub fn write(points: &[SlicePoint], directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = vec![("geom-quantum-wait.csv".to_string(), csv(points))];
    for row in MIXES {
        let name = format!("geom-quantum-wait-{}.svg", row.replace('+', "-"));
        files.push((name, svg(points, row)));
    }
    write_files(directory, files)
}

/// Writes named texts into a directory, which is made if it is missing.
fn write_files(directory: &Path, files: Vec<(String, String)>) -> std::io::Result<Vec<PathBuf>> {
    let named = |path: &Path, error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| named(directory, error))?;
    let written = files.into_iter().map(|(name, text)| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| named(&path, error))?;
        Ok(path)
    });
    written.collect()
}
