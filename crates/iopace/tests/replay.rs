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
