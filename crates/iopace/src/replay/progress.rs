//! How far a replay has come, on standard error, if that is a terminal.

use crate::study_output::ProgressLine;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most schedulers that are named in the line, so that it stays on a line.
const NAMED_MAX: usize = 4;

/// The runs of a replay: one for each scheduler.
pub(super) struct Progress<'a> {
    line: ProgressLine,
    names: &'a [&'a str],
    /// Requests that each run has read.
    read: Vec<AtomicU64>,
    done: AtomicUsize,
    /// Requests of one run; none if it is not known, as with a job file.
    requests_count: u64,
}

impl<'a> Progress<'a> {
    /// Nothing is done yet.
    pub(super) fn begin(names: &'a [&'a str], requests_count: u64) -> Progress<'a> {
        let read = names.iter().map(|_| AtomicU64::new(0)).collect();
        let (line, done) = (ProgressLine::begin(), AtomicUsize::new(0));
        Progress { line, names, read, done, requests_count }
    }

    /// A run has read so many requests.
    pub(super) fn read(&self, run: usize, requests: u64) {
        self.read[run].store(requests, Ordering::Relaxed);
        self.line.say(|| self.text());
    }

    /// A run is over.
    pub(super) fn done(&self, run: usize) {
        self.read[run].store(self.requests_count, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
        self.line.say(|| self.text());
    }

    /// All are.
    pub(super) fn end(&self) {
        self.line.end();
    }

    /// `1 of 3 schedulers done; deadline 45 %, fair 12 %, about 20 s left`.
    fn text(&self) -> String {
        let (all, done) = (self.names.len(), self.done.load(Ordering::Relaxed));
        let read = self.read.iter().map(|read| read.load(Ordering::Relaxed));
        let read: Vec<u64> = read.collect();
        let under_way = self.names.iter().zip(&read);
        let under_way = under_way.filter(|(_, read)| (1..self.requests_count).contains(*read));
        let parts: Vec<String> = under_way
            .take(NAMED_MAX)
            .map(|(name, read)| format!("{name} {} %", percent(*read, self.requests_count)))
            .collect();
        let parts =
            if parts.is_empty() { String::new() } else { format!("; {}", parts.join(", ")) };
        let part = match self.requests_count {
            0 => done as f64 / all.max(1) as f64,
            count => read.iter().sum::<u64>() as f64 / (count as f64 * all.max(1) as f64),
        };
        format!("{done} of {all} schedulers done{parts}{}", self.line.left(part))
    }
}

fn percent(part: u64, whole: u64) -> u128 {
    u128::from(part) * 100 / u128::from(whole.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_of_how_many_and_how_far() {
        let names = ["none", "deadline", "fair"];
        let progress = Progress::begin(&names, 1_000);
        assert_eq!(progress.text(), "0 of 3 schedulers done");
        progress.done(0);
        progress.read(1, 459);
        let text = progress.text();
        assert!(text.starts_with("1 of 3 schedulers done; deadline 45 %, about "), "{text}");
        let job = Progress::begin(&names[..1], 0);
        assert_eq!(job.text(), "0 of 1 schedulers done");
    }
}
