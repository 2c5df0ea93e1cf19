//! Callers that are made up, in front of a real tree of groups.

mod containers;
mod groups;
mod limits;
mod live;
mod model;

use super::*;
use crate::device::Device;
use crate::limits::{CALLERS_MAX, RECHECK_FIRST, RECHECK_MAX};
use crate::process::fake::Fake;
use iopace_core::time::Nanos;

pub(super) const SECOND: Nanos = Nanos::from_millis(1_000);

/// What `ioprio_get` says for `ionice -c 3`.
pub(super) const IDLE: u16 = 3 << 13;

pub(super) struct Bench {
    pub(super) proc: Arc<Fake>,
    pub(super) groups: Arc<Groups>,
    pub(super) who: Arc<Who>,
}

impl Bench {
    pub(super) fn new(rules: &[&str]) -> Bench {
        Bench::with_devices(rules, Vec::new())
    }

    pub(super) fn with_devices(rules: &[&str], devices: Vec<Arc<dyn Device>>) -> Bench {
        let rules = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
        let proc = Arc::new(Fake::default());
        proc.pass(SECOND);
        let groups = Groups::start(&[], &[], devices).expect("right");
        let groups = Arc::new(groups.with_proc(Arc::clone(&proc) as Arc<dyn Proc>));
        let who = Who::new(&groups, Rules::new(rules, "/").expect("right")).expect("made");
        Bench { proc, groups, who }
    }

    pub(super) fn of(&self, pid: u32) -> Pays {
        self.of_user(pid, 1000)
    }

    pub(super) fn of_user(&self, pid: u32, uid: u32) -> Pays {
        self.who.of(Caller { pid, uid, gid: uid })
    }

    /// The path of the group that pays.
    pub(super) fn path(&self, pid: u32) -> String {
        self.groups.path(self.of(pid).group())
    }

    pub(super) fn paths(&self) -> Vec<String> {
        let all = self.groups.list("/").expect("there");
        all.into_iter().map(|group| group.path).collect()
    }
}

#[test]
fn threads_of_a_program_are_one_task() {
    let bench = Bench::new(&["program=db:/db"]);
    bench.proc.start(7, "db");
    bench.proc.pass(SECOND);
    bench.proc.start(8, "db-worker");
    bench.proc.set(8, |made| made.process = 7);
    assert_eq!(bench.of(8).task(), bench.of(7).task());
    assert_eq!(bench.path(8), "/db");
    bench.proc.start(9, "db");
    assert_ne!(bench.of(9).task(), bench.of(7).task());
}

#[test]
fn other_rules_hold_for_callers_that_are_known() {
    let bench = Bench::new(&["program=db:/db"]);
    bench.proc.start(7, "db");
    assert_eq!(bench.path(7), "/db");
    let other = Rules::new(vec!["program=db:/other".parse().expect("a rule")], "/rest");
    bench.who.rule(other.expect("right")).expect("made");
    assert_eq!(bench.path(7), "/other");
    bench.proc.start(8, "cp");
    assert_eq!(bench.path(8), "/rest");
}

#[test]
fn a_caller_is_looked_at_once() {
    let bench = Bench::new(&[]);
    bench.proc.start(7, "db");
    bench.of(7);
    let looks = bench.proc.looks.load(Relaxed);
    (0..1000).for_each(|_| drop(bench.of(7)));
    assert_eq!(bench.proc.looks.load(Relaxed), looks);
    // Unchanged, it is looked at less and less often, but once a second.
    for _ in 0..12_000 {
        bench.proc.pass(Nanos::from_millis(10));
        bench.of(7);
    }
    let looks = bench.proc.looks.load(Relaxed) - looks;
    assert!((2 * 120..2 * 130).contains(&looks), "{looks}");
}

#[test]
fn a_number_that_is_reused_is_noticed() {
    let bench = Bench::new(&["program=rsync:/backup"]);
    bench.proc.start(7, "rsync");
    let first = bench.of(7);
    for _ in 0..20 {
        bench.proc.pass(SECOND);
        assert_eq!((bench.of(7).task(), &*bench.path(7)), (first.task(), "/backup"));
    }
    bench.proc.end(7);
    bench.proc.start(7, "vi");
    bench.proc.pass(RECHECK_MAX);
    assert_ne!(bench.of(7).task(), first.task());
    assert_eq!(bench.path(7), "/");
    // The same program: another task all the same.
    let second = bench.of(7).task();
    bench.proc.end(7);
    bench.proc.start(7, "vi");
    bench.proc.pass(RECHECK_MAX);
    assert_ne!(bench.of(7).task(), second);
}

#[test]
fn a_shell_that_becomes_a_program_is_noticed() {
    let bench = Bench::new(&["program=rsync:/backup"]);
    bench.proc.start(7, "sh");
    let shell = bench.of(7);
    assert_eq!(bench.path(7), "/");
    bench.proc.set(7, |made| (made.comm, made.program) = ("rsync".into(), None));
    bench.proc.pass(RECHECK_FIRST);
    assert_eq!(bench.path(7), "/backup");
    assert_eq!(bench.of(7).task(), shell.task());
}

#[test]
fn a_caller_that_is_gone_pays_as_its_user() {
    let bench = Bench::new(&["program=rsync:/backup", "user=1000:/anna", "map=cgroup:/units"]);
    let path = |pid, uid| bench.groups.path(bench.who.of(Caller { pid, uid, gid: uid }).group());
    assert_eq!((path(7, 1000), path(7, 1001)), ("/anna".into(), "/".into()));
    // Of another pid namespace: the kernel knows no number of it here.
    assert_eq!((path(0, 1000), path(0, 1001)), ("/anna".into(), "/".into()));
    bench.proc.start(7, "rsync");
    assert_eq!(path(7, 1000), "/backup", "it is seen");
}

#[test]
fn who_is_gone_makes_no_error() {
    let bench = Bench::new(&["program=*:/all"]);
    assert_eq!(bench.path(7), "/");
    bench.proc.start(7, "rsync");
    assert_eq!(bench.path(7), "/all");
    // Its last writes are still its own.
    bench.proc.end(7);
    bench.proc.pass(SECOND);
    assert_eq!(bench.path(7), "/all");
    (0..SHARDS).for_each(|_| bench.who.sweep());
    assert_eq!(bench.path(7), "/");
    assert_eq!(bench.groups.processes(10), (Vec::new(), 0));
}

#[test]
fn who_cannot_be_seen_is_a_task_of_its_own() {
    let bench = Bench::new(&["program=*:/all", "user=1000:/people"]);
    bench.proc.start(7, "vi");
    assert_eq!(bench.path(0), "/people");
    assert_eq!(bench.of(0).task(), bench.of(0).task());
    assert_ne!(bench.of(0).task(), bench.of(7).task());
    // Connections are counted from 1.
    assert!(bench.of(0).task().0 >= 1 << 63 && bench.of(7).task().0 >= 1 << 63);
}

#[test]
fn a_server_acts_for_its_users() {
    let bench = Bench::new(&["user=1000:/a", "user=0:/root"]);
    bench.proc.start(7, "nfsd");
    let path = |uid| {
        let pays = bench.who.of(Caller { pid: 7, uid, gid: 0 });
        (bench.groups.path(pays.group()), pays.task())
    };
    let (anna, root) = (path(1000), path(0));
    assert_eq!((&*anna.0, &*root.0, &*path(5).0), ("/a", "/root", "/"));
    assert_eq!(anna.1, root.1);
}

#[test]
fn a_hundred_thousand_callers_fit() {
    let bench = Bench::new(&["program=hot:/hot"]);
    bench.proc.start(1, "hot");
    bench.of(1);
    for pid in 2..100_002 {
        bench.proc.start(pid, "x");
        bench.of(pid);
        if pid % 1000 == 0 {
            bench.of(1);
        }
    }
    let mut count = 0;
    bench.who.each(&mut |_| count += 1);
    assert_eq!(count, CALLERS_MAX);
    // Who comes often was never forgotten.
    let looks = bench.proc.looks.load(Relaxed);
    assert_eq!(bench.path(1), "/hot");
    assert_eq!(bench.proc.looks.load(Relaxed), looks);
    let (shown, left_out) = bench.groups.processes(100);
    assert_eq!((shown.len(), left_out), (100, CALLERS_MAX - 100));
    (2..100_002).for_each(|pid| bench.proc.end(pid));
    (0..SHARDS).for_each(|_| bench.who.sweep());
    count = 0;
    bench.who.each(&mut |_| count += 1);
    assert_eq!(count, 1);
}
