//! Groups for classes and cgroups, processes that are moved, and groups that are removed.

use super::{Bench, IDLE, SECOND};
use crate::fuse::who::cache::SHARDS;
use crate::groups::GroupError;
use crate::limits::{MADE_GROUPS_MAX, MADE_GROUPS_OF_USER_MAX, MADE_UNUSED, MOVED_MAX};
use iopace_core::time::Nanos;
use iopace_groups::limits::GROUP_DEPTH_MAX;

fn refused(bench: &Bench, path: &str) -> String {
    bench.groups.remove(path).expect_err("refused").to_string()
}

#[test]
fn a_user_s_own_cgroup_does_not_pay_as_a_service() {
    let bench = Bench::new(&["cgroup=db.service:/db", "map=cgroup:/units"]);
    let session = "/user.slice/user-7.slice/user@7.service";
    bench.proc.delegate(session);
    bench.proc.delegate(&format!("{session}/system.slice"));
    let paths = [
        ("/system.slice/db.service", "/db"),
        ("/system.slice/db.service/worker", "/db"),
        (
            &*format!("{session}/db.service"),
            "/units/user.slice/user-7.slice/user%407.service/db.service",
        ),
        (
            &*format!("{session}/system.slice/db.service"),
            "/units/user.slice/user-7.slice/user%407.service/system.slice/db.service",
        ),
    ];
    for (pid, (cgroup, pays)) in (7..).zip(paths) {
        for text in [format!("0::{cgroup}\n"), format!("3:blkio:{cgroup}\n0::/\n")] {
            let pid = pid + if text.starts_with('3') { 100 } else { 0 };
            bench.proc.start(pid, "db");
            bench.proc.set(pid, |made| made.cgroup = text);
            assert_eq!(bench.path(pid), pays, "{cgroup}");
        }
    }
}

#[test]
fn ionice_makes_a_group_in_the_group() {
    let bench = Bench::new(&["program=rsync:/backup"]);
    bench.proc.start(7, "rsync");
    assert_eq!(bench.path(7), "/backup");
    let cases = [
        (IDLE, "/backup/idle", "io.ioprio_class", "default IDLE\n"),
        (1 << 13 | 4, "/backup/rt", "io.ioprio_class", "default RT\n"),
        (2 << 13, "/backup/be0", "io.weight", "default 200\n"),
        (2 << 13 | 7, "/backup/be7", "io.weight", "default 25\n"),
        (2 << 13 | 4, "/backup", "io.weight", "default 100\n"),
    ];
    for (ioprio, path, file, text) in cases {
        bench.proc.set(7, |made| made.ioprio = ioprio);
        bench.proc.pass(SECOND);
        assert_eq!(bench.path(7), path);
        let read = bench.groups.read(path, file).expect("there");
        assert_eq!(read, text, "{path}");
    }
    bench.proc.start(8, "vi");
    bench.proc.set(8, |made| made.ioprio = IDLE);
    assert_eq!(bench.path(8), "/idle");
    let idle = bench.groups.list("/idle").expect("there");
    assert_eq!(idle[0].processes_count, 1);
}

#[test]
fn a_thread_has_its_own_class() {
    let bench = Bench::new(&[]);
    bench.proc.start(7, "db");
    bench.proc.start(8, "db");
    bench.proc.set(8, |made| (made.process, made.ioprio) = (7, IDLE));
    assert_eq!((&*bench.path(7), &*bench.path(8)), ("/", "/idle"));
    assert_eq!(bench.of(7).task(), bench.of(8).task());
    let (all, _) = bench.groups.processes(10);
    let all: Vec<(u32, &str)> = all.iter().map(|one| (one.pid, &*one.group)).collect();
    assert_eq!(all, [(7, "/"), (7, "/idle")]);
}

#[test]
fn groups_that_were_made_go_by_themselves() {
    let bench = Bench::new(&["map=cgroup:/units"]);
    bench.proc.start(7, "rsync");
    bench.proc.set(7, |made| {
        made.cgroup = "1:name=systemd:/a\n0::/user.slice/user@7.service\n".into();
        made.ioprio = IDLE;
    });
    let path = "/units/user.slice/user%407.service/idle";
    assert_eq!(bench.path(7), path);
    assert_eq!(bench.paths().len(), 5);
    let sweep = || (0..SHARDS).for_each(|_| bench.who.sweep());
    // Not while it is there, used or not.
    bench.proc.pass(MADE_UNUSED);
    sweep();
    bench.proc.pass(MADE_UNUSED);
    sweep();
    assert_eq!(bench.paths().len(), 5);
    bench.proc.end(7);
    sweep();
    // A script runs it again and again.
    bench.proc.pass(Nanos(MADE_UNUSED.as_nanos() - 1));
    sweep();
    assert_eq!(bench.paths().len(), 5);
    for _ in 0..3 {
        bench.proc.pass(MADE_UNUSED);
        sweep();
    }
    assert_eq!(bench.paths(), ["/", "/units"]);
    assert_eq!(bench.groups.dying_count(), 0);
}

#[test]
fn what_a_user_set_stays() {
    let bench = Bench::new(&["map=cgroup"]);
    for (pid, name) in [(7, "a"), (8, "b"), (9, "c")] {
        bench.proc.start(pid, "x");
        bench.proc.set(pid, |made| made.cgroup = format!("0::/{name}\n"));
        bench.of(pid);
    }
    bench.groups.write("/a", "io.weight", "300").expect("written");
    bench.groups.create("/b", true).expect("there already");
    (7..10).for_each(|pid| bench.proc.end(pid));
    for _ in 0..3 {
        (0..SHARDS).for_each(|_| bench.who.sweep());
        bench.proc.pass(MADE_UNUSED);
    }
    assert_eq!(bench.paths(), ["/", "/a", "/b"]);
    // What a user has made for a class is taken as it is.
    bench.groups.create("/idle", false).expect("made");
    bench.proc.start(10, "x");
    bench.proc.set(10, |made| made.ioprio = IDLE);
    assert_eq!(bench.path(10), "/idle");
    assert_eq!(bench.groups.read("/idle", "io.ioprio_class").expect("there"), "default BE\n");
}

#[test]
fn what_cannot_be_made_pays_above() {
    let bench = Bench::new(&["map=cgroup:/u"]);
    let cgroup = |pid, path: &str| {
        bench.proc.start(pid, "x");
        bench.proc.set(pid, |made| made.cgroup = format!("0::{path}\n"));
    };
    // Too deep: cut, with room for a class.
    cgroup(7, &"/d".repeat(40));
    bench.proc.set(7, |made| made.ioprio = IDLE);
    let path = bench.path(7);
    assert!(path.ends_with("/d/idle"), "{path}");
    assert_eq!(path.matches('/').count(), GROUP_DEPTH_MAX);
    // Too long a name, once escaped.
    cgroup(8, &format!("/e/{}", "@".repeat(200)));
    assert_eq!(bench.path(8), "/u/e");
    // One user has a share.
    let made_count = || bench.paths().len() - 2;
    for pid in 10..10 + MADE_GROUPS_OF_USER_MAX as u32 + 100 {
        cgroup(pid, &format!("/n{pid}"));
        bench.of(pid);
    }
    assert_eq!(made_count(), MADE_GROUPS_OF_USER_MAX);
    assert_eq!(bench.path(10 + MADE_GROUPS_OF_USER_MAX as u32 + 99), "/u");
    let first = 100_000;
    cgroup(first, "/other");
    bench.of_user(first, 1001);
    assert_eq!(made_count(), MADE_GROUPS_OF_USER_MAX + 1, "another user has his own");
    for pid in first + 1..first + MADE_GROUPS_MAX as u32 {
        cgroup(pid, &format!("/n{pid}"));
        bench.of_user(pid, 0);
    }
    assert_eq!(made_count(), MADE_GROUPS_MAX, "all of them, for root too");
}

#[test]
fn a_moved_process_pays_as_its_group_until_it_ends() {
    let bench = Bench::new(&["program=rsync:/backup"]);
    let moved = |pid, path| bench.groups.move_process(pid, path).map(|info| info.pid);
    bench.groups.create("/night", false).expect("made");
    bench.proc.start(7, "rsync");
    assert_eq!(bench.path(7), "/backup");
    bench.proc.start(8, "rsync");
    bench.proc.set(8, |made| made.process = 7);
    bench.of(8);
    // The number of a thread will do; what was known counts no more.
    assert_eq!(moved(8, "/night"), Ok(7));
    assert_eq!((&*bench.path(7), &*bench.path(8)), ("/night", "/night"));
    bench.proc.set(7, |made| made.ioprio = IDLE);
    bench.proc.pass(SECOND);
    assert_eq!(bench.path(7), "/night/idle");
    let (all, _) = bench.groups.processes(10);
    assert!(all.iter().all(|one| one.is_moved && one.pid == 7 && one.program == "rsync"));
    assert_eq!(moved(7, "/"), Ok(7));
    assert_eq!(bench.path(7), "/idle");
    bench.proc.end(7);
    bench.proc.pass(SECOND);
    bench.proc.start(7, "rsync");
    bench.proc.pass(SECOND);
    assert_eq!(bench.path(7), "/backup");
    let error = moved(99, "/night").expect_err("nobody").to_string();
    assert!(error.contains("no process 99"), "{error}");
    assert!(moved(7, "/nihgt").expect_err("no group").to_string().contains("night"));
}

#[test]
fn children_follow_a_moved_parent() {
    let bench = Bench::new(&["program=make:/make"]);
    bench.groups.create("/night", false).expect("made");
    bench.proc.start(10, "bash");
    let child = |pid, parent| {
        bench.proc.start(pid, "make");
        bench.proc.set(pid, |made| made.parent = parent);
    };
    child(11, 10);
    bench.proc.pass(SECOND);
    bench.groups.move_process(10, "/night").expect("moved");
    child(12, 10);
    bench.proc.pass(SECOND);
    child(13, 12);
    child(14, 11);
    child(15, 13);
    assert_eq!(bench.path(15), "/night", "over several that have not called");
    assert_eq!((&*bench.path(11), &*bench.path(14)), ("/make", "/make"), "born before");
    assert_eq!(bench.path(12), "/night");
    // Its parent ends, and it becomes another program: it is still known.
    bench.proc.end(10);
    bench.proc.end(13);
    bench.proc.set(15, |made| (made.parent, made.comm) = (1, "cc".into()));
    bench.proc.pass(SECOND);
    assert_eq!(bench.path(15), "/night");
    // Another one with the number of the parent is not it.
    bench.proc.start(10, "zsh");
    child(16, 10);
    assert_eq!(bench.path(16), "/make");
}

#[test]
fn too_many_are_not_moved() {
    let bench = Bench::new(&[]);
    for pid in 2..2 + MOVED_MAX as u32 {
        bench.proc.start(pid, "x");
        bench.groups.move_process(pid, "/").expect("room");
    }
    bench.proc.start(1, "x");
    assert_eq!(bench.groups.move_process(1, "/"), Err(GroupError::TooManyMoved));
    assert!(bench.groups.move_process(2, "/").is_ok());
    (2..2000).for_each(|pid| bench.proc.end(pid));
    (0..SHARDS).for_each(|_| bench.who.sweep());
    assert!(bench.groups.move_process(1, "/").is_ok());
}

#[test]
fn a_group_is_not_removed_while_a_process_pays_as_it() {
    let bench = Bench::new(&["program=rsync:/backup", "map=cgroup"]);
    assert!(refused(&bench, "/backup").contains("names it: program=rsync:/backup"));
    bench.groups.create("/night", false).expect("made");
    bench.proc.start(7, "vi");
    bench.proc.start(8, "vi");
    bench.proc.set(8, |made| made.ioprio = IDLE);
    bench.groups.move_process(7, "/night").expect("moved");
    assert!(refused(&bench, "/night").contains("1 processes pay as it, such as 7 (vi)"));
    bench.groups.move_process(8, "/night").expect("moved");
    bench.groups.move_process(7, "/").expect("moved");
    assert_eq!(bench.path(8), "/night/idle");
    assert!(refused(&bench, "/night").contains("8 (vi)"));
    // One that has ended does not count, nor do groups that were made for it.
    bench.proc.end(8);
    bench.groups.remove("/night").expect("removed");
    assert_eq!(bench.paths(), ["/", "/backup"]);
    assert_eq!(bench.path(8), "/");
}

#[test]
fn a_moved_process_is_listed_before_it_asks_for_anything() {
    let bench = Bench::new(&[]);
    bench.groups.create("/night", false).expect("made");
    let count = || bench.groups.list("/night").expect("there")[0].processes_count;
    bench.proc.start(7, "vi");
    bench.proc.start(8, "vi");
    for (pid, all) in [(7, 1), (8, 2)] {
        bench.groups.move_process(pid, "/night").expect("moved");
        assert_eq!(count(), all);
    }
    let again = bench.groups.create("/night", true).expect("it is there");
    assert_eq!(again.processes_count, 2);
    // Once it is seen it counts once, and no more when it has ended.
    assert_eq!((bench.path(7), count()), ("/night".into(), 2));
    bench.proc.end(8);
    assert_eq!(count(), 1);
}

#[test]
fn a_number_is_not_given_away_before_the_request_is_submitted() {
    let bench = Bench::new(&[]);
    bench.groups.create("/a", false).expect("made");
    bench.proc.start(7, "vi");
    bench.groups.move_process(7, "/a").expect("moved");
    let pays = bench.of(7);
    bench.proc.end(7);
    bench.groups.remove("/a").expect("removed");
    assert_eq!(bench.groups.dying_count(), 1);
    bench.groups.create("/b", false).expect("made");
    assert_ne!(bench.groups.find("/b").expect("there"), pays.group());
    let old = pays.group();
    drop(pays);
    bench.groups.create("/c", false).expect("made");
    assert_eq!(bench.groups.find("/c").expect("there"), old);
}

#[test]
fn nothing_is_moved_without_a_mount() {
    let Bench { proc, groups, who } = Bench::new(&[]);
    proc.start(7, "vi");
    drop(who);
    assert_eq!(groups.move_process(7, "/"), Err(GroupError::NoMount));
    assert_eq!(groups.processes(1), (Vec::new(), 0));
}

#[test]
fn a_temporary_group_goes_when_nobody_has_paid_as_it_for_a_while() {
    let bench = Bench::new(&[]);
    let groups = &bench.groups;
    let pass = || {
        groups.end_temporary();
        bench.proc.pass(MADE_UNUSED);
        groups.end_temporary();
    };
    groups.create_temporary("/a/x", true).expect("made");
    assert!(groups.create_temporary("/a/x", true).is_err(), "it is there");
    // What is set for it does not keep it; who pays as it does.
    groups.write("/a/x", "io.weight", "300").expect("written");
    let claim = groups.claim("/a/x").expect("there");
    pass();
    assert_eq!(bench.paths(), ["/", "/a", "/a/x"]);
    drop(claim);
    groups.end_temporary();
    assert_eq!(bench.paths(), ["/", "/a", "/a/x"], "not at once");
    pass();
    assert_eq!(bench.paths(), ["/", "/a"]);
    // One that a user makes too is the user's.
    groups.create_temporary("/b", false).expect("made");
    groups.create("/b", true).expect("there already");
    pass();
    assert_eq!(bench.paths(), ["/", "/a", "/b"]);
}
