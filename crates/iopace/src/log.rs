//! The log: what the daemon says beside its results, on standard error.
//!
//! Where that is the journal, each line begins with its priority as the journal takes it (`<3>`,
//! see sd-daemon(3)); the journal has its own time stamps and shows levels as colours.
//!
//! Nothing in it commands a terminal: names that others have chosen are shown as they are in
//! [`printable`], and what follows a line end within a message is indented, so that no name forges
//! a line.
//!
//! A log that cannot be written (a full file system, a pipe that nobody reads any more) ends
//! nothing: its lines are lost, and the first line that can be written says how many.

use crate::cli::LogFormat;
use iopace_daemon::printable;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

/// Whether something was logged that somebody should see.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Most digits and semicolons of a colour: the log's own have at most four.
const COLOUR_LEN_MAX: usize = 8;

/// Messages that could not be written since one could.
static LOST_COUNT: AtomicU64 = AtomicU64::new(0);

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
        true => BoxMakeWriter::new(Losing { to: Journal, format }.and(noted())),
        false => BoxMakeWriter::new(Losing { to: io::stderr, format }.and(noted())),
    };
    let colours = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(writer);
    // It would say on standard error that standard error cannot be written, and panic there.
    let builder = builder.log_internal_errors(false);
    match format {
        LogFormat::Human if is_journal => {
            builder.with_ansi(false).with_target(false).with_level(false).without_time().init();
        }
        LogFormat::Human => builder.with_ansi(colours).with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    log_panics();
}

/// Has panics logged like everything else, with the thread and the place: a thread that is lost is
/// worth knowing of, also if the daemon ends well afterwards.
///
/// A panic in here would be the end of the daemon: the standard library aborts at once, without
/// asking any hook. So nothing in here unwraps, and the log loses what it cannot write.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        HAS_WARNED.store(true, Relaxed);
        let thread = std::thread::current();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        // Empty unless RUST_BACKTRACE is set.
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        tracing::error!(
            thread = thread.name().unwrap_or("without a name"),
            place,
            "panicked: {}{trace}",
            message.unwrap_or("no message")
        );
    }));
}

/// Takes note of warnings and errors beside writing them.
fn noted() -> impl for<'a> MakeWriter<'a> {
    let note = || {
        HAS_WARNED.store(true, Relaxed);
        io::sink()
    };
    note.with_max_level(tracing::Level::WARN)
}

/// Removes the log of a daemon that has ended well, unless there is a warning or a panic in it.
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

/// Where the log goes, as something that never fails.
struct Losing<M> {
    to: M,
    format: LogFormat,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Losing<M> {
    type Writer = Lossy<'static, M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Lossy { to: self.to.make_writer(), format: self.format, lost_count: &LOST_COUNT }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        let to = self.to.make_writer_for(meta);
        Lossy { to, format: self.format, lost_count: &LOST_COUNT }
    }
}

/// Loses what cannot be written, and counts it. It is given whole messages.
struct Lossy<'a, W> {
    to: W,
    format: LogFormat,
    lost_count: &'a AtomicU64,
}

impl<W: Write> Write for Lossy<'_, W> {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let lost_count = self.lost_count.swap(0, Relaxed);
        // Of the last that was lost, a part may have been written.
        let said = match (lost_count, self.format) {
            (0, _) => String::new(),
            (count, LogFormat::Human) => {
                format!("\nmessages before this one that could not be written: {count}\n")
            }
            (count, LogFormat::Json) => format!(
                "\n{{\"level\":\"WARN\",\"message\":\"messages before this one could not be \
                 written\",\"lost_count\":{count}}}\n"
            ),
        };
        let shown = shown(message, self.format);
        let written = match lost_count {
            0 => self.to.write_all(shown.as_bytes()),
            _ => self.to.write_all(&[said.as_bytes(), shown.as_bytes()].concat()),
        };
        if written.is_err() {
            self.lost_count.fetch_add(lost_count + 1, Relaxed);
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.to.flush();
        Ok(())
    }
}

/// A message without anything that commands a terminal but colours, as the log has them itself.
fn shown(message: &[u8], format: LogFormat) -> String {
    let text = String::from_utf8_lossy(message);
    if format == LogFormat::Json {
        return printable::json(text.into_owned());
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.trim_end_matches('\n');
    while let Some(c) = rest.chars().next() {
        match colour_len(rest) {
            0 => {
                match c {
                    '\n' => shown.push_str("\n    "),
                    '\t' => shown.push(c),
                    _ if printable::is_commanding(c) => printable::show(c, &mut shown),
                    _ => shown.push(c),
                }
                rest = &rest[c.len_utf8()..];
            }
            len => {
                shown.push_str(&rest[..len]);
                rest = &rest[len..];
            }
        }
    }
    shown.push('\n');
    shown
}

/// The length of a colour (SGR, as `\x1b[2;31m`) at the beginning of a text; 0 if there is none.
fn colour_len(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\x1b[") else { return 0 };
    let len = numbers.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if len <= COLOUR_LEN_MAX && numbers.as_bytes().get(len) == Some(&b'm') { len + 3 } else { 0 }
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
    use std::sync::Mutex;

    #[test]
    fn every_line_has_the_priority_of_its_message() {
        let mut written = Vec::new();
        let mut writer = Prioritised { priority: priority(tracing::Level::WARN), to: &mut written };
        writer.write_all(b"one\ntwo\n").expect("written");
        writer.write_all(b"three\n").expect("written");
        assert_eq!(String::from_utf8(written).expect("text"), "<4>one\n<4>two\n<4>three\n");
    }

    #[test]
    fn nothing_in_a_message_commands_a_terminal_or_forges_a_line() {
        let human = |text: &str| shown(text.as_bytes(), LogFormat::Human);
        assert_eq!(
            human("\x1b[2m12:00\x1b[0m a\x1b[2J\u{9b}K\n"),
            "\x1b[2m12:00\x1b[0m a\\x1b[2J\\x9bK\n"
        );
        assert_eq!(human("one\n<0>forged\r\ntwo\n"), "one\n    <0>forged\\x0d\n    two\n");
        assert_eq!(shown(b"{\"a\":\"\xc2\x9b\"}\n", LogFormat::Json), "{\"a\":\"\\u009b\"}\n");
    }

    /// Room for so many bytes, as on a full file system.
    struct Full<'a> {
        left: usize,
        written: &'a mut Vec<u8>,
    }

    impl Write for Full<'_> {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            let len = data.len().min(self.left);
            self.left -= len;
            self.written.extend_from_slice(&data[..len]);
            if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn what_cannot_be_written_is_lost_and_counted() {
        let lost_count = AtomicU64::new(0);
        for (format, said) in [(LogFormat::Human, "written: 3\n"), (LogFormat::Json, ":3}\n")] {
            let mut written = Vec::new();
            let mut say = |left: usize, message: &[u8]| {
                let to = Full { left, written: &mut written };
                let mut writer = Lossy { to, format, lost_count: &lost_count };
                writer.write_all(message).and_then(|()| writer.flush()).expect("never fails");
            };
            say(100, b"before\n");
            say(2, b"one\n");
            say(0, b"two\n");
            say(1, b"three\n");
            assert_eq!(lost_count.load(Relaxed), 3);
            say(1_000, b"after\n");
            say(1_000, b"last\n");
            let text = String::from_utf8(written).expect("text");
            assert!(text.starts_with("before\non\n"), "{text}");
            assert!(text.ends_with(&format!("{said}after\nlast\n")), "{text}");
            assert_eq!(lost_count.load(Relaxed), 0);
        }
    }

    #[test]
    fn a_panic_is_logged_with_thread_and_place_and_keeps_the_log() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("iopace.log");
        let writer = Mutex::new(std::fs::File::create(&log).expect("made"));
        let builder = tracing_subscriber::fmt().with_writer(writer).with_ansi(false);
        let subscriber = builder.finish();
        let former = std::panic::take_hook();
        log_panics();
        let thread = std::thread::Builder::new().name("worker".into()).spawn(|| {
            tracing::subscriber::with_default(subscriber, || {
                let count = std::hint::black_box(7);
                panic!("lost count at {count}");
            })
        });
        let ended = thread.expect("a thread").join();
        std::panic::set_hook(former);
        assert!(ended.is_err());
        remove_if_clean(&log);
        let text = std::fs::read_to_string(&log).expect("kept");
        for words in ["ERROR", "panicked: lost count at 7", "thread=\"worker\"", "src/log.rs:"] {
            assert!(text.contains(words), "'{words}' in {text}");
        }
    }

    #[test]
    fn another_stream_is_not_the_journal() {
        for stream in [None, Some(""), Some("0:0"), Some("x")] {
            assert!(!is_journal(stream.map(OsStr::new)), "{stream:?}");
        }
    }
}
