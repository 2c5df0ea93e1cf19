//! Replays: open and closed loops, speed, backlog, every scheduler, and the same bytes again.

use iopace_core::sched::REGISTRY;
use iopace_sim::inputs::Format;
use iopace_sim::inputs::place::{Fit, Speed};
use iopace_sim::replay::{Loop, Open, Recording, Replay, Settings};
use iopace_sim::report::ReplayReport;
use std::io::{BufReader, Cursor, Read};

fn recording(format: Format, bytes: Vec<u8>) -> Recording {
    let open: Open = Box::new(move || Ok(Box::new(Cursor::new(bytes.clone()))));
    Recording::survey("a trace", format, open, |_| ()).expect("a legal trace")
}

/// An iolog of 4 KiB reads, one every so many microseconds, at scattered places.
fn iolog(count: u64, every_us: u64) -> Vec<u8> {
    let mut text = String::from("fio version 3 iolog\n0 /f add\n0 /f open\n");
    for number in 0..count {
        let offset = number.wrapping_mul(0x9e37_79b9) % (1 << 25) * 4_096 % (100 << 30);
        text.push_str(&format!("{} /f read {offset} 4096\n", number * every_us));
    }
    text.into_bytes()
}

fn replay(disk: &str, bytes: Vec<u8>, settings: Settings) -> ReplayReport {
    let replay = Replay::of(disk, vec![recording(Format::Iolog, bytes)], settings);
    replay.run(None).expect("it runs")
}

#[test]
fn an_open_loop_keeps_to_the_time_stamps() {
    let report = replay("null", iolog(1_000, 1_000), Settings::default());
    assert_eq!((report.requests, report.late, report.unfinished), (1_000, 0, 0));
    assert_eq!(report.elapsed_ms.0, 999_000);
    let fast = Settings { speed: Speed::parse("4").expect("4"), ..Settings::default() };
    assert_eq!(replay("null", iolog(1_000, 1_000), fast).elapsed_ms.0, 249_750);
}

#[test]
fn an_open_loop_that_is_too_fast_shows_in_the_latency() {
    // A disk of some hundred requests a second gets two thousand of them.
    let report = replay("hdd-sata-250g", iolog(20_000, 500), Settings::default());
    assert_eq!((report.all.ops, report.unfinished), (20_000, 0));
    assert!(report.late > 10_000, "more than 4096 were due: {}", report.late);
    assert!(report.late_max_ms.0 > 1_000_000, "{}", report.late_max_ms);
    assert!(report.all.latency.max_ms > report.late_max_ms, "latency counts from when it was due");
    assert!(report.elapsed_ms.0 > 30_000_000);
}

#[test]
fn a_closed_loop_goes_as_fast_as_the_disk() {
    let closed = |depth, keeps_pauses| Settings {
        turn: Loop::Closed { depth, keeps_pauses },
        ..Settings::default()
    };
    let one = replay("ssd-sata", iolog(2_000, 10_000), closed(None, false));
    let deep = replay("ssd-sata", iolog(2_000, 10_000), closed(Some(32), false));
    assert_eq!((one.late, deep.late), (0, 0), "nothing is due in a closed loop");
    assert!(deep.elapsed_ms < one.elapsed_ms && one.elapsed_ms.0 < 2_000_000, "20 s recorded");
    let paused = replay("ssd-sata", iolog(2_000, 10_000), closed(Some(32), true));
    assert_eq!(paused.elapsed_ms.0 / 10_000, 1_999, "{}", paused.elapsed_ms);
}

#[test]
fn the_depth_of_a_closed_loop_is_that_of_the_trace_where_it_tells() {
    // 100 us apart, 750 us each: seven and a half at once.
    let lines = (0..1_000).map(|n| format!("{},hm,1,Read,{},4096,7500\n", n * 1_000, n * 4_096));
    let recording = recording(Format::Msr, lines.collect::<String>().into_bytes());
    assert_eq!(recording.limit(Loop::Closed { depth: None, keeps_pauses: false }), 8);
    assert_eq!(recording.limit(Loop::Closed { depth: Some(3), keeps_pauses: false }), 3);
}

#[test]
fn every_scheduler_replays_it_and_twice_the_same() {
    let bytes = iolog(3_000, 5_000);
    let replay = Replay::of(
        "hdd-sata-250g",
        vec![recording(Format::Iolog, bytes.clone()), recording(Format::Iolog, bytes)],
        Settings::default(),
    );
    let algorithms = REGISTRY.iter().map(|algorithm| Some(*algorithm)).chain([None]);
    for algorithm in algorithms {
        let (one, two) = (replay.run(algorithm), replay.run(algorithm));
        let one = one.expect("it runs");
        assert_eq!(Ok(&one), two.as_ref(), "{algorithm:?}");
        assert_eq!((one.all.ops, one.unfinished, one.failed_over), (6_000, 0, 0), "{algorithm:?}");
        assert_eq!(one.streams.len(), 1, "both traces have one name: {:?}", one.streams.keys());
    }
}

#[test]
fn a_trace_beyond_the_disk_wraps_scales_or_is_refused() {
    let far = b"fio version 3 iolog\n0 /f read 0 4096\n5 /f write 900000000000000 1048576\n";
    for fit in [Fit::Wrap, Fit::Scale] {
        let report = replay("null", far.to_vec(), Settings { fit, ..Settings::default() });
        assert_eq!((report.all.failed, report.all.bytes), (0, 4_096 + 1_048_576), "{fit:?}");
    }
    let settings = Settings { fit: Fit::Refuse, ..Settings::default() };
    let refused = Replay::of("null", vec![recording(Format::Iolog, far.to_vec())], settings);
    let error = refused.run(None).expect_err("too far").to_string();
    assert!(error.contains("--fit wrap"), "{error}");
}

/// A million lines, made as they are read: no copy of the trace is anywhere.
struct Million(u64, Vec<u8>);

impl Read for Million {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.1.is_empty() && self.0 < 1_000_000 {
            let n = self.0;
            self.1 = format!("{},hm,1,Write,{},4096,9\n", n * 100, n % 50_000 * 4_096).into_bytes();
            self.0 += 1;
        }
        let size = buffer.len().min(self.1.len());
        buffer[..size].copy_from_slice(&self.1[..size]);
        self.1.drain(..size);
        Ok(size)
    }
}

#[test]
fn a_million_requests_are_replayed_as_they_are_read() {
    let open: Open = Box::new(|| Ok(Box::new(BufReader::new(Million(0, Vec::new())))));
    let recording = Recording::survey("a", Format::Msr, open, |_| ()).expect("legal");
    let report = Replay::of("null", vec![recording], Settings::default()).run(None);
    let report = report.expect("it runs");
    assert_eq!((report.all.ops, report.all.bytes), (1_000_000, 4_096_000_000));
    assert_eq!(report.elapsed_ms.0, 9_999_990);
}
