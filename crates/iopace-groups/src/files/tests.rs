use super::*;
use core::num::NonZeroU64;
use iopace_core::time::Nanos;

mod hostile;
mod nested;

/// The devices of these tests.
const DEVICES: [&str; 2] = ["disk", "ssd"];

/// A tree of `/`, `/vms`, `/vms/db`, `/vms/web`.
fn tree() -> Tree {
    let mut tree = Tree::new();
    tree.create_all("/vms/web").expect("legal");
    tree.create_all("/vms/db").expect("legal");
    tree
}

/// Writes to a group by its path.
fn write(tree: &mut Tree, path: &str, file: &str, text: &str) -> Result<Changed, FileError> {
    let id = tree.find(path).expect("there");
    tree.write(id, file, text, &DEVICES)
}

/// Writes lines that must be legal, and says which devices they concern.
fn set(tree: &mut Tree, path: &str, file: &str, text: &str) -> Vec<String> {
    match write(tree, path, file, text) {
        Ok(changed) => changed.devices,
        Err(error) => panic!("{text:?}: {error}"),
    }
}

/// Writes lines that must be refused and change nothing, and gives the message.
fn refused(tree: &mut Tree, path: &str, file: &str, text: &str) -> String {
    let before = tree.clone();
    let error = write(tree, path, file, text).expect_err(text);
    assert_eq!(*tree, before, "{text:?}");
    error.to_string()
}

fn read(tree: &Tree, path: &str, file: &str) -> String {
    tree.read(tree.find(path).expect("there"), file).expect("a setting")
}

fn effective(tree: &Tree, path: &str, device: &str) -> Settings {
    tree.effective(tree.find(path).expect("there"), device)
}

fn some(figure: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(figure)
}

#[test]
fn without_settings_everything_is_built_in() {
    let tree = tree();
    assert_eq!(effective(&tree, "/vms", "disk"), Settings::default());
    let shown = FILES
        .iter()
        .filter(|spec| spec.writable)
        .map(|spec| (spec.name, read(&tree, "/vms", spec.name)));
    let shown: Vec<(&str, String)> = shown.collect();
    let expected = [
        ("io.weight", "default 100\n"),
        ("io.ioprio_class", "default BE\n"),
        ("io.max", ""),
        ("io.min", ""),
        ("io.latency", ""),
        ("io.nr_group_requests", "default max\n"),
    ];
    assert_eq!(shown, expected.map(|(name, text)| (name, text.to_string())));
}

#[test]
fn each_example_may_be_written() {
    for spec in FILES.iter().filter(|spec| spec.writable) {
        let mut tree = tree();
        assert_eq!(set(&mut tree, "/vms", spec.name, spec.example), ["disk"], "{}", spec.name);
        assert!(spec.summary.ends_with('.'));
    }
}

#[test]
fn a_weight_is_set_for_all_or_for_one_device() {
    let mut tree = tree();
    assert_eq!(set(&mut tree, "/vms", "io.weight", "200"), ["disk", "ssd"]);
    assert_eq!(set(&mut tree, "/vms", "io.weight", "disk 300"), ["disk"]);
    assert_eq!(set(&mut tree, "/vms", "io.weight", "default 50"), ["ssd"]);
    assert_eq!(read(&tree, "/vms", "io.weight"), "default 50\ndisk 300\n");
    assert_eq!(effective(&tree, "/vms", "disk").weight.get(), 300);
    assert_eq!(effective(&tree, "/vms", "ssd").weight.get(), 50);
    assert_eq!(effective(&tree, "/vms/web", "disk").weight, Weight::DEFAULT, "not inherited");
    assert_eq!(set(&mut tree, "/vms", "io.weight", "disk default"), ["disk"]);
    assert_eq!(set(&mut tree, "/vms", "io.weight", "ssd 50"), [""; 0], "it was 50 before");
    assert_eq!(read(&tree, "/vms", "io.weight"), "default 50\nssd 50\n");
}

#[test]
fn a_wrong_weight_is_refused_with_the_place_and_what_is_right() {
    let mut tree = tree();
    assert_eq!(
        refused(&mut tree, "/vms", "io.weight", "disk 200\ndisk 10001"),
        "/vms io.weight, line 2: a weight is a number from 1 to 10000, not '10001'; an example: \
         disk 200"
    );
    assert_eq!(
        refused(&mut tree, "/", "io.weight", "dsk 200"),
        "/ io.weight, line 1: no device 'dsk'; devices: disk, ssd"
    );
    assert_eq!(
        refused(&mut tree, "/", "io.weight", "8:16 200"),
        "/ io.weight, line 1: no device '8:16' (no device is on that disk of the kernel, or only \
         its name is known here); devices: disk, ssd"
    );
    let bad = ["0", "-1", "+5", "disk", "default", "disk 1 2", "1 2", "disk RT", "x", "4294967297"];
    for text in bad {
        refused(&mut tree, "/vms", "io.weight", text);
    }
    let error = refused(&mut tree, "/vms", "io.weight", "disk");
    assert!(error.contains("no value after 'disk'"), "{error}");
}

#[test]
fn classes_have_numbers_and_names() {
    let mut tree = tree();
    let cases = [
        ("1", "RT"),
        ("rt", "RT"),
        ("realtime", "RT"),
        ("3", "IDLE"),
        ("idle", "IDLE"),
        ("2", "BE"),
        ("best-effort", "BE"),
    ];
    for (word, name) in cases {
        set(&mut tree, "/vms", "io.ioprio_class", word);
        assert_eq!(read(&tree, "/vms", "io.ioprio_class"), format!("default {name}\n"));
    }
    set(&mut tree, "/vms", "io.ioprio_class", "disk RT\nssd IDLE");
    assert_eq!(read(&tree, "/vms", "io.ioprio_class"), "default BE\ndisk RT\nssd IDLE\n");
    assert_eq!(effective(&tree, "/vms", "ssd").class, Class::Idle);
    let error = refused(&mut tree, "/vms", "io.ioprio_class", "disk 4");
    assert!(error.contains("a class is RT, BE or IDLE (1, 2 or 3), not '4'"), "{error}");
}

#[test]
fn limits_keep_the_keys_that_a_line_does_not_name() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.max", "disk rbps=2M wiops=120");
    set(&mut tree, "/vms", "io.max", "disk wbps=1MiB rbps=1MB");
    assert_eq!(read(&tree, "/vms", "io.max"), "disk rbps=1000000 wbps=1048576 wiops=120\n");
    set(&mut tree, "/vms", "io.max", "disk wbps=max");
    assert_eq!(read(&tree, "/vms", "io.max"), "disk rbps=1000000 wiops=120\n");
    let max = effective(&tree, "/vms", "disk").max;
    assert_eq!((max.sustained.rbps, max.sustained.wiops), (some(1_000_000), some(120)));
    assert_eq!(effective(&tree, "/vms", "ssd").max, Limits::default());
    assert_eq!(set(&mut tree, "/vms", "io.max", "disk max"), ["disk"]);
    assert_eq!(read(&tree, "/vms", "io.max"), "");
}

#[test]
fn limits_have_bursts_with_a_length_and_a_size_of_operations() {
    let mut tree = tree();
    let line = "disk riops=100 bps=1024 riops-burst=1000 bps-burst=2048 burst-length=1500ms \
                iops-size=4096\n";
    set(&mut tree, "/vms", "io.max", line);
    assert_eq!(read(&tree, "/vms", "io.max"), line);
    let max = effective(&tree, "/vms", "disk").max;
    assert_eq!(max.burst_length, Nanos::from_millis(1500));
    assert_eq!((max.burst.riops, max.burst.bps), (some(1000), some(2048)));
    assert_eq!(max.iops_size, some(4096));
    set(&mut tree, "/vms", "io.max", "disk riops=max iops-size=max burst-length=1s");
    assert_eq!(read(&tree, "/vms", "io.max"), "disk bps=1024 bps-burst=2048\n");
    let error = refused(&mut tree, "/vms", "io.max", "disk bps=4096");
    assert!(error.contains("bps-burst=2048 is below bps=4096"), "{error}");
    let error = refused(&mut tree, "/vms", "io.max", "disk wbps-burst=4096");
    assert!(error.contains("set wbps too"), "{error}");
}

#[test]
fn a_default_limit_holds_for_devices_without_a_line() {
    let mut tree = tree();
    assert_eq!(set(&mut tree, "/vms", "io.max", "default rbps=100 wbps=50"), ["disk", "ssd"]);
    assert_eq!(effective(&tree, "/vms", "later").max.sustained.rbps, some(100));
    // A first line starts from the default: what it does not name stays as it was.
    assert_eq!(set(&mut tree, "/vms", "io.max", "disk rbps=70"), ["disk"]);
    set(&mut tree, "/vms", "io.max", "ssd wbps=max");
    assert_eq!(
        read(&tree, "/vms", "io.max"),
        "default rbps=100 wbps=50\ndisk rbps=70 wbps=50\nssd rbps=100 wbps=max\n"
    );
    set(&mut tree, "/vms", "io.max", "ssd max");
    assert!(read(&tree, "/vms", "io.max").ends_with("\nssd max\n"), "excepted from the default");
    assert_eq!(set(&mut tree, "/vms", "io.max", "ssd default"), ["ssd"]);
    assert_eq!(effective(&tree, "/vms", "ssd").max.sustained.wbps, some(50));
    set(&mut tree, "/vms", "io.max", "ssd max\ndefault max");
    assert_eq!(read(&tree, "/vms", "io.max"), "disk rbps=70 wbps=50\n", "nothing to except from");
}

#[test]
fn limits_that_cannot_be_meant_are_refused_with_what_can() {
    let mut tree = tree();
    let cases = [
        ("disk rbps=0", "rbps=0 would stop the group for ever; rbps=max lifts the limit"),
        ("disk bps-total=1M", "no key 'bps-total': what QEMU calls so is bps here"),
        ("disk iops-total-max=1", "what QEMU calls so is iops-burst here"),
        ("disk bps-total-max-length=10", "what QEMU calls so is burst-length here"),
        ("disk throttling.bps_rd=1", "what QEMU calls so is rbps here"),
        ("disk iops_wr_max=1", "what QEMU calls so is wiops-burst here"),
        ("disk bps_max=1", "what QEMU calls so is bps-burst here"),
        ("disk iops_size=1", "what QEMU calls so is iops-size here"),
        ("disk speed=1", "no key 'speed'; there are: rbps, wbps, riops, wiops, bps and iops, each"),
        ("disk rbps", "'rbps' is not key=value"),
        ("disk max rbps=1", "'max' is not key=value"),
        ("disk riops=5k", "riops is in requests per second, a whole number, not '5k'"),
        ("disk rbps=1.5M", "rbps is in bytes per second, as 2097152, 2M or 2MiB, not '1.5M'"),
        ("disk burst-length=10", "burst-length is a time with a unit, above 0 and up to 60s"),
        ("disk burst-length=61s", "burst-length is a time with a unit"),
        ("disk burst-length=0s", "burst-length is a time with a unit"),
        ("disk iops-size=0", "iops-size is a size above 0"),
        ("rbps=1", "a device or 'default' is missing before 'rbps=1'"),
        ("disk", "no value after 'disk'"),
        ("dsk rbps=1", "no device 'dsk'; devices: disk, ssd"),
    ];
    for (line, right) in cases {
        let error = refused(&mut tree, "/vms", "io.max", &format!("ssd rbps=1\n\n{line}"));
        assert!(error.starts_with("/vms io.max, line 3: "), "{line}: {error}");
        assert!(error.contains(right), "{line}: {error}");
    }
}

#[test]
fn guarantees_are_taken_away_with_zero_and_have_no_default() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.min", "disk rbps=20M iops=50\nssd wiops=1");
    assert_eq!(read(&tree, "/vms", "io.min"), "disk rbps=20971520 iops=50\nssd wiops=1\n");
    assert_eq!(effective(&tree, "/vms", "disk").min.iops, some(50));
    set(&mut tree, "/vms", "io.min", "disk rbps=0\nssd 0");
    assert_eq!(read(&tree, "/vms", "io.min"), "disk iops=50\n");
    let error = refused(&mut tree, "/vms", "io.min", "default rbps=1");
    assert!(error.contains("io.min has no default: name a device"), "{error}");
    let error = refused(&mut tree, "/vms", "io.min", "disk rbps=max");
    assert!(error.contains("rbps is a guarantee here; rbps=0 takes it away"), "{error}");
    refused(&mut tree, "/vms", "io.min", "disk rbps-burst=1");
}

#[test]
fn latency_targets_are_microseconds_or_have_a_unit() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.latency", "disk target=5000\nssd target=7ms");
    assert_eq!(read(&tree, "/vms", "io.latency"), "disk target=5000\nssd target=7000\n");
    assert_eq!(effective(&tree, "/vms", "ssd").latency, Some(Nanos::from_millis(7)));
    set(&mut tree, "/vms", "io.latency", "disk target=0\nssd max");
    assert_eq!(read(&tree, "/vms", "io.latency"), "");
    set(&mut tree, "/vms", "io.latency", "default target=1s\nssd target=max");
    assert_eq!(read(&tree, "/vms", "io.latency"), "default target=1000000\nssd target=0\n");
    for text in ["disk target=31s", "disk target=1.5ms", "disk goal=5", "disk 5", "target=5"] {
        refused(&mut tree, "/vms", "io.latency", text);
    }
}

#[test]
fn slots_have_a_most_and_a_guarantee() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.nr_group_requests", "100 guaranteed=5\ndisk 50");
    set(&mut tree, "/vms", "io.nr_group_requests", "ssd max guaranteed=0");
    assert_eq!(
        read(&tree, "/vms", "io.nr_group_requests"),
        "default 100 guaranteed=5\ndisk 50 guaranteed=5\nssd max guaranteed=0\n"
    );
    assert_eq!(effective(&tree, "/vms", "disk").slots, Slots { max: Some(50), guaranteed: 5 });
    set(&mut tree, "/vms", "io.nr_group_requests", "max guaranteed=0\nssd default\ndisk default");
    assert_eq!(read(&tree, "/vms", "io.nr_group_requests"), "default max\n");
    let bad =
        ["0", "32769", "disk 5 6", "5 max", "disk 5 guaranteed=6", "disk guaranteed=x", "d 5"];
    for text in bad {
        refused(&mut tree, "/vms", "io.nr_group_requests", text);
    }
}

#[test]
fn an_effective_value_says_where_it_comes_from() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.weight", "200\ndisk 300");
    set(&mut tree, "/vms", "io.max", "disk rbps=100 wiops=5");
    let vms = tree.find("/vms").expect("there");
    let told =
        |file: &str, device: &str| tree.explain(vms, file, device).expect("a setting").to_string();
    assert_eq!(told("io.weight", "disk"), "300 (set for disk)");
    assert_eq!(told("io.weight", "ssd"), "200 (default of the group)");
    assert_eq!(told("io.ioprio_class", "ssd"), "BE (built in)");
    assert_eq!(told("io.max", "disk"), "rbps=100 wiops=5 (set for disk)");
    assert_eq!(told("io.max", "ssd"), "max (built in)");
    assert_eq!(told("io.min", "ssd"), "0 (built in)");
    assert_eq!(told("io.nr_group_requests", "ssd"), "max (built in)");
}

#[test]
fn files_that_are_no_settings_say_what_they_are() {
    let mut tree = tree();
    assert_eq!(
        refused(&mut tree, "/vms", "io.stat", "disk 1"),
        "/vms io.stat: read-only: it says what happened and holds no setting"
    );
    assert_eq!(
        refused(&mut tree, "/vms", "io.wieght", "100"),
        "/vms 'io.wieght': no such file; there are: io.weight, io.ioprio_class, io.max, io.min, \
         io.latency, io.nr_group_requests, io.stat, io.pressure"
    );
    let error = tree.read(GroupId::ROOT, "io.pressure").expect_err("elsewhere");
    assert_eq!(error.problem, FileProblem::ReadOnly);
}

#[test]
fn lines_of_a_device_that_is_gone_can_still_be_taken_away() {
    let mut tree = tree();
    set(&mut tree, "/vms", "io.max", "disk rbps=1");
    let vms = tree.find("/vms").expect("there");
    let changed = tree.write(vms, "io.max", "disk rbps=2", &["ssd"]).expect("it has a line");
    assert_eq!((changed.file, changed.devices.len()), ("io.max", 0), "told nobody");
    tree.write(vms, "io.max", "disk default", &["ssd"]).expect("it has a line");
    assert!(tree.write(vms, "io.max", "disk rbps=2", &["ssd"]).is_err(), "it has none");
    set(&mut tree, "/vms", "io.weight", "ssd 5");
    tree.forget_device("ssd");
    assert_eq!(read(&tree, "/vms", "io.weight"), "default 100\n");
}

#[test]
fn devices_may_have_names_that_look_like_values() {
    let (mut tree, devices) = (Tree::new(), ["200", "max"]);
    let mut write = |file, text| {
        tree.write(GroupId::ROOT, file, text, &devices).expect("legal");
        tree.read(GroupId::ROOT, file).expect("a setting")
    };
    assert_eq!(write("io.weight", "200 300\n200"), "default 200\n200 300\n");
    assert_eq!(write("io.nr_group_requests", "max 5\nmax"), "default max\nmax 5\n");
    assert_eq!(write("io.max", "max rbps=1"), "max rbps=1\n");
}

#[test]
fn a_removed_group_takes_its_settings_with_it() {
    let mut tree = tree();
    set(&mut tree, "/vms/web", "io.weight", "200");
    let web = tree.find("/vms/web").expect("there");
    tree.remove(web).expect("empty");
    assert_eq!(tree.effective(web, "disk").weight.get(), 200, "while requests are under way");
    tree.reap(|_| true);
    assert_eq!(tree.create("/vms/web"), Ok(web));
    assert_eq!(tree.effective(web, "disk"), Settings::default());
}

#[test]
fn a_device_gives_every_group_so_many_slots_unless_it_has_its_own() {
    let mut tree = Tree::with_group_requests([("disk".to_string(), 100)]);
    for path in ["/vms/web", "/vms/db", "/backup"] {
        tree.create_all(path).expect("legal");
    }
    let slots = |tree: &Tree, path, device| effective(tree, path, device).slots.max;
    assert_eq!(slots(&tree, "/", "disk"), None, "the root has what the device has");
    assert_eq!(slots(&tree, "/vms", "disk"), Some(100));
    assert_eq!(slots(&tree, "/vms/web", "disk"), Some(100));
    assert_eq!(slots(&tree, "/vms/web", "ssd"), None, "another device");
    let told = |tree: &Tree, path: &str| {
        let id = tree.find(path).expect("there");
        tree.explain(id, "io.nr_group_requests", "disk").expect("a setting").to_string()
    };
    assert_eq!(told(&tree, "/backup"), "100 (default of disk)");

    // A line for the device, and a default of the group, take its place.
    assert_eq!(set(&mut tree, "/backup", "io.nr_group_requests", "disk 400"), ["disk"]);
    assert_eq!(told(&tree, "/backup"), "400 (set for disk)");
    assert_eq!(set(&mut tree, "/backup", "io.nr_group_requests", "disk default"), ["disk"]);
    assert_eq!(set(&mut tree, "/backup", "io.nr_group_requests", "30"), ["disk", "ssd"]);
    assert_eq!(told(&tree, "/backup"), "30 (default of the group)");
    set(&mut tree, "/backup", "io.nr_group_requests", "disk max");
    assert_eq!(slots(&tree, "/backup", "disk"), None);
}

#[test]
fn a_child_has_no_more_slots_than_what_the_device_gives_its_parent() {
    let mut tree = Tree::with_group_requests([("disk".to_string(), 100)]);
    tree.create_all("/vms/web").expect("legal");
    let file = "io.nr_group_requests";
    let text = refused(&mut tree, "/vms/web", file, "disk 200");
    assert!(text.contains("200 slots on disk is above the 100 slots of /vms"), "{text}");
    // The device's value for a child gives way to a value of its parent.
    set(&mut tree, "/vms", file, "disk 50");
    // The parent is raised first; it cannot be taken back below its child.
    set(&mut tree, "/vms", file, "disk 300");
    set(&mut tree, "/vms/web", file, "disk 200");
    let text = refused(&mut tree, "/vms", file, "disk default");
    assert!(text.contains("100 slots on disk is below the 200 slots of /vms/web"), "{text}");
}
