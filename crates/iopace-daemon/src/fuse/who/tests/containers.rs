//! Groups of containers that are set before the first request.

use super::{Bench, SECOND};
use crate::control::fake_device;
use crate::fuse::who::cache::SHARDS;
use crate::groups::{CgroupOf, GroupError};
use crate::limits::MADE_UNUSED;
use iopace_groups::limits::GROUP_DEPTH_MAX;
use std::collections::BTreeMap;

const WEB: &str = "/machine.slice/libpod-web.scope";

/// A mount that maps cgroups below `/units`, and the first process of a container, 7.
fn bench(cgroup: &str) -> Bench {
    let bench = Bench::with_devices(&["map=cgroup:/units"], vec![fake_device("volume")]);
    bench.proc.start(7, "runc:[2:INIT]");
    bench.proc.set(7, |made| made.cgroup = format!("0::{cgroup}\n"));
    bench.proc.set_cgroup(cgroup, Some(&[]));
    bench
}

fn write(bench: &Bench, above: usize, files: &[(&str, &str)]) -> Result<Vec<String>, GroupError> {
    let files = files.iter().map(|(file, line)| ((*file).into(), (*line).into()));
    bench.groups.write_cgroup(CgroupOf { pid: 7, above }, &files.collect::<BTreeMap<_, _>>())
}

fn max(bench: &Bench, group: &str) -> String {
    bench.groups.effective(group, Some("io.max"), None).expect("there")[0].to_string()
}

/// A long time goes by, and the daemon has looked.
fn pass(bench: &Bench) {
    for _ in 0..MADE_UNUSED.as_nanos() / SECOND.as_nanos() + SHARDS as u64 + 10 {
        bench.proc.pass(SECOND);
        bench.who.sweep();
    }
}

#[test]
fn a_container_has_its_limit_from_the_first_request() {
    let bench = bench(WEB);
    let kernel = ("io.max", "8:0 wbps=9000\n");
    bench.proc.set_cgroup(WEB, Some(&[kernel]));
    let files = [("io.max", "default wbps=5000"), ("io.ioprio_class", "default idle")];
    let web = "/units/machine.slice/libpod-web.scope";
    assert_eq!(write(&bench, 0, &files), Ok(vec![web.into()]));
    assert_eq!(max(&bench, web), "wbps=5000 (default of the group)");
    assert_eq!(bench.path(7), web);
    assert_eq!(max(&bench, web), "wbps=5000 (default of the group)", "before the kernel's");
    assert_eq!(bench.groups.read(web, "io.ioprio_class"), Ok("default IDLE\n".into()));
    assert!(bench.groups.list(web).expect("there")[0].is_made, "it goes by itself");
}

#[test]
fn it_holds_as_long_as_the_cgroup_is_there() {
    let bench = bench(WEB);
    let groups = write(&bench, 0, &[("io.max", "default wbps=5000")]).expect("written");
    // Nobody asks for anything, and the first process may be another one.
    bench.proc.end(7);
    pass(&bench);
    assert_eq!(max(&bench, &groups[0]), "wbps=5000 (default of the group)");
    // The daemon has as many files open as it may.
    bench.proc.set_cgroup(WEB, None);
    pass(&bench);
    assert_eq!(max(&bench, &groups[0]), "wbps=5000 (default of the group)");
    bench.proc.end_cgroup(WEB);
    pass(&bench);
    assert_eq!(bench.paths(), ["/", "/units"]);
}

#[test]
fn another_one_of_its_name_has_it_anew() {
    let bench = bench(WEB);
    write(&bench, 0, &[("io.max", "default wbps=5000")]).expect("written");
    bench.proc.end_cgroup(WEB);
    bench.proc.pass(SECOND);
    bench.who.sweep();
    bench.proc.set_cgroup(WEB, Some(&[]));
    let groups = write(&bench, 0, &[("io.max", "default wbps=6000")]).expect("written");
    pass(&bench);
    assert_eq!(max(&bench, &groups[0]), "wbps=6000 (default of the group)");
}

#[test]
fn a_pod_s_containers_have_one_limit_together() {
    let pod = "/kubepods.slice/kubepods-pod1.slice";
    let bench = bench(&format!("{pod}/cri-containerd-web.scope"));
    bench.proc.set_cgroup(pod, Some(&[]));
    let group = format!("/units{pod}");
    assert_eq!(write(&bench, 1, &[("io.weight", "default 300")]), Ok(vec![group.clone()]));
    assert_eq!(bench.path(7), format!("{group}/cri-containerd-web.scope"));
    bench.proc.end(7);
    pass(&bench);
    assert_eq!(bench.groups.read(&group, "io.weight"), Ok("default 300\n".into()));
    assert!(bench.groups.find(&format!("{group}/cri-containerd-web.scope")).is_err());
}

#[test]
fn a_group_that_a_user_has_made_stays() {
    let bench = bench(WEB);
    let web = "/units/machine.slice/libpod-web.scope";
    bench.groups.create(web, true).expect("made");
    write(&bench, 0, &[("io.max", "default wbps=5000")]).expect("written");
    bench.proc.end(7);
    bench.proc.end_cgroup(WEB);
    pass(&bench);
    assert_eq!(max(&bench, web), "wbps=5000 (default of the group)");
    bench.groups.remove(web).expect("nobody pays as it");
}

#[test]
fn what_is_refused_changes_nothing() {
    let deep = "/a".repeat(GROUP_DEPTH_MAX);
    let line = [("io.max", "default wbps=5000")];
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, usize, Files<'_>, &str); 7] = [
        (WEB, 0, &[line[0], ("io.weight", "default 0")], "io.weight, line 1"),
        (WEB, 0, &[("io.stat", "default 0")], "read-only"),
        (WEB, 2, &line, "none of its own above it"),
        (WEB, usize::MAX, &line, "none of its own above it"),
        ("/", 0, &line, "that of all processes"),
        (&deep, 0, &line, "deeper than groups may be"),
        ("/../x\u{1b}[2J", 0, &line, "/x%1b[2J of process 7 cannot be seen"),
    ];
    for (cgroup, above, files, reason) in cases {
        let bench = bench(cgroup);
        if cgroup.contains("..") {
            bench.proc.end_cgroup(cgroup);
        }
        let error = write(&bench, above, files).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(bench.paths(), ["/", "/units"]);
    }
    let bench = bench(WEB);
    bench.groups.write("/units", "io.max", "default wbps=100").expect("written");
    let error = write(&bench, 0, &line).expect_err("above the limit above").to_string();
    assert!(error.contains("wbps"), "{error}");
    assert_eq!(bench.paths(), ["/", "/units"]);
    bench.proc.end(7);
    assert_eq!(write(&bench, 0, &line), Err(GroupError::NoProcess(7)));
}

#[test]
fn where_nothing_is_mapped_nothing_is_written() {
    let bench = Bench::with_devices(&["cgroup=web:/web"], vec![fake_device("volume")]);
    bench.proc.start(7, "web");
    bench.proc.set(7, |made| made.cgroup = "0::/web\n".into());
    bench.proc.set_cgroup("/web", Some(&[]));
    assert_eq!(write(&bench, 0, &[("io.max", "default wbps=5000")]), Ok(Vec::new()));
    assert_eq!(bench.paths(), ["/", "/web"]);
}
