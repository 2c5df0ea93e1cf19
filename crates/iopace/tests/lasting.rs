//! `iopace nice --install` and `--remove`: what they write is whole, and goes as a whole.

mod common;
mod mounted;

use common::{Place, Ran, until};
use mounted::Bench;
use rustix::process::{Signal, geteuid};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

const UNIT: &str = "[Service]\nType=oneshot\nExecStart=-/usr/bin/restic backup /srv $MORE\n";

/// A system that does not run, with a service.
struct System {
    place: Place,
    /// The folders of the distribution, and of whom this runs as.
    vendor: PathBuf,
    own: PathBuf,
}

impl System {
    fn new() -> System {
        let place = Place::new();
        let (vendor, own) = match geteuid().is_root() {
            true => ("usr/lib/systemd/system", "etc/systemd/system"),
            false => ("usr/lib/systemd/user", "config/systemd/user"),
        };
        let (vendor, own) = (place.path("root").join(vendor), place.path("root").join(own));
        for folder in [&vendor, &own] {
            fs::create_dir_all(folder).expect("made");
        }
        fs::write(vendor.join("restic.service"), UNIT).expect("written");
        System { place, vendor, own }
    }

    fn nice(&self, words: &[&str]) -> Ran {
        let root = self.place.path("root").display().to_string();
        let words = [&["nice", "--root", &root], words].concat();
        let mut command = self.place.command(&words);
        command.env("XDG_CONFIG_HOME", "/config").stdin(Stdio::null());
        Ran::from(command.output().expect("started"))
    }

    fn drop_in(&self) -> PathBuf {
        self.own.join("restic.service.d/zz-iopace-nice.conf")
    }

    /// The lines of the drop-in that systemd reads.
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.drop_in()).expect("read");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }
}

#[test]
fn a_service_is_gentle_until_that_is_removed() {
    let system = System::new();
    let ran = system.nice(&["--install", "restic.service"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let path = system.drop_in().display().to_string();
    let text = fs::read_to_string(system.drop_in()).expect("read");
    assert!(ran.out.starts_with(&format!("writes {path}:\n{text}")), "{ran:?}");
    assert_eq!(system.lines(), ["[Service]", "IOSchedulingClass=idle", "IOWeight=1"]);
    let mode = fs::metadata(system.drop_in()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let again = system.nice(&["--install", "restic.service"]);
    assert!(again.status == Some(0) && again.out.contains("says so already"), "{again:?}");
    // With goals iopace starts its program, as it stands in the unit and not in our drop-in.
    for _ in 0..2 {
        let words = ["--install", "restic.service", "--by", "06:00", "--size", "1k"];
        assert_eq!(system.nice(&words).status, Some(0));
        let command = "ExecStart=-/usr/bin/iopace nice --quiet --by 06:00 --size 1024 -- \
                       /usr/bin/restic backup /srv $MORE";
        assert_eq!(system.lines(), ["[Service]", "ExecStart=", command]);
    }
    let ran = system.nice(&["--remove", "restic.service"]);
    assert!(ran.status == Some(0) && ran.out.starts_with(&format!("removes {path}\n")), "{ran:?}");
    assert_eq!(fs::read_dir(&system.own).expect("listed").count(), 0, "as before");
    assert_eq!(system.nice(&["--remove", "restic.service"]).status, Some(125));
}

#[test]
fn files_of_others_stay_and_count() {
    let system = System::new();
    let folder = system.own.join("restic.service.d");
    fs::create_dir(&folder).expect("made");
    let other = "[Service]\nExecStart=\nExecStart=/usr/bin/restic check\n";
    fs::write(folder.join("a.conf"), other).expect("written");
    assert_eq!(system.nice(&["--install", "restic.service", "--by", "4h"]).status, Some(0));
    assert!(system.lines().iter().any(|line| line.ends_with("-- /usr/bin/restic check")));
    assert_eq!(system.nice(&["--remove", "restic.service"]).status, Some(0));
    assert_eq!(fs::read_dir(&folder).expect("listed").count(), 1, "the directory was there");
    fs::write(system.drop_in(), "[Service]\n").expect("written");
    for word in ["--install", "--remove"] {
        let ran = system.nice(&[word, "restic.service"]);
        assert!(ran.status == Some(125) && ran.error.contains("is not of iopace"), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(system.drop_in()).expect("read"), "[Service]\n");
}

/// What says last what is started counts, and an alias has the drop-ins of its unit.
#[test]
fn a_drop_in_of_goals_is_the_last_one_of_the_unit_itself() {
    let system = System::new();
    let folder = system.own.join("restic.service.d");
    fs::create_dir(&folder).expect("made");
    let other = "[Service]\nExecStart=\nExecStart=/usr/bin/restic check\n";
    let install = |words: &[&str]| system.nice(&[&["--install", "alias.service"], words].concat());
    let unit = system.vendor.join("restic.service");
    std::os::unix::fs::symlink("restic.service", unit.with_file_name("alias.service"))
        .expect("linked");
    fs::write(folder.join("override.conf"), other).expect("written");
    assert_eq!(install(&["--by", "4h"]).status, Some(0));
    assert!(system.lines().iter().any(|line| line.ends_with("-- /usr/bin/restic check")));
    let last = fs::read_dir(&folder).expect("listed").flatten().map(|entry| entry.path()).max();
    assert_eq!(last, Some(system.drop_in()));
    fs::write(folder.join("zzz.conf"), other).expect("written");
    let ran = install(&["--by", "3h"]);
    assert!(ran.status == Some(125) && ran.error.contains("zzz.conf is read after"), "{ran:?}");
    // The class holds whatever is started.
    assert_eq!(install(&[]).status, Some(0));
    assert_eq!(system.nice(&["--remove", "alias.service"]).status, Some(0));
    assert!(!system.drop_in().exists());
}

/// Links of the system in the root lead into that of the machine, which must stay as it is.
#[test]
fn no_link_leads_out_of_the_root() {
    let system = System::new();
    let elsewhere = system.place.path("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    fs::remove_dir(&system.own).expect("removed");
    std::os::unix::fs::symlink(&elsewhere, &system.own).expect("linked");
    let ran = system.nice(&["--install", "restic.service"]);
    assert!(ran.status == Some(125) && ran.error.contains("links lead out of"), "{ran:?}");
    assert_eq!(fs::read_dir(&elsewhere).expect("listed").count(), 0);
    fs::remove_file(&system.own).expect("removed");
    fs::create_dir(&system.own).expect("made");
    fs::write(elsewhere.join("host.service"), UNIT).expect("written");
    std::os::unix::fs::symlink(elsewhere.join("host.service"), system.own.join("host.service"))
        .expect("linked");
    let ran = system.nice(&["--install", "host.service"]);
    assert!(ran.status == Some(125) && ran.error.contains("links lead out of"), "{ran:?}");
}

#[test]
fn of_a_service_that_cannot_be_nothing_is_written() {
    let system = System::new();
    let unit = |name: &str, text: &str| {
        fs::write(system.vendor.join(name), text).expect("written");
    };
    unit("fork.service", "[Service]\nType=forking\nExecStart=/bin/x\n");
    std::os::unix::fs::symlink("/dev/null", system.vendor.join("off.service")).expect("linked");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--install", "none.service"], 125, "there is no none.service in "),
        (&["--install", "off.service"], 125, "it is masked"),
        (&["--install", "fork.service", "--by", "4h"], 125, "'forking'"),
        (&["--install", "restic.timer"], 2, "'restic.service'"),
        (&["--install", "../restic.service"], 2, "no name"),
        (&["--remove", "restic.service", "--by", "4h"], 2, "cannot be used with"),
    ];
    for (words, status, text) in cases {
        let ran = system.nice(words);
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {ran:?}");
    }
    assert_eq!(fs::read_dir(&system.own).expect("listed").count(), 0);
}

const FILE: &str = "# A mount.\n[[mount]]\ndir = \"data\"\nmountpoint = \"view\"\n\n\
                    [[mount.rule]]\nmap = \"cgroup\"\ngroup = \"/units\"\n\n[group.\"/units\"]\n";

#[test]
fn a_program_has_a_rule_in_the_file_until_that_is_removed() {
    let Some(bench) = Bench::new() else { return };
    let place = &bench.place;
    place.write("iopace.toml", FILE);
    let log = fs::File::create(place.path("log")).expect("made");
    let serving = place.serving(&["serve", "--config", "iopace.toml"], Stdio::from(log));
    let text = || fs::read_to_string(place.path("iopace.toml")).expect("read");
    let class = || place.run(&["group", "get", "/nice-cat", "io.ioprio_class"]).out;
    let ran = place.run(&["nice", "--install", "cat", "--limit", "10M"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("writes to ") && ran.out.contains("program=cat:/nice-cat"), "{ran:?}");
    assert_eq!(class(), "default IDLE\n");
    let max = place.run(&["group", "get", "/nice-cat", "io.max"]).out;
    assert!(max.contains("bps=10485760"), "{max}");
    // It pays as the group from now on.
    let fifo = std::process::Command::new("mkfifo").arg(place.path("fifo")).status();
    assert!(fifo.expect("started").success());
    let mut child = std::process::Command::new("cat")
        .args([place.path("view/file"), place.path("fifo")])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    until("it pays as the group", || {
        let all = place.run(&["group", "list", "--format", "json"]).json();
        let all = all.as_array().expect("a list").clone();
        all.iter().any(|one| {
            one["group"].as_str().is_some_and(|path| path.starts_with("/nice-cat"))
                && one["processes_count"].as_u64() > Some(0)
        })
    });
    fs::write(place.path("fifo"), "on\n").expect("written");
    assert!(child.wait().expect("ended").success());
    let ran = place.run(&["nice", "--remove", "cat"]);
    assert_eq!((ran.status, text().as_str()), (Some(0), FILE), "{ran:?}");
    assert_eq!(place.run(&["nice", "--remove", "cat"]).status, Some(125));
    // What the daemon does not take is not in the file.
    let wrong = FILE.replace("\"data\"", "\"other\"");
    place.write("iopace.toml", &wrong);
    let ran = place.run(&["nice", "--install", "cat"]);
    assert!(ran.status == Some(125) && ran.error.contains("as before"), "{ran:?}");
    assert_eq!(text(), wrong);
    serving.end_by(Signal::TERM);
}
