//! Who is worst off, and what is advised then.

use super::*;
use serde_json::json;

/// A backup fills the window and has nearly all of the disk's time; what all wait is its own. A
/// database with little to ask waits longer each, behind it: that is who is named, with a remedy
/// for it. Nothing is advised for the sum.
#[test]
fn the_worst_off_leads_and_not_who_has_the_disk() {
    let database = Client { think: 20 * MS, ..Client::new(1, DB, 2) };
    let others = [2, 3, 4].map(|task| Client::new(task, WEB, 32));
    let clients: Vec<Client> = [database].into_iter().chain(others).collect();
    let mut bench = Bench::new(config(scheduler("rr"), 128, 1), &clients);
    bench.second();
    let reports = bench.seconds(10);
    let told = ask(&bench, &reports, None);
    let worst = told.worst.expect("somebody waits");
    assert_eq!(worst.group, "/vms/db", "{:#?}", told.groups);
    assert_eq!((&*told.groups[0].group, &*told.groups[1].group), ("/vms/db", "/vms/web"));
    let first = &told.groups[0];
    assert!(first.per_request_ns > 0 && first.per_request_ns <= first.each_waits_ns, "{first:?}");
    assert_eq!(worst.causes[0].reason, "turn");
    let remedy = &worst.causes[0].remedies[0];
    assert_eq!(remedy.command, "iopace sched insert -a fair disk");
    let change = serde_json::to_value(&remedy.change).expect("a value");
    let insert = json!({"action": "insert", "algorithm": "fair"});
    assert_eq!(change, json!({"kind": "scheduler", "body": insert}));
    let device = told.explained;
    assert_eq!(device.group, "/");
    assert!(device.causes.iter().all(|cause| cause.remedies.is_empty()), "{device:#?}");
    assert!(device.summary.contains("/vms/web has 9"), "{}", device.summary);
    // Asked for a group, nobody is compared.
    assert!(ask(&bench, &reports, Some("/vms/db")).worst.is_none());
}

/// A queue of its own, however long, is not worse than a wait for others; nor is a limit.
#[test]
fn who_waits_for_itself_is_not_the_worst_off() {
    let clients = [Client::new(1, WEB, 64), Client::new(2, DB, 2)];
    let mut bench = Bench::new(Config::default(), &clients);
    bench.set(WEB, limited(20));
    bench.service = Some(5 * MS);
    bench.second();
    let reports = bench.seconds(10);
    let told = ask(&bench, &reports, None);
    assert_eq!(told.worst.map(|worst| worst.group).as_deref(), Some("/vms/web"), "alone it waits");
    assert!(told.groups[0].each_waits_ns > 1_000 * MS, "{:?}", told.groups);

    let root = GroupId::ROOT;
    let mut clients = vec![Client::new(1, WEB, 64), Client::new(2, DB, 1)];
    clients.extend([3, 4, 5, 6].map(|task| Client::new(task, root, 8)));
    let mut bench = Bench::new(config(scheduler("rr"), 128, 1), &clients);
    bench.set(WEB, limited(20));
    bench.second();
    let reports = bench.seconds(10);
    let told = ask(&bench, &reports, None);
    let names: Vec<&str> = told.groups.iter().map(|group| &*group.group).collect();
    assert_eq!(names, ["/vms/db", "/vms/web"], "{:#?}", told.groups);
    let each: Vec<u64> = told.groups.iter().map(|group| group.each_waits_ns).collect();
    assert!(each[0] * 100 < each[1], "a few turns against some seconds: {each:?}");
}

/// Behind what it waits for most, and at a disk with a head, a wider window changes nothing.
#[test]
fn a_wider_window_is_advised_where_it_can_help_only() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 4), &[Client::new(1, WEB, 64)]);
    bench.second();
    let reports = bench.seconds(5);
    let reports: Vec<&LiveReport> = reports.iter().collect();
    let remedies = |is_rotational, group| {
        let subject = Subject { device: "disk", is_rotational, shared: None };
        let told = explain(&reports, subject, group, &bench.settings).expect("it is there");
        let of_device = told.worst.is_some();
        let causes = told.worst.unwrap_or(told.explained).causes;
        let first = causes.into_iter().next().expect("it waits");
        assert_eq!((first.reason.as_str(), of_device), ("window", group.is_none()));
        first.remedies.len()
    };
    assert_eq!((remedies(false, Some("/vms/web")), remedies(true, Some("/vms/web"))), (1, 0));
    assert_eq!((remedies(false, None), remedies(true, None)), (1, 0));

    let others = [2, 3, 4].map(|task| Client::new(task, DB, 4));
    let clients: Vec<Client> = [Client::new(1, WEB, 1)].into_iter().chain(others).collect();
    let mut bench = Bench::new(config(scheduler("rr"), 128, 1), &clients);
    let told = of_web(&mut bench);
    let window = told.explained.causes.iter().find(|cause| cause.reason == "window");
    let given = window.map(|cause| &cause.remedies).expect("a part of it");
    assert!(!given.iter().any(|remedy| remedy.command.contains("window")), "{given:?}");
}

/// A tenth is what a weight of 100 has beside 900 under a scheduler that divides by weight: what
/// the group waits beyond that is its own queue, and who has the longer one is worse off. Under
/// another scheduler the tenth is what the others leave to it.
#[test]
fn a_part_by_weight_is_no_wait_for_others() {
    for (name, worst) in [("fair", "/vms/db"), ("rr", "/vms/web")] {
        let mut clients = vec![Client::new(1, WEB, 16)];
        clients.extend((2..11).map(|task| Client::new(task, DB, 56)));
        let mut bench = Bench::new(config(scheduler(name), 1_024, 1), &clients);
        bench.set(DB, Settings { weight: Weight::new(900).expect("legal"), ..Settings::default() });
        bench.second();
        let reports = bench.seconds(10);
        let told = ask(&bench, &reports, None);
        let disk = told.holdings.iter().find(|holding| holding.what == "disk time").expect("held");
        let web = disk.parts.iter().find(|part| part.group == "/vms/web").expect("has some");
        assert!((80..=120).contains(&web.share_permille), "{name}: {disk:?}");
        let each = |group: &str| {
            let one = told.groups.iter().find(|one| one.group == group).expect("waits");
            one.each_waits_ns
        };
        assert!(each("/vms/web") * 2 < each("/vms/db"), "{name}: {:#?}", told.groups);
        assert_eq!(told.groups[0].group, worst, "{name}: {:#?}", told.groups);
    }
}

/// What a group does itself competes with the groups below it: under `fair` each of its tasks is
/// one of them, elsewhere all together are one holder; and what is due to a group is due to it with
/// all below.
#[test]
fn what_a_group_does_itself_counts_among_its_rivals() {
    let of = |name: &str, own: GroupId, group: &str| {
        let mut clients = vec![Client::new(1, WEB, 16), Client::new(2, DB, 16)];
        clients.extend([3, 4, 5].map(|task| Client::new(task, own, 16)));
        let mut bench = Bench::new(config(scheduler(name), 1_024, 1), &clients);
        bench.second();
        let mut reports = bench.seconds(10);
        let path = if own == GroupId::ROOT { "/" } else { "/vms" };
        let task = |group: &&str| LiveTask {
            task: String::new(),
            group: (*group).into(),
            activity: Activity::default(),
            live_count: 16,
        };
        let tasks = ["/vms/web", "/vms/db", path, path, path];
        reports[9].devices[0].tasks = tasks.iter().map(task).collect();
        let told = ask(&bench, &reports, Some(group)).explained;
        let turn = told.causes.into_iter().find(|cause| cause.reason == "turn").expect("told");
        let holder = turn.holder.expect("of disk time");
        let is_kept = holder.own_permille.abs_diff(holder.due_permille) <= 20;
        (holder.due_permille, is_kept)
    };
    let root = GroupId::ROOT;
    assert_eq!(of("fair", root, "/vms"), (250, true));
    assert_eq!(of("fair", VMS, "/vms/web"), (200, true));
    assert_eq!(of("fair", VMS, "/vms"), (1_000, true));
    assert_eq!(of("rr", root, "/vms").0, 666);
    assert_eq!(of("rr", VMS, "/vms/web").0, 333);
    assert_eq!(of("rr", VMS, "/vms").0, 1_000);
}
