//! Groups that have the limits of the cgroups that they stand for.

use super::{Bench, SECOND};
use crate::control::fake_device;
use crate::fuse::who::Caller;
use crate::limits::{CGROUP_LOOK_AGE, CGROUPS_LOOKED};
use crate::rules::{CgroupLimits, Rules};
use std::sync::atomic::Ordering::Relaxed;

/// A mount on the disk 8:0 that maps cgroups below `/units`.
fn bench() -> Bench {
    Bench::with_devices(&["map=cgroup:/units"], vec![fake_device("volume")])
}

fn start(bench: &Bench, pid: u32, cgroup: &str) {
    bench.proc.start(pid, "db");
    bench.proc.set(pid, |made| made.cgroup = format!("0::{cgroup}\n"));
}

/// The value of a file that holds for a group, and where it comes from.
fn told(bench: &Bench, group: &str, file: &str) -> String {
    bench.groups.effective(group, Some(file), None).expect("there")[0].to_string()
}

fn max(bench: &Bench, group: &str) -> String {
    told(bench, group, "io.max")
}

/// A second goes by, and whoever looks has looked.
fn second(bench: &Bench) {
    bench.proc.pass(SECOND);
    bench.who.sweep();
}

#[test]
fn a_cgroup_and_those_above_have_their_limits_from_the_first_request() {
    let bench = bench();
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000 rbps=max\n")]));
    let files = [("io.latency", "253:0 target=700\n"), ("io.weight", "default 300\n")];
    bench.proc.set_cgroup("/box/web@1.service", Some(&files));
    start(&bench, 7, "/box/web@1.service");
    assert_eq!(bench.path(7), "/units/box/web%401.service");
    assert_eq!(max(&bench, "/units/box"), "wbps=5000 (cgroup of the kernel)");
    let web = "/units/box/web%401.service";
    assert_eq!(max(&bench, web), "max (built in)");
    assert_eq!(told(&bench, web, "io.latency"), "target=700 (cgroup of the kernel)");
    assert_eq!(told(&bench, web, "io.weight"), "300 (cgroup of the kernel)");
    let listed = bench.groups.list(web).expect("there");
    assert!(listed[0].files.is_empty(), "nothing is set here: {:?}", listed[0].files);
    assert_eq!(listed[0].cgroup_files["io.weight"], "default 300\n");
}

#[test]
fn what_is_set_here_counts_before_its_first_request_and_after() {
    let bench = bench();
    bench.groups.write_making("/units/box", "io.max", "8:0 wbps=max").expect("written");
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000\n")]));
    start(&bench, 7, "/box");
    bench.of(7);
    assert_eq!(max(&bench, "/units/box"), "max (set for volume)");
    assert_eq!(bench.groups.read("/units/box", "io.max").expect("there"), "volume max\n");
    bench.groups.write("/units/box", "io.max", "volume default").expect("written");
    assert_eq!(max(&bench, "/units/box"), "wbps=5000 (cgroup of the kernel)");
    bench.groups.write("/units/box", "io.max", "253:0 wbps=7").expect("written");
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=6000\n")]));
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "wbps=7 (set for volume)");
}

#[test]
fn a_change_holds_within_a_second() {
    let bench = bench();
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000\n")]));
    start(&bench, 7, "/box");
    bench.of(7);
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=6000\n")]));
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "wbps=6000 (cgroup of the kernel)");
    // The daemon has as many files open as it may: no limit is lifted by that.
    bench.proc.set_cgroup("/box", None);
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "wbps=6000 (cgroup of the kernel)");
    bench.proc.end_cgroup("/box");
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "max (built in)");
    // It is made anew: its first process is within its limit.
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=4000\n")]));
    start(&bench, 8, "/box");
    bench.of(8);
    assert_eq!(max(&bench, "/units/box"), "wbps=4000 (cgroup of the kernel)");
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=3000\n")]));
    bench.proc.pass(CGROUP_LOOK_AGE);
    start(&bench, 9, "/box");
    bench.of(9);
    assert_eq!(max(&bench, "/units/box"), "wbps=3000 (cgroup of the kernel)");
}

#[test]
fn a_cgroup_that_could_not_be_read_at_first_is_read_later() {
    let bench = bench();
    bench.proc.set_cgroup("/box", None);
    start(&bench, 7, "/box");
    assert_eq!(bench.path(7), "/units/box");
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000\n")]));
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "wbps=5000 (cgroup of the kernel)");
}

#[test]
fn looks_are_few() {
    let bench = bench();
    let looks = || bench.proc.cgroup_looks.load(Relaxed);
    for pid in 0..100 {
        bench.proc.set_cgroup("/box", Some(&[]));
        start(&bench, 100 + pid, "/box/web");
        bench.proc.set_cgroup("/box/web", Some(&[]));
        bench.of(100 + pid);
    }
    assert_eq!(looks(), 2, "of each cgroup one");
    second(&bench);
    (0..9).for_each(|_| bench.who.sweep());
    assert_eq!(looks(), 4, "several mounts sweep in a second");
}

#[test]
fn many_cgroups_are_looked_at_in_turn() {
    let bench = bench();
    let all: Vec<String> = (0..CGROUPS_LOOKED + 10).map(|number| format!("/b{number}")).collect();
    for (pid, cgroup) in (100..).zip(&all) {
        bench.proc.set_cgroup(cgroup, Some(&[]));
        start(&bench, pid, cgroup);
        bench.who.of(Caller { pid, uid: 0, gid: 0 });
    }
    for cgroup in &all {
        bench.proc.set_cgroup(cgroup, Some(&[("io.max", "8:0 wbps=5000\n")]));
    }
    let limited = || {
        let limited = |cgroup: &&String| max(&bench, &format!("/units{cgroup}")).starts_with('w');
        all.iter().filter(limited).count()
    };
    let looks = bench.proc.cgroup_looks.load(Relaxed);
    second(&bench);
    assert_eq!(limited(), CGROUPS_LOOKED);
    assert_eq!(bench.proc.cgroup_looks.load(Relaxed) - looks, CGROUPS_LOOKED as u64);
    second(&bench);
    assert_eq!(limited(), all.len());
}

#[test]
fn limits_of_another_place_in_version_1_are_not_those_of_the_group() {
    let bench = bench();
    bench.proc.set_cgroup("/box", Some(&[("blkio.throttle.write_bps_device", "8:0 5000\n")]));
    start(&bench, 7, "/box");
    bench.proc.set(7, |made| made.cgroup = "9:name=systemd:/box\n7:blkio:/\n".into());
    bench.of(7);
    assert_eq!(max(&bench, "/units/box"), "max (built in)");
    bench.proc.set(7, |made| made.cgroup = "9:name=systemd:/box\n7:blkio:/box\n".into());
    bench.proc.pass(SECOND);
    bench.of(7);
    assert_eq!(max(&bench, "/units/box"), "wbps=5000 (cgroup of the kernel)");
}

#[test]
fn limits_that_are_not_to_count_do_not() {
    let bench = bench();
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000\n")]));
    start(&bench, 7, "/box");
    let rules = |limits| {
        let rules = vec!["map=cgroup:/units".parse().expect("a rule")];
        Rules::new(rules, "/").expect("right").with_cgroup_limits(limits)
    };
    bench.who.rule(rules(CgroupLimits::Ignore)).expect("made");
    assert_eq!(bench.path(7), "/units/box");
    second(&bench);
    assert_eq!(max(&bench, "/units/box"), "max (built in)");
    bench.who.rule(rules(CgroupLimits::Follow)).expect("made");
    bench.of(7);
    assert_eq!(max(&bench, "/units/box"), "wbps=5000 (cgroup of the kernel)");
    bench.who.rule(rules(CgroupLimits::Ignore)).expect("made");
    assert_eq!(max(&bench, "/units/box"), "max (built in)", "at once");
    second(&bench);
    bench.of(7);
    assert_eq!(max(&bench, "/units/box"), "max (built in)");
}

#[test]
fn a_group_that_goes_leaves_no_limit_to_the_next_one_of_its_number() {
    let bench = bench();
    bench.proc.set_cgroup("/box", Some(&[("io.max", "8:0 wbps=5000\n")]));
    start(&bench, 7, "/box");
    let number = bench.of(7).group();
    bench.proc.end(7);
    for _ in 0..40 {
        second(&bench);
    }
    assert_eq!(bench.paths(), ["/", "/units"]);
    bench.groups.create("/other", false).expect("made");
    assert_eq!(bench.groups.find("/other").expect("there"), number);
    second(&bench);
    assert_eq!(max(&bench, "/other"), "max (built in)");
}
