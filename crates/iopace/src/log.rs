//! The log: what the daemon says beside its results, on standard error.
//!
//! Where that is the journal, each line begins with its priority as the journal takes it (`<3>`,
//! see sd-daemon(3)); the journal has its own time stamps and shows levels as colours.

use crate::cli::LogFormat;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

/// Whether something was logged that somebody should see.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Starts logging; `verbose` and `quiet` count how often they were said.
pub fn start(format: LogFormat, verbose: u8, quiet: u8) {
    let level = match (verbose, quiet) {
        (0, 0) => LevelFilter::INFO,
        (0, 1) => LevelFilter::WARN,
        (0, _) => LevelFilter::ERROR,
        (1, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let is_journal = is_journal(std::env::var_os("JOURNAL_STREAM").as_deref());
    let writer = match is_journal {
        true => BoxMakeWriter::new(Journal.and(noted())),
        false => BoxMakeWriter::new(io::stderr.and(noted())),
    };
    let colours = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(writer);
    match format {
        LogFormat::Human if is_journal => {
            builder.with_ansi(false).with_target(false).with_level(false).without_time().init();
        }
        LogFormat::Human => builder.with_ansi(colours).with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

/// Takes note of warnings and errors beside writing them.
fn noted() -> impl for<'a> MakeWriter<'a> {
    let note = || {
        HAS_WARNED.store(true, Relaxed);
        io::sink()
    };
    note.with_max_level(tracing::Level::WARN)
}

/// Removes the log of a daemon that has ended well, unless there is a warning in it.
pub fn remove_if_clean(log: &Path) {
    if !HAS_WARNED.load(Relaxed) {
        let _ = std::fs::remove_file(log);
    }
}

/// Whether standard error is the journal: a service manager says device and inode of what it has
/// connected there, in `JOURNAL_STREAM`, and it may have been sent elsewhere since.
fn is_journal(stream: Option<&OsStr>) -> bool {
    let Ok(found) = rustix::fs::fstat(rustix::stdio::stderr()) else { return false };
    let own = format!("{}:{}", found.st_dev, found.st_ino);
    stream.is_some_and(|stream| stream == own.as_str())
}

/// Standard error, with priorities.
struct Journal;

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Prioritised<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Prioritised { priority: priority(tracing::Level::INFO), to: io::stderr() }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Prioritised { priority: priority(*meta.level()), to: io::stderr() }
    }
}

/// As in syslog(3): err, warning, info, debug.
fn priority(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "<3>",
        tracing::Level::WARN => "<4>",
        tracing::Level::INFO => "<6>",
        tracing::Level::DEBUG | tracing::Level::TRACE => "<7>",
    }
}

/// Begins every line with a priority. It is given whole messages.
struct Prioritised<W> {
    priority: &'static str,
    to: W,
}

impl<W: Write> Write for Prioritised<W> {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let mut lines = Vec::with_capacity(message.len() + self.priority.len());
        for line in message.split_inclusive(|&byte| byte == b'\n') {
            lines.extend_from_slice(self.priority.as_bytes());
            lines.extend_from_slice(line);
        }
        self.to.write_all(&lines)?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_the_priority_of_its_message() {
        let mut written = Vec::new();
        let mut writer = Prioritised { priority: priority(tracing::Level::WARN), to: &mut written };
        writer.write_all(b"one\ntwo\n").expect("written");
        writer.write_all(b"three\n").expect("written");
        assert_eq!(String::from_utf8(written).expect("text"), "<4>one\n<4>two\n<4>three\n");
    }

    #[test]
    fn another_stream_is_not_the_journal() {
        for stream in [None, Some(""), Some("0:0"), Some("x")] {
            assert!(!is_journal(stream.map(OsStr::new)), "{stream:?}");
        }
    }
}
