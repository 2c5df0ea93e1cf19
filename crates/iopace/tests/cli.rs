//! The command line without a daemon: help, lists, simulator, and the text of mistakes.

mod common;

use common::Place;
use iopace_core::sched::REGISTRY;
use std::io::Write as _;
use std::process::Command;
use std::process::Stdio;

fn help(words: &[&str]) -> String {
    let ran = Place::new().run(words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran.out
}

/// The help with one line in the place of the schedulers, all of which are there: the registry is
/// not reviewed here.
fn help_without_schedulers(words: &[&str]) -> String {
    let text = help(words);
    let begin = text.find(&format!("- {}: ", REGISTRY[0].name)).expect("a list of schedulers");
    let end = begin + text[begin..].find("\n\n").expect("an end of the list");
    let list = &text[begin..end];
    let count = list.lines().filter(|line| line.trim_start().starts_with("- ")).count();
    assert_eq!(count, REGISTRY.len(), "{list}");
    for algorithm in REGISTRY {
        assert!(list.contains(&format!("- {}: ", algorithm.name)), "{list}");
    }
    format!("{}- (the schedulers of the registry){}", &text[..begin], &text[end..])
}

#[test]
fn the_help_is_reviewed() {
    insta::assert_snapshot!("help", help(&["--help"]));
    insta::assert_snapshot!("help_export", help(&["export", "--help"]));
    insta::assert_snapshot!("help_group", help(&["group", "--help"]));
    insta::assert_snapshot!("help_group_set", help(&["group", "set", "--help"]));
    insta::assert_snapshot!("help_mount", help_without_schedulers(&["mount", "--help"]));
    insta::assert_snapshot!("help_nice", help(&["nice", "--help"]));
    insta::assert_snapshot!("help_pace", help(&["pace", "--help"]));
    insta::assert_snapshot!("help_recommend", help(&["recommend", "--help"]));
    insta::assert_snapshot!("help_sched", help(&["sched", "--help"]));
    insta::assert_snapshot!("help_sim", help(&["sim", "--help"]));
    insta::assert_snapshot!("help_attach", help_without_schedulers(&["attach", "--help"]));
    insta::assert_snapshot!("help_detach", help(&["detach", "--help"]));
    insta::assert_snapshot!("help_doctor", help(&["doctor", "--help"]));
    insta::assert_snapshot!("help_setup", help(&["setup", "--help"]));
    insta::assert_snapshot!("help_top", help(&["top", "--help"]));
    insta::assert_snapshot!("help_unmount", help(&["unmount", "--help"]));
    insta::assert_snapshot!("help_verify", help(&["verify", "--help"]));
    insta::assert_snapshot!("help_explain", help(&["explain", "--help"]));
    insta::assert_snapshot!("help_events", help(&["events", "--help"]));
    insta::assert_snapshot!("help_window", help(&["window", "--help"]));
    assert_eq!(help(&["help"]), help(&["--help"]));
    assert_eq!(help(&["help", "mount"]), help(&["mount", "--help"]));
    assert_eq!(help(&["help", "group", "set"]), help(&["group", "set", "--help"]));
}

#[test]
fn a_mistake_is_one_message_with_what_would_be_right() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).expect("made");
    place.write("not-a-socket", "precious");
    let cases: [(&[&str], i32, &str); 24] = [
        (&["serve"], 2, "there is nothing to serve: name a file"),
        (&["serve", "missing.img"], 1, "missing.img: there is no such file"),
        (&["serve", "folder"], 1, "it is a directory: name an image file in it"),
        (&["serve", "--emulate", "hdd-sata-250"], 2, "'hdd-sata-250g'"),
        (&["serve", "disk.img", "--size", "1GiB"], 2, "--emulate"),
        (&["serve", "disk.img", "--listen", "0.0.0.0:0"], 2, "say --tcp-without-tls"),
        (
            &["serve", "disk.img", "--socket", "not-a-socket"],
            1,
            "not-a-socket: exists and is not a socket",
        ),
        (&["serve", "disk.img", "--control", "no/where.ctl"], 1, "its directory does not exist"),
        (&["serve", "disk.img", "--pace", "rat"], 2, "'rate'"),
        (&["serve", "disk.img", "--direct", "--dirty-limit", "8M"], 2, "--direct"),
        (&["serve", "disk.img", "--dirty-limit", "64k"], 2, "it is at least 1 MiB"),
        (&["pace", "status"], 1, "iopace.ctl: start one with 'iopace serve FILE'"),
        (&["window", "configure", "--depth", "2000"], 2, "1024"),
        (&["sched", "status"], 1, "iopace.ctl: start one with 'iopace serve FILE'"),
        (&["group", "list"], 1, "iopace.ctl: start one with 'iopace serve FILE'"),
        (&["group", "set", "/a", "io.wieght", "1"], 2, "'io.weight'"),
        (&["group", "move", "/a"], 2, "--export"),
        (&["mount", "data", "--sched", "deadlin"], 2, "'deadline'"),
        (&["sched", "insert", "-a", "rr", "--set", "wait_ms"], 2, "wait_ms=5"),
        (&["status"], 2, "'iopace sched status'"),
        (&["list"], 2, "'iopace mount' and 'iopace attach' list what runs"),
        (
            &["unmount", "--all", "--wait", "x"],
            2,
            "'x' for '--wait <SECONDS>': a whole number from 1",
        ),
        (&["group", "move", "--pid", "vi", "/a"], 2, "'vi' for '--pid <PID>': a whole number"),
        (&["sim", "run", "exchange-under-laod"], 2, "the story 'exchange-under-load'?"),
    ];
    for (words, status, text) in cases {
        let ran = place.run(words);
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {}", ran.error);
        assert!(ran.error.starts_with("error: ") && ran.out.is_empty(), "{words:?}: {ran:?}");
        assert!(!place.sockets().exists(), "{words:?} left something");
    }
    let kept = std::fs::read_to_string(place.path("not-a-socket")).expect("read");
    assert_eq!(kept, "precious");
}

#[test]
fn without_its_driver_a_ublk_device_is_refused_with_the_ways() {
    let ran = Place::new().run(&["attach", "--ublk", "disk.img", "--list"]);
    assert!(ran.status == Some(2) && ran.error.contains("--list"), "{ran:?}");
    if std::path::Path::new("/dev/ublk-control").exists() {
        return println!("skipped: there is the driver");
    }
    let place = Place::new();
    let ran = place.run(&["attach", "--ublk", "disk.img"]);
    assert_eq!((ran.status, &*ran.out), (Some(1), ""), "{ran:?}");
    let ways: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["'modprobe ublk_drv'", "leave out --ublk: a loop device"],
        false => &["only root may attach"],
    };
    assert!(ways.iter().all(|way| ran.error.contains(way)), "{ran:?}");
    assert!(!place.sockets().exists(), "it left something");
}

#[test]
fn a_mistake_in_the_configuration_is_pointed_at() {
    let place = Place::new();
    place.write("iopace.toml", "[[device]]\nfile = \"disk.img\"\nread_only = true\n");
    let ran = place.run(&["serve", "--config", "iopace.toml"]);
    assert_eq!(ran.status, Some(2));
    assert_eq!(
        ran.error,
        "error: iopace.toml:3:1: there is no `read_only`: did you mean `read-only`?\n\
         3 | read_only = true\n\
         \u{20} | ^^^^^^^^^\n"
    );
}

#[test]
fn schedulers_and_models_are_listed_without_a_daemon() {
    let place = Place::new();
    let list = place.run(&["sched", "list", "--format", "json"]).json();
    let rr = list.as_array().expect("a list").iter().find(|spec| spec["name"] == "rr");
    let params = rr.expect("rr")["params"].as_array().expect("a list");
    assert!(params.iter().any(|param| param["name"] == "wait_ms" && param["unit"] == "ms"));
    let text = place.run(&["sched", "list", "-a", "rr"]).out;
    assert!(text.starts_with("rr: ") && text.contains("wait_ms"), "{text}");
    assert!(!text.contains("fifo: "), "{text}");

    let list = place.run(&["pace", "list", "--format", "json"]).json();
    assert!(list.as_array().expect("a list").iter().any(|spec| spec["default"] == true), "{list}");
    let text = place.run(&["window", "list", "-a", "fixed"]).out;
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("fixed ")), "{text}");

    let models = place.run(&["models", "--format", "json"]).json();
    for model in models.as_array().expect("a list") {
        let parameters = model["parameters"].as_array().expect("a list");
        assert!(!parameters.is_empty());
        assert!(parameters.iter().all(|one| one["source"].as_str().is_some_and(|s| !s.is_empty())));
    }
    let text = place.run(&["models", "hdd-sata-250g"]).out;
    assert!(text.contains("rotation") && text.contains("8.333 ms"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 102), "{text}");
}

#[test]
fn scenarios_are_run_and_judged() {
    let place = Place::new();
    let stories = place.run(&["sim", "list", "--format", "json"]).json();
    assert!(stories.as_array().expect("a list").iter().all(|story| story["why"] != ""));

    let story = |bound: &str| {
        format!(
            "why = \"A reader alone gets the disk.\"\nseed = 1\nduration = \"1s\"\n\
             [disk]\npreset = \"hdd-sata-250g\"\n\
             [[task]]\nname = \"dd\"\nkind = \"dd-read\"\n\
             [[check]]\nfigure = \"mb_s\"\ntask = \"dd\"\nat_least = {bound}\n"
        )
    };
    place.write("good.toml", &story("50"));
    let ran = place.run(&["sim", "run", "good.toml"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("A reader alone gets the disk.\n"), "{}", ran.out);
    assert!(ran.out.contains("yes"), "{}", ran.out);
    let json = place.run(&["sim", "run", "good.toml", "--format", "json"]);
    assert_eq!(json.json()["checks"][0]["holds"], true);
    assert_eq!(json.out, place.run(&["sim", "run", "good.toml", "--format", "json"]).out);

    place.write("bad.toml", &story("5000"));
    let ran = place.run(&["sim", "run", "bad.toml"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.error, "error: bad.toml: 1 of 1 checks do not hold\n");

    // With several seeds: the mean and each of them, of the task and of the whole.
    let seeds = |file: &str, format: &str| {
        place.run(&["sim", "run", file, "--seeds", "3", "--format", format])
    };
    let table = seeds("good.toml", "table");
    assert_eq!(table.status, Some(0), "{table:?}");
    assert!(
        table.out.contains("means of 3 seeds") && table.out.contains("each seed:"),
        "{table:?}"
    );
    assert_eq!(seeds("good.toml", "csv").out.lines().count(), 1 + 2 * (1 + 3));
    let json = seeds("good.toml", "json").json();
    assert_eq!(json[0]["by_seed"].as_array().map(Vec::len), Some(3));
    assert!(json[0]["tasks"][0]["ci95"]["mb_s"].is_number(), "{json}");
    assert_eq!(seeds("bad.toml", "csv").error, "error: bad.toml: 3 of 3 checks do not hold\n");
    let both = place.run(&["sim", "run", "good.toml", "--seeds", "2", "--write-bw-log", "x"]);
    assert_eq!(both.status, Some(2), "{both:?}");

    place.write("wrong.toml", "why = \"x\"\nduraton = \"1s\"\n");
    let ran = place.run(&["sim", "run", "wrong.toml"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.error.starts_with("error: wrong.toml:2:1: "), "{}", ran.error);
}

#[test]
fn tables_have_one_row_per_figure_in_every_format() {
    let place = Place::new();
    let words = ["sim", "tables", "geom", "--duration", "1s", "--format"];
    let of = |format| place.run(&[&words[..], &[format]].concat());
    let rows = of("json").json();
    let rows = rows.as_array().expect("a list").len();
    assert!(rows > 30);
    assert_eq!(of("csv").out.lines().count(), rows + 1);
    assert!(of("table").out.contains("bounds hold"));
}

#[test]
fn completions_and_man_pages_come_from_the_definition() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.status, Some(0));
        for word in ["serve", "hdd-sata-250g", "configure", "connections", "window-policy"] {
            assert!(ran.out.contains(word), "{shell}: {word}");
        }
    }
    let ran = place.run(&["man", "pages/man1"]);
    assert_eq!((ran.status, &*ran.out), (Some(0), ""));
    for page in ["", "-serve", "-sched-insert", "-group-set", "-pace-status", "-window"] {
        let page = format!("iopace{page}.1");
        assert!(place.path("pages/man1").join(&page).exists(), "{page}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let place = Place::new();
    let mut command = place.command(&["sched", "list"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_cannot_be_printed_is_said_and_leaves_nothing() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let mut command = place.command(&["serve", "disk.img"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output().expect("ended");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(error.contains("standard output cannot be written: No space left"), "{error}");
    assert!(!place.sockets().exists(), "left behind");
}

#[test]
fn a_new_user_comes_to_a_report() {
    let place = Place::new();
    let made = place.run(&["sim", "new", "my.toml"]);
    assert_eq!(made.status, Some(0), "{made:?}");
    let before = std::fs::read_to_string(place.path("my.toml")).expect("written");
    let again = place.run(&["sim", "new", "my.toml"]);
    assert_eq!((again.status, again.out.as_str()), (Some(1), ""), "it overwrites nothing");
    assert_eq!(std::fs::read_to_string(place.path("my.toml")).expect("there"), before);
    place.write("my.toml", &before.replace("\"20s\"", "\"5s\""));

    let run = ["sim", "run", "my.toml", "--html", "run.html", "--write-bw-log", "fio"];
    let ran = place.run(&run);
    assert!(ran.out.contains("neighbour"), "{ran:?}");
    let log = std::fs::read_to_string(place.path("fio_bw.1.log")).expect("written");
    assert!(log.lines().count() > 50 && log.lines().all(|l| l.split(", ").count() == 5), "{log}");

    let words = "sim compare my.toml --sched none,rr,fair --out c --parquet c.parquet";
    let ran = place.run(&words.split(' ').collect::<Vec<&str>>());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.error.is_empty(), "no progress where there is no terminal: {}", ran.error);
    for file in ["compare.txt", "compare.csv", "compare.json", "compare.html", "compare.parquet"] {
        assert!(place.path("c").join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let html = std::fs::read_to_string(place.path("c/compare.html")).expect("written");
    assert!(html.contains("keeps service at"), "it says what came out");

    let ran = place.run(&["sim", "compare", "my.toml", "--sched", "rr"]);
    assert!(ran.error.contains("nothing to compare"), "{ran:?}");
}

#[test]
fn a_sweep_goes_on_where_it_was_ended() {
    let place = Place::new();
    place.run(&["sim", "new", "my.toml"]);
    let text = std::fs::read_to_string(place.path("my.toml")).expect("written");
    place.write("my.toml", &text.replace("\"20s\"", "\"5s\""));
    let words = "sim sweep my.toml --set group./service.io.weight=50..200*2 --out s --format csv";
    let words: Vec<&str> = words.split(' ').collect();
    let whole = place.run(&words);
    assert_eq!((whole.status, whole.error.as_str()), (Some(0), ""));
    let html = std::fs::read(place.path("s/sweep.html")).expect("written");
    let points = std::fs::read_to_string(place.path("s/points.jsonl")).expect("written");
    let first = points.lines().next().expect("three points").len();
    place.write("s/points.jsonl", &points[..first + 100]);
    let rest = place.run(&words);
    assert!(rest.error.starts_with("1 of 3 points are there already"), "{rest:?}");
    assert_eq!(rest.out, whole.out);
    assert_eq!(std::fs::read(place.path("s/sweep.html")).expect("written"), html);

    // Another build: the same program with a byte more at its end.
    let other = place.path("other");
    std::fs::copy(env!("CARGO_BIN_EXE_iopace"), &other).expect("copied");
    let mut file = std::fs::OpenOptions::new().append(true).open(&other).expect("opened");
    file.write_all(b"!").expect("written");
    drop(file);
    let ran = Command::new(&other).current_dir(place.path(".")).args(&words).output();
    let ran = ran.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "no point of the first build is used");
    assert_eq!(ran.stdout, whole.out.as_bytes());

    // Of a disk that takes one request at a time the depth changes nothing, and that is said.
    let words = "sim sweep my.toml --set disk.depth=1..4*2 --seeds 2 --format csv";
    let ran = place.run(&words.split(' ').collect::<Vec<&str>>());
    assert!(ran.error.starts_with("warning: disk.depth changed nothing: its 3 values"), "{ran:?}");
    let header = ran.out.lines().next().expect("a header");
    let column = |name: &str| header.split(',').position(|cell| cell == name).expect("a column");
    let (seed, interval) = (column("seed"), column("mb_s_ci95"));
    let rows: Vec<Vec<&str>> = ran.out.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 3 * 3 * 3, "two tasks and the whole; the mean and two seeds");
    assert!(rows.iter().all(|row| row[seed].is_empty() != row[interval].is_empty()), "{ran:?}");
    let words = "sim sweep my.toml --set disk.depth=1,2 --set seed=1,2 --seeds 2";
    let both = place.run(&words.split(' ').collect::<Vec<&str>>());
    assert!(both.status == Some(2) && both.error.contains("not both"), "{both:?}");
    let words = "sim sweep my.toml --set task.service.thnk=1ms..4ms*2";
    let slip = place.run(&words.split(' ').collect::<Vec<&str>>());
    assert!(slip.status == Some(2) && slip.error.contains("did you mean `think`?"), "{slip:?}");

    let wrong = place.run(&["sim", "sweep", "my.toml", "--set", "disk.depth=0..2"]);
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.error.contains("my.toml with disk.depth=0: the depth is 1 to 1024"), "{wrong:?}");
    assert!(place.run(&["sim", "sweep", "my.toml"]).error.contains("nothing to sweep over"));
    assert!(place.run(&["sim", "sweep", "geom"]).error.contains("--out DIR"));
}
