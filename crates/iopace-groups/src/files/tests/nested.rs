//! Settings that contradict the groups above or below.

use super::{read, refused, set, tree};

#[test]
fn a_limit_is_at_most_that_of_the_nearest_group_above_that_has_one() {
    let mut tree = tree();
    set(&mut tree, "/", "io.max", "disk rbps=1000 wiops=10");
    set(&mut tree, "/vms", "io.max", "disk wiops=5");
    assert_eq!(
        refused(&mut tree, "/vms/web", "io.max", "ssd rbps=1\ndisk rbps=1001"),
        "/vms/web io.max, line 2: rbps=1001 on disk is above the rbps=1000 of /, which holds for \
         all groups below it; at most that, or raise it first"
    );
    let error = refused(&mut tree, "/vms/web", "io.max", "disk wiops=6");
    assert!(error.contains("wiops=6 on disk is above the wiops=5 of /vms,"), "{error}");
    set(&mut tree, "/vms/web", "io.max", "disk rbps=1000 wiops=5 bps=5000\nssd rbps=5000");
    set(&mut tree, "/vms", "io.max", "disk max");
    set(&mut tree, "/vms/web", "io.max", "disk wiops=10");
}

#[test]
fn a_limit_is_not_lowered_below_one_that_a_group_below_has() {
    let mut tree = tree();
    set(&mut tree, "/vms/web", "io.max", "disk rbps=500");
    let line = "default wbps=7\ndisk rbps=499";
    assert_eq!(
        refused(&mut tree, "/", "io.max", line),
        "/ io.max, line 2: rbps=499 on disk is below the rbps=500 of /vms/web; at least that, or \
         lower it first"
    );
    set(&mut tree, "/", "io.max", "disk rbps=500");
    set(&mut tree, "/vms/web", "io.max", "disk rbps=400");
    set(&mut tree, "/", "io.max", "disk rbps=400");
}

#[test]
fn defaults_meet_the_lines_of_other_groups() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.max", "disk rbps=100");
    let error = refused(&mut tree, "/vms/web", "io.max", "default rbps=200");
    assert!(error.contains("line 1: rbps=200 on disk is above the rbps=100 of /vms,"), "{error}");
    set(&mut tree, "/vms/web", "io.max", "default rbps=200\ndisk rbps=100");
    let error = refused(&mut tree, "/vms/web", "io.max", "disk default");
    assert!(error.contains("line 1: rbps=200 on disk is above"), "{error}");
    let error = refused(&mut tree, "/vms", "io.max", "default rbps=150");
    assert!(error.contains("rbps=150 is below the rbps=200 of /vms/web;"), "{error}");
    set(&mut tree, "/vms", "io.max", "default rbps=200");
}

#[test]
fn slots_are_bounded_by_the_group_above() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.nr_group_requests", "64");
    let error = refused(&mut tree, "/vms/web", "io.nr_group_requests", "disk 65");
    assert!(error.contains("65 slots on disk is above the 64 slots of /vms,"), "{error}");
    set(&mut tree, "/vms/web", "io.nr_group_requests", "disk 64");
    let error = refused(&mut tree, "/vms", "io.nr_group_requests", "63");
    assert!(error.contains("63 slots on disk is below the 64 slots of /vms/web;"), "{error}");
}

#[test]
fn guarantees_of_children_add_up_to_at_most_that_of_their_parent() {
    let mut tree = tree();
    set(&mut tree, "/vms/web", "io.min", "disk rbps=60");
    set(&mut tree, "/vms/db", "io.min", "disk rbps=50");
    assert_eq!(
        refused(&mut tree, "/vms", "io.min", "disk rbps=100"),
        "/vms io.min, line 1: a guarantee of rbps=100 on disk is below the rbps=110 that the \
         groups in /vms have together; lower theirs first"
    );
    set(&mut tree, "/vms", "io.min", "disk rbps=110");
    assert_eq!(
        refused(&mut tree, "/vms/db", "io.min", "disk rbps=51 wbps=7"),
        "/vms/db io.min, line 1: a guarantee of rbps=51 on disk makes rbps=111 with the other \
         groups in /vms, which has only rbps=110 itself"
    );
    set(&mut tree, "/vms/db", "io.min", "disk rbps=0 wbps=18446744073709551615");
    set(&mut tree, "/vms/web", "io.min", "disk rbps=110 wbps=18446744073709551615");
    assert_eq!(
        read(&tree, "/vms/web", "io.min"),
        "disk rbps=110 wbps=18446744073709551615\n",
        "sums do not overflow"
    );
}

#[test]
fn guaranteed_slots_add_up_to_at_most_those_of_the_parent() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.nr_group_requests", "max guaranteed=10");
    set(&mut tree, "/vms/web", "io.nr_group_requests", "disk max guaranteed=8");
    let error = refused(&mut tree, "/vms/db", "io.nr_group_requests", "max guaranteed=3");
    let right = "a guarantee of 3 slots on disk makes 11 slots with the other groups in /vms, \
                 which has only 10 slots itself";
    assert!(error.contains(right), "{error}");
    set(&mut tree, "/vms/db", "io.nr_group_requests", "ssd max guaranteed=10");
}

#[test]
fn a_default_agrees_with_lines_of_devices_that_come_back() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.max", "ssd rbps=100");
    let web = tree.find("/vms/web").expect("there");
    let error = tree.write(web, "io.max", "default rbps=200", &["disk"]).expect_err("ssd has less");
    assert!(error.to_string().contains("rbps=200 on ssd is above the rbps=100 of /vms,"));
    tree.forget_device("ssd");
    tree.write(web, "io.max", "default rbps=200", &["disk"]).expect("nobody has less");
}
