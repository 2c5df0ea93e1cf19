//! How many requests per second of a recorded trace the simulator reads, and carries out, on one
//! core: `cargo run --release -p iopace-sim --example replay_speed [FORMAT...]`.
//!
//! The trace has a million requests of four programs, half of them reads, at 40 000 a second. It is
//! read from memory, in each format. *Survey* is reading and ordering alone; a *run* is that and
//! the whole simulator, without a recording.

use iopace_sim::inputs::{Format, InputError};
use iopace_sim::replay::{TraceRecording, TraceReplay, TraceSettings};
use std::fmt::Write as _;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Instant;

const REQUESTS: u64 = 1_000_000;

/// Nanoseconds between two requests: what a SATA SSD takes.
const GAP: u64 = 25_000;

/// The trace as text.
fn text(format: Format) -> String {
    let mut text = String::new();
    if format == Format::Iolog {
        text.push_str("fio version 3 iolog\n");
    }
    let mut random = 1u64;
    for number in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (program, page, reads) =
            (number % 4, (random >> 33) % (1 << 24), (random >> 20).is_multiple_of(2));
        let (at, offset) = (number * GAP, page * 4_096);
        let _ = match format {
            Format::Iolog => {
                let op = if reads { "read" } else { "write" };
                writeln!(text, "{} /data/file-{program} {op} {offset} 4096", at / 1_000)
            }
            Format::Blkparse => {
                let op = if reads { "R" } else { "WS" };
                let (seconds, nanos) = (at / 1_000_000_000, at % 1_000_000_000);
                writeln!(
                    text,
                    "  8,0    {program}  {number:>8} {seconds:>5}.{nanos:09} {:>5}  Q  {op} {} + 8 \
                     [fio]",
                    700 + program,
                    offset / 512
                )
            }
            _ => {
                let op = if reads { "Read" } else { "Write" };
                let time = 128_166_372_003_061_629 + at / 100;
                writeln!(text, "{time},hm,{program},{op},{offset},4096,250")
            }
        };
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "it measures the simulator, from outside")]
fn timed<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let made = act();
    let spent = begin.elapsed();
    println!("{name:36} {spent:>9.3?}: {:>10.0} requests/s", REQUESTS as f64 / spent.as_secs_f64());
    made
}

fn main() -> Result<(), InputError> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for format in [Format::Iolog, Format::Blkparse, Format::Msr] {
        let name = format.name();
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        let text: Arc<str> = text(format).into();
        let recording = || {
            let text = Arc::clone(&text);
            let open = move || {
                let reader: Box<dyn BufRead + Send> = Box::new(Shared(Arc::clone(&text), 0));
                Ok(reader)
            };
            TraceRecording::survey("trace", format, Box::new(open), |_| ())
        };
        let first = timed(&format!("{name}, survey"), recording)?;
        let mut all = vec![first];
        for disk in ["null", "ssd-sata"] {
            for scheduler in ["fifo", "fair"] {
                let replay = TraceReplay::of(disk, all, TraceSettings::default());
                let chosen = iopace_core::sched::find(scheduler);
                timed(&format!("{name}, {disk}, {scheduler}"), || replay.run(chosen, &|_| ()))?;
                all = replay.recordings;
            }
        }
    }
    Ok(())
}

/// A text that is read from its beginning.
struct Shared(Arc<str>, usize);

impl std::io::Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let mut rest = self.fill_buf()?;
        let count = rest.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Shared {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(&self.0.as_bytes()[self.1..])
    }

    fn consume(&mut self, count: usize) {
        self.1 += count;
    }
}
