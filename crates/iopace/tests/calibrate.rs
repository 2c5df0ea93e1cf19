//! `iopace calibrate`: what it prints, writes, refuses and leaves alone.

mod common;

use common::Place;
use std::fs;

#[test]
fn a_real_file_gives_a_model_that_is_used() {
    let place = Place::new();
    fs::write(place.path("disk.img"), vec![7; 16 << 20]).expect("written");
    let words = ["calibrate", "disk.img", "--time", "2s", "--out", "m.toml", "--format", "json"];
    let json = place.run(&words).json();
    let figures = json["figures"].as_array().expect("a list");
    assert!(figures.len() == 29, "{json}");
    assert!(figures.iter().all(|f| f["real"].as_u64() > Some(0) && f["model"].is_u64()), "{json}");
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
