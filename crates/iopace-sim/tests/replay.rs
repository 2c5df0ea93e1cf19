//! Replays: open and closed loops, speed, backlog, every scheduler, and the same bytes again.

use iopace_core::sched::REGISTRY;
use iopace_sim::inputs::place::{Fit, Speed};
use iopace_sim::inputs::{Format, fio};
use iopace_sim::record;
use iopace_sim::replay::{Loop, Open, TraceRecording, TraceReplay, TraceSettings};
use iopace_sim::report::ReplayReport;
use iopace_sim::scenario::Scenario;
use iopace_sim::study::VariantOutcome;
use iopace_sim::study::html::replay_page;
use iopace_sim::study::replay::{csv, outcome};
use std::io::{BufReader, Cursor, Read};
use std::sync::Mutex;

fn recording(format: Format, bytes: Vec<u8>) -> TraceRecording {
    let open: Open = Box::new(move || Ok(Box::new(Cursor::new(bytes.clone()))));
    TraceRecording::survey("a trace", format, open, |_| ()).expect("a legal trace")
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

fn replay(disk: &str, bytes: Vec<u8>, settings: TraceSettings) -> ReplayReport {
    let replay = TraceReplay::of(disk, vec![recording(Format::Iolog, bytes)], settings);
    replay.run(None, &|_| ()).expect("it runs")
}

#[test]
fn an_open_loop_keeps_to_the_time_stamps() {
    let report = replay("null", iolog(1_000, 1_000), TraceSettings::default());
    assert_eq!((report.requests, report.late, report.unfinished), (1_000, 0, 0));
    assert_eq!(report.elapsed_ms.0, 999_000);
    let fast = TraceSettings { speed: Speed::parse("4").expect("4"), ..TraceSettings::default() };
    assert_eq!(replay("null", iolog(1_000, 1_000), fast).elapsed_ms.0, 249_750);
}

#[test]
fn an_open_loop_that_is_too_fast_shows_in_the_latency() {
    // A disk of some hundred requests a second gets two thousand of them.
    let report = replay("hdd-sata-250g", iolog(20_000, 500), TraceSettings::default());
    assert_eq!((report.all.ops, report.unfinished), (20_000, 0));
    assert!(report.late > 10_000, "more than 4096 were due: {}", report.late);
    assert!(report.late_max_ms.0 > 1_000_000, "{}", report.late_max_ms);
    assert!(report.all.latency.max_ms > report.late_max_ms, "latency counts from when it was due");
    assert!(report.elapsed_ms.0 > 30_000_000);
}

#[test]
fn a_closed_loop_goes_as_fast_as_the_disk() {
    let closed = |depth, keeps_pauses| TraceSettings {
        turn: Loop::Closed { depth, keeps_pauses },
        ..TraceSettings::default()
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
    let replay = TraceReplay::of(
        "hdd-sata-250g",
        vec![recording(Format::Iolog, bytes.clone()), recording(Format::Iolog, bytes)],
        TraceSettings::default(),
    );
    let algorithms = REGISTRY.iter().map(|algorithm| Some(*algorithm)).chain([None]);
    for algorithm in algorithms {
        let (one, two) = (replay.run(algorithm, &|_| ()), replay.run(algorithm, &|_| ()));
        let one = one.expect("it runs");
        assert_eq!(Ok(&one), two.as_ref(), "{algorithm:?}");
        assert_eq!((one.all.ops, one.unfinished, one.failed_over), (6_000, 0, 0), "{algorithm:?}");
        assert_eq!(one.streams.len(), 2, "both traces have one name: {:?}", one.streams.keys());
    }
}

#[test]
fn a_trace_beyond_the_disk_wraps_scales_or_is_refused() {
    let far = b"fio version 3 iolog\n0 /f read 0 4096\n5 /f write 900000000000000 1048576\n";
    for fit in [Fit::Wrap, Fit::Scale] {
        let report =
            replay("null", far.to_vec(), TraceSettings { fit, ..TraceSettings::default() });
        assert_eq!((report.all.failed, report.all.bytes), (0, 4_096 + 1_048_576), "{fit:?}");
    }
    let settings = TraceSettings { fit: Fit::Refuse, ..TraceSettings::default() };
    let refused = TraceReplay::of("null", vec![recording(Format::Iolog, far.to_vec())], settings);
    let error = refused.run(None, &|_| ()).expect_err("too far").to_string();
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
    let recording = TraceRecording::survey("a", Format::Msr, open, |_| ()).expect("legal");
    let report =
        TraceReplay::of("null", vec![recording], TraceSettings::default()).run(None, &|_| ());
    let report = report.expect("it runs");
    assert_eq!((report.all.ops, report.all.bytes), (1_000_000, 4_096_000_000));
    assert_eq!(report.elapsed_ms.0, 9_999_990);
}

/// Two streams, one of which is twice as busy as the other.
fn two_streams(count: u64) -> Vec<u8> {
    let mut text = String::from("fio version 3 iolog\n0 /a add\n0 /b add\n0 /a open\n0 /b open\n");
    for number in 0..count {
        let file = if number % 3 == 0 { "a" } else { "b" };
        text.push_str(&format!("{} /{file} read {} 4096\n", number * 1_000, number * 8_192));
    }
    text.into_bytes()
}

fn recorded(
    disk: &str,
    bytes: Vec<u8>,
    settings: TraceSettings,
) -> (ReplayReport, record::Recording) {
    let replay = TraceReplay::of(disk, vec![recording(Format::Iolog, bytes)], settings);
    let (report, recording) = replay.run_recorded(None, &|_| ()).expect("it runs");
    assert_eq!(Ok(&report), replay.run(None, &|_| ()).as_ref(), "recording changes nothing");
    (report, recording)
}

#[test]
fn the_steps_of_a_recording_add_up_to_the_report() {
    let closed = TraceSettings {
        turn: Loop::Closed { depth: Some(4), keeps_pauses: false },
        ..TraceSettings::default()
    };
    for settings in [TraceSettings::default(), closed] {
        let (report, recording) = recorded("ssd-sata", two_streams(3_001), settings);
        let names: Vec<&str> = recording.tasks.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["/b", "/a"], "the one with the most requests is the first");
        for task in &recording.tasks {
            let of = &report.streams[&task.name];
            assert_eq!((task.bytes().sum::<u64>(), task.ops()), (of.bytes, of.ops), "{settings:?}");
            assert_eq!(task.latency.count(), of.ops);
            assert_eq!(task.reads.len(), recording.looks.len());
        }
        let steps = recording.looks.len() as u64;
        assert!((250..=600).contains(&steps), "{settings:?}: {steps} steps");
        let length = steps * recording.step.0 / 1_000;
        let elapsed = report.elapsed_ms.0 as u64;
        assert!(length.abs_diff(elapsed) <= recording.step.0 / 1_000, "{length} beside {elapsed}");
    }
}

#[test]
fn a_recording_does_not_grow_with_a_replay_that_overruns() {
    // Recorded within two seconds; the disk takes minutes.
    let (report, recording) =
        recorded("hdd-sata-250g", iolog(4_000, 500), TraceSettings::default());
    assert!(report.elapsed_ms.0 > 10_000_000, "{}", report.elapsed_ms);
    assert!((300..=600).contains(&recording.looks.len()), "{}", recording.looks.len());
    assert_eq!(recording.tasks[0].ops(), 4_000);
    let ats: Vec<u64> = recording.looks.iter().map(|look| look.at.0).collect();
    assert!(ats.iter().zip(0..).all(|(at, n)| *at == n * recording.step.0), "evenly spread");
}

#[test]
fn progress_counts_the_requests_of_all_traces() {
    let bytes = iolog(10_000, 100);
    let replay = TraceReplay::of(
        "null",
        vec![recording(Format::Iolog, bytes.clone()), recording(Format::Iolog, bytes)],
        TraceSettings::default(),
    );
    let seen = Mutex::new(Vec::new());
    replay.run(None, &|read| seen.lock().expect("nobody panics").push(read)).expect("it runs");
    let seen = seen.into_inner().expect("nobody panicked");
    assert_eq!(replay.requests_count(), 20_000);
    assert_eq!(seen, [4_096, 8_192, 12_288, 16_384]);
}

#[test]
fn a_report_of_a_replay_has_every_scheduler_and_the_same_bytes_again() {
    let outcomes = || -> Vec<VariantOutcome> {
        let trace = recording(Format::Iolog, two_streams(2_000));
        let replay = TraceReplay::of("hdd-sata-250g", vec![trace], TraceSettings::default());
        let all = [None, iopace_core::sched::find("fair")];
        let run =
            |algorithm: &Option<_>| replay.run_recorded(*algorithm, &|_| ()).expect("it runs");
        all.iter().map(run).map(|(report, recording)| outcome(&report, &recording)).collect()
    };
    let all = outcomes();
    let text = replay_page("Replay of <a>", "a trace", &all);
    assert!(text.contains("Replay of &lt;a&gt;") && text.contains("\"who\":\"stream\""));
    for row in
        ["<td>none</td><td>(all)</td>", "<td>fair</td><td>/b</td>", "<td>fair</td><td>/a</td>"]
    {
        assert!(text.contains(row), "{row}");
    }
    assert!(text.contains("All requests: 99 %"), "a finding about all");
    assert_eq!(text, replay_page("Replay of <a>", "a trace", &outcomes()));
    let together = &all[0].summary.whole.replay.as_ref().expect("a replay").all;
    assert_eq!(together.ops, all[0].summary.tasks.iter().map(|row| row.ops).sum::<u64>());
}

#[test]
fn many_streams_are_drawn_by_family_and_the_table_names_the_largest() {
    let mut text = String::new();
    for number in 0..4_000u64 {
        let host = number % 200;
        text.push_str(&format!("{},h{host},1,Read,{},4096,9\n", number * 1_000, number * 4_096));
    }
    let trace = recording(Format::Msr, text.into_bytes());
    assert_eq!(trace.survey.streams.len(), 200);
    let replay = TraceReplay::of("null", vec![trace], TraceSettings::default());
    let (report, made) = replay.run_recorded(None, &|_| ()).expect("it runs");
    let outcome = outcome(&report, &made);
    let curves = outcome.view["tasks"].as_array().expect("a list").len();
    assert!(curves <= 12, "{curves} curves");
    let page = replay_page("many", "many", &[outcome]);
    assert!(page.contains("188 smaller streams are not shown"), "12 of 200 are");
    let rows = csv(&[report]).lines().count();
    assert_eq!(rows, 1 + 1 + 200, "CSV has all");
}

#[test]
fn tasks_of_a_job_file_stay_in_its_order() {
    let text =
        "[a]\nrw=randread\ndirect=1\nsize=8m\nnumber_ios=10\n[b]\nrw=read\ndirect=1\nsize=8m\n";
    let job = fio::Job::parse("a job", text, "ssd-sata").expect("sound");
    let scenario = Scenario::parse("a job", &job.toml).expect("sound");
    let replay =
        TraceReplay { scenario, recordings: Vec::new(), settings: TraceSettings::default() };
    let (report, recording) = replay.run_recorded(None, &|_| ()).expect("it runs");
    let names: Vec<&str> = recording.tasks.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "one colour under every scheduler");
    assert!(report.streams["a"].ops < report.streams["b"].ops);
    assert!(recording.looks.len() > 2, "steps of its length: {:?}", recording.step);
}
