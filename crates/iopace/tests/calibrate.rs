//! `iopace calibrate`: what it prints, writes, refuses and leaves alone.

mod common;
mod terminal;

use common::Place;
use rustix::process::Signal;
use std::fs;
use terminal::Terminal;

#[test]
fn a_real_file_gives_a_model_that_is_used() {
    let place = Place::new();
    fs::write(place.path("disk.img"), vec![7; 16 << 20]).expect("written");
    let words = ["calibrate", "disk.img", "--time", "2s", "--out", "m.toml", "--format", "json"];
    let json = place.run(&words).json();
    let figures = json["figures"].as_array().expect("a list");
    assert!(figures.len() == 29, "{json}");
    assert!(figures.iter().all(|f| f["real"].as_u64() > Some(0) && f["model"].is_u64()), "{json}");
    let fitness = json["fitness"].as_str().expect("a sentence");
    let is_fit = json["fit_for_prediction"].as_bool().expect("yes or no");
    assert_eq!(fitness.starts_with("fit for prediction"), is_fit, "{fitness}");
    assert!(fitness.starts_with("not fit for prediction") || is_fit, "{fitness}");
    assert_eq!(json["stopped"], false);
    assert!(json["parameters"].as_array().is_some_and(|all| all.len() > 10), "{json}");
    let model = fs::read_to_string(place.path("m.toml")).expect("written");
    assert!(model.contains("[figures]") && model.contains("error_permille"), "{model}");
    assert!(!model.contains("disk.img"), "it tells nothing of the machine: {model}");
    let content = fs::read(place.path("disk.img")).expect("read");
    assert!(content.iter().all(|&byte| byte == 7), "reading only");
    let job = "[a]\nrw=randread\nbs=4k\nsize=4m\ndirect=1\n";
    place.write("a.fio", job);
    let words =
        ["sim", "replay", "a.fio", "--disk", "m.toml", "--sched", "none", "--format", "json"];
    assert_eq!(place.run(&words).json()[0]["streams"]["a"]["bytes"], 4 << 20);
}

#[test]
fn what_would_be_destroyed_is_named_and_a_scratch_file_leaves_nothing() {
    let place = Place::new();
    fs::write(place.path("full.img"), vec![7; 16 << 20]).expect("written");
    fs::write(place.path("small.img"), vec![7; 4096]).expect("written");
    fs::create_dir(place.path("folder")).expect("made");
    let cases: [(&[&str], &str); 5] = [
        (&["full.img", "--write"], "--write would destroy its 16 MiB: say --overwrite too"),
        (&["folder"], "is a directory: name a file of it, or say --write"),
        (&["small.img"], "too small to be measured"),
        (&["missing"], "missing: No such file"),
        (&["full.img", "--time", "5ms"], "it is at least 1.000 s"),
    ];
    for (words, right) in cases {
        let ran = place.run(&[&["calibrate"], words].concat());
        assert!(ran.status == Some(2) && ran.error.contains(right), "{right}: {ran:?}");
    }
    let content = fs::read(place.path("full.img")).expect("read");
    assert!(content.iter().all(|&byte| byte == 7), "nothing was written");
    let words = ["calibrate", "folder", "--write", "--size", "16MiB", "--time", "1s"];
    let ran = place.run(&words);
    assert!(ran.status == Some(0) && ran.out.contains("flush-after-16"), "{ran:?}");
    assert_eq!(fs::read_dir(place.path("folder")).expect("there").count(), 0);
}

#[test]
fn a_measurement_that_is_stopped_keeps_what_it_has() {
    let place = Place::new();
    fs::write(place.path("disk.img"), vec![7; 16 << 20]).expect("written");
    // The first four steps take 10/63 of the time, the rest is left to be stopped in.
    let words = ["calibrate", "disk.img", "--time", "20s", "--out", "m.toml"];
    let mut terminal = Terminal::start(place.command(&words), (200, 80));
    terminal.wait_for("5 of 29");
    terminal.signal(Signal::INT);
    terminal.wait_for("error: stopped: ");
    assert_eq!(terminal.end().code(), Some(130));
    let picture = terminal.picture();
    assert!(picture.contains("of 29 steps were measured: the model is of these"), "{picture}");
    assert!(picture.contains("not measured: "), "{picture}");
    assert!(picture.contains("fit for prediction"), "{picture}");
    let model = fs::read_to_string(place.path("m.toml")).expect("written");
    assert!(model.contains("read-random-4k-x1") && model.contains("; stopped: "), "{model}");
    place.write("a.fio", "[a]\nrw=randread\nbs=4k\nsize=4m\ndirect=1\n");
    let words = ["sim", "replay", "a.fio", "--disk", "m.toml", "--sched", "none"];
    assert_eq!(place.run(&words).status, Some(0), "the model is one");
}
