//! Standard streams that cannot be written: a full file system, or a reader that went away.

mod common;

use common::{Place, Ran};
use std::fs::File;
use std::process::{Command, Stdio};

/// Commands that end by themselves, with their exit status where all can be written. `verify` has
/// a limit of writes before it, which it tests only where it may write.
const COMMANDS: [(&[&str], i32); 25] = [
    (&["--help"], 0),
    (&["--version"], 0),
    (&["sched", "insert", "--help"], 0),
    (&["sched", "insert", "-a", "deadlin"], 2),
    (&["sched", "list"], 0),
    (&["models", "--format", "json"], 0),
    (&["completions", "bash"], 0),
    (&["sim", "list"], 0),
    (&["sim", "run", "short.toml"], 0),
    (&["sim", "compare", "short.toml", "--sched", "none,rr"], 0),
    (&["sim", "sweep", "short.toml", "--set", "seed=1..2", "--out", "points"], 0),
    (&["sim", "replay", "job.fio", "--sched", "none,rr"], 0),
    (&["sim", "tables", "geom", "--duration", "1s"], 0),
    (&["mount"], 0),
    (&["attach"], 0),
    (&["sched", "status"], 0),
    (&["pace", "status"], 0),
    (&["window", "status"], 0),
    (&["group", "tree"], 0),
    (&["explain"], 0),
    (&["explain", "dusk"], 1),
    (&["events", "--format", "json"], 0),
    (&["recommend", "report"], 0),
    (&["top", "--batch", "--count", "1"], 0),
    (&["verify", "/a"], 2),
];

const SCENARIO: &str = "why = \"A reader alone.\"\nseed = 1\nduration = \"1s\"\n\
    [disk]\npreset = \"hdd-sata-250g\"\n[[task]]\nname = \"dd\"\nkind = \"dd-read\"\n";

const JOB: &str = "[a]\nrw=randread\ndirect=1\nsize=1m\nbs=64k\nlatency_target=5ms\n";

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("opened").into()
}

fn unread() -> Stdio {
    std::io::pipe().expect("a pipe").1.into()
}

fn run(mut command: Command) -> Ran {
    Ran::from(command.stdin(Stdio::null()).output().expect("started"))
}

#[test]
fn a_stream_that_cannot_be_written_is_no_panic() {
    let place = Place::new();
    place.write("short.toml", SCENARIO);
    place.write("job.fio", JOB);
    let serving = place.serve(&["disk.img"]);
    assert_eq!(place.run(&["group", "create", "/a"]).status, Some(0));
    assert_eq!(place.run(&["group", "set", "/a", "io.max", "disk wiops=9"]).status, Some(0));
    let with = |words: &[&str], set: &dyn Fn(&mut Command)| {
        let mut command = place.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        set(&mut command);
        run(command)
    };
    for (words, status) in COMMANDS {
        let usual = place.run(words);
        assert_eq!(usual.status, Some(status), "{words:?}: {usual:?}");
        // Nobody reads what is printed: as if it had been printed.
        let ran = with(words, &|command| _ = command.stdout(unread()));
        assert_eq!(ran.status, Some(status), "{words:?}, unread: {ran:?}");
        assert!(!ran.error.contains("standard output"), "{words:?}, unread: {ran:?}");
        // It cannot be printed: it failed, and says why.
        let ran = with(words, &|command| _ = command.stdout(full()));
        let failed = if usual.out.is_empty() || status != 0 { status } else { 1 };
        assert_eq!(ran.status, Some(failed), "{words:?}, full: {ran:?}");
        let is_said = ran.error.contains("standard output cannot be written: No space left");
        assert_eq!(is_said, !usual.out.is_empty(), "{words:?}, full: {ran:?}");
        // What is said beside is lost, and changes nothing.
        for stderr in [full, unread] {
            let ran = with(words, &|command| _ = command.stderr(stderr()));
            assert_eq!(ran.status, Some(status), "{words:?}, standard error: {ran:?}");
            assert_eq!(ran.out.is_empty(), usual.out.is_empty(), "{words:?}: {ran:?}");
        }
        // Neither can be written.
        let ran = with(words, &|command| _ = command.stdout(full()).stderr(full()));
        assert_eq!(ran.status, Some(failed), "{words:?}, both full: {ran:?}");
    }
    drop(serving);
}

#[test]
fn a_demo_that_cannot_say_where_it_is_ends() {
    let place = Place::new();
    for format in ["table", "json"] {
        let mut command = place.command(&["demo", "--dashboard", "--format", format]);
        command.env("TMPDIR", place.path("")).stdout(full());
        let ran = run(command);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.error.contains("standard output cannot be written"), "{ran:?}");
        let left = std::fs::read_dir(place.path("")).expect("read").count();
        assert_eq!(left, 1, "left behind");
    }
}
