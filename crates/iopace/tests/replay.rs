//! `iopace sim replay`: what it prints, says and refuses; and what the real fio writes.

mod common;

use common::Place;
use std::process::Command;

const IOLOG: &str = "fio version 3 iolog\n1 /f add\n2 /f open\n3 /f read 0 4096\n\
                     1003 /g write 8192 65536\n2003 /f sync 0 0\n";

const JOB: &str = "[global]\ndirect=1\nsize=4m\nbs=64k\nlatency_target=5ms\n[a]\nrw=randread\n\
                   [b]\nstonewall\nrw=write\n";

#[test]
fn a_trace_is_replayed_under_each_scheduler() {
    let place = Place::new();
    place.write("a.log", IOLOG);
    let words = ["sim", "replay", "a.log", "--disk", "ssd-sata", "--format"];
    let json = place.run(&[&words[..], &["json"]].concat());
    assert!(json.error.contains("a.log: iolog, 3 requests in 2.000 ms, 2 streams"), "{json:?}");
    let reports = json.json();
    let reports = reports.as_array().expect("a list");
    assert!(reports.len() > 5 && reports.iter().all(|one| one["all"]["ops"] == 3), "{reports:?}");
    assert_eq!(reports[0]["streams"]["/g"]["bytes"], 65_536);
    let csv = place.run(&[&words[..], &["csv", "--sched", "rr", "--sched", "none"]].concat());
    let lines: Vec<&str> = csv.out.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3, "{csv:?}");
    assert!(lines[1].starts_with("rr,(all),3,0,69632,") && lines[4].starts_with("none,(all),3,"));
    let again = place.run(&[&words[..], &["csv", "--sched", "rr", "--sched", "none"]].concat());
    assert_eq!(csv.out, again.out);
    // By default as a daemon without any flag: its scheduler is there, and its window.
    assert!(reports.iter().all(|one| one["window"] == "latency"), "{reports:?}");
    let table = place.run(&words[..words.len() - 1]);
    assert!(table.out.contains("window latency\nthe row fair is what 'iopace serve'"), "{table:?}");
    let table = place.run(&[&words[..words.len() - 1], &["--window", "fixed"]].concat());
    assert!(table.out.contains("no row is what 'iopace serve' and 'mount' do"), "{table:?}");
    let table = place.run(&["sim", "replay", "a.log", "--sched", "fair", "--closed"]);
    assert!(table.error.contains("closed loop, 1 outstanding"), "{table:?}");
    assert!(table.out.contains("fair"), "{table:?}");
}

#[test]
fn a_job_file_is_run_and_printed() {
    let place = Place::new();
    place.write("a.fio", JOB);
    let ran = place.run(&["sim", "replay", "a.fio", "--sched", "none", "--format", "json"]);
    assert_eq!(ran.error, "warning: not understood: line 5: latency_target=5ms\n");
    assert_eq!(ran.json()[0]["streams"]["b"]["bytes"], 4 << 20);
    let strict = place.run(&["sim", "replay", "a.fio", "--strict"]);
    assert_eq!((strict.status, strict.out.as_str()), (Some(2), ""), "{strict:?}");
    let printed = place.run(&["sim", "replay", "a.fio", "--print-scenario"]);
    place.write("a.toml", &printed.out);
    let ran = place.run(&["sim", "run", "a.toml", "--format", "json"]).json();
    assert_eq!(ran["tasks"]["a"]["bytes"], 4 << 20, "what is printed can be run");
}

#[test]
fn a_mistake_is_one_message() {
    let place = Place::new();
    place.write("cut.log", "fio version 3 iolog\n3 /f read 0\n");
    place.write("far.log", "fio version 3 iolog\n3 /f read 999999999999 512\n");
    place.write("other", "hello\n");
    place.write("a.fio", JOB);
    std::fs::create_dir(place.path("folder")).expect("made");
    let cases: [(&[&str], &str); 8] = [
        (&["missing"], "missing: cannot be opened"),
        (&["folder"], "folder: not a file"),
        (&["other"], "name it with --input-format"),
        (&["cut.log"], "cut.log:2: the length is missing"),
        (&["far.log", "--fit", "refuse"], "--fit wrap"),
        (&["a.fio", "far.log"], "a fio job file is run alone"),
        (&["a.fio", "--speed", "2"], "--closed and --speed are for traces"),
        (&["far.log", "--depth", "2"], "--closed"),
    ];
    for (words, text) in cases {
        let ran = place.run(&[&["sim", "replay"], words].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {}", ran.error);
    }
}

#[test]
fn a_replay_is_written_in_every_form() {
    let place = Place::new();
    place.write("a.log", IOLOG);
    let words = "sim replay a.log --sched none --sched fair --html r.html --parquet r.parquet \
                 --svg r.svg --png r.png --out d/e --format csv";
    let ran = place.run(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let bytes = |name: &str| std::fs::read(place.path(name)).expect(name);
    for ending in ["html", "parquet", "svg", "png"] {
        let named = bytes(&format!("r.{ending}"));
        assert!(named == bytes(&format!("d/e/replay.{ending}")), "{ending}");
    }
    assert_eq!(bytes("d/e/replay.csv"), ran.out.as_bytes());
    let json: serde_json::Value = serde_json::from_slice(&bytes("d/e/replay.json")).expect("JSON");
    assert_eq!(json[1]["scheduler"], "fair");
    let page = String::from_utf8(bytes("r.html")).expect("text");
    assert!(page.contains("Replay of a.log") && page.contains("By their time stamps, on disk"));
    let kept = std::fs::read_dir(place.path(".")).expect("read").filter_map(Result::ok);
    let strange = kept.filter(|one| one.file_name().to_string_lossy().starts_with(".iopace"));
    assert_eq!(strange.count(), 0, "nothing is left beside the files");
    place.write("job.fio", JOB);
    let ran = place.run(&["sim", "replay", "job.fio", "--sched", "rr", "--html", "job.html"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(
        String::from_utf8(bytes("job.html")).expect("text").contains("a fio job file, 2 tasks")
    );
}

#[test]
fn what_is_read_is_not_written_over() {
    let place = Place::new();
    place.write("a.log", IOLOG);
    place.write("replay.csv", IOLOG);
    let cases: [(&[&str], &str); 3] = [
        (&["a.log", "--html", "a.log"], "a.log is what is read"),
        (&["a.log", "--html", "nowhere/a.html"], "there is no directory nowhere"),
        (&["replay.csv", "--out", "."], "replay.csv is what is read"),
    ];
    for (words, text) in cases {
        let ran = place.run(&[&["sim", "replay"], words].concat());
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {}", ran.error);
    }
    assert_eq!(std::fs::read_to_string(place.path("a.log")).expect("there"), IOLOG);
    // A link leads to the file that is written; what is no file is written as it is.
    std::os::unix::fs::symlink("real.html", place.path("link.html")).expect("made");
    place.write("real.html", "old");
    for target in ["link.html", "/dev/null"] {
        let ran = place.run(&["sim", "replay", "a.log", "--sched", "rr", "--html", target]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    assert!(place.path("link.html").is_symlink());
    let page = std::fs::read_to_string(place.path("real.html")).expect("there");
    assert!(page.starts_with("<!doctype html>"));
}

#[test]
fn what_fio_writes_is_replayed() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skip what_fio_writes_is_replayed: fio is not installed (make setup)");
        return;
    }
    let place = Place::new();
    let fio = Command::new("fio")
        .current_dir(place.path("."))
        .args(["--name=a", "--filename=data", "--size=1m", "--rw=randrw", "--bs=4k", "--fsync=16"])
        .args(["--io_size=8m", "--randseed=1", "--write_iolog=a.log", "--output=fio.out"])
        .output();
    let fio = fio.expect("fio runs");
    assert!(fio.status.success(), "{fio:?}");
    let log = std::fs::read_to_string(place.path("a.log")).expect("a log");
    let requests = log.lines().filter(|line| {
        [" read ", " write ", " sync ", " datasync "].iter().any(|action| line.contains(action))
    });
    let requests = requests.count();
    assert!(requests >= 2_048, "{requests}");
    let words = ["sim", "replay", "a.log", "--disk", "ssd-nvme", "--format", "json"];
    let reports = place.run(&words).json();
    for report in reports.as_array().expect("a list") {
        assert_eq!((&report["all"]["ops"], &report["unfinished"]), (&requests.into(), &0.into()));
        assert_eq!(report["all"]["bytes"], 8 << 20);
    }
}
