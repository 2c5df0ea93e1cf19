//! Requests and buffered writes of one group, and the figures of causes.

use super::*;

/// A group whose reads wait behind others and whose writers have their rate: each is told with its
/// own time and its own reason, and neither is a mean of both.
#[test]
fn reads_and_buffered_writes_are_told_apart() {
    let policy = pace::find("rate").expect("in the registry");
    let others = [3, 4, 5, 6].map(|task| Client::new(task, DB, 4));
    let own = [Client::new(1, WEB, 1), Client::writer(2, WEB)];
    let clients: Vec<Client> = own.into_iter().chain(others).collect();
    let config = Config { base: scheduler("rr"), window_depth: 1, ..with_pace(policy, 8 << 20) };
    let mut bench = Bench::new(config, &clients);
    let told = of_web(&mut bench).explained;
    let kinds: BTreeMap<&str, &str> =
        told.kinds.iter().map(|kind| (&*kind.kind, &*kind.reason)).collect();
    let both = BTreeMap::from([("buffered writes", "dirty"), ("reads", "turn")]);
    assert_eq!(kinds, both, "{told:#?}");
    let count: u64 = told.kinds.iter().map(|kind| kind.finished_count).sum();
    assert_eq!(count, told.finished_count);
    assert!(told.kinds[0].each_waits_ns >= told.kinds[1].each_waits_ns, "{:#?}", told.kinds);
    for words in ["/vms/web on disk: ", "reads take ", "buffered writes take ", ". Its "] {
        assert!(told.summary.contains(words), "'{words}' in {}", told.summary);
    }
    let by_word = |reason: &str| {
        let cause = told.causes.iter().find(|cause| cause.reason == reason).expect("told");
        (cause.per_request_ns > 0, cause.per_buffered_write_ns > 0)
    };
    assert_eq!((by_word("dirty"), by_word("turn")), ((false, true), (true, false)));
    // The sentence has the figure of the table: that of what is waited for.
    let disk = told.causes.iter().find(|cause| cause.reason == "disk").expect("told");
    let each = crate::figures::time(disk.per_request_ns);
    assert!(disk.text.contains(&format!("the disk takes {each} for a request")), "{disk:#?}");
    // A group with one of them has no second sentence.
    let reports = bench.seconds(5);
    let db = ask(&bench, &reports, Some("/vms/db")).explained;
    assert!(db.kinds.is_empty() && db.summary.starts_with("Of the time of /vms/db"), "{db:#?}");
}

/// Write-back that waits for a limit beside reads that do not: no part of that is told of reads,
/// and their parts add up to their latencies.
#[test]
fn the_limit_of_write_back_is_not_that_of_reads() {
    let clients = [Client::new(1, WEB, 2), Client::writer(2, WEB)];
    let mut bench = Bench::new(with_pace(&pace::none::POLICY, 64 * 4096), &clients);
    bench.set(WEB, Settings { max: wbps(4096 * 100), ..Settings::default() });
    bench.second();
    let reports = bench.seconds(10);
    let told = ask(&bench, &reports, Some("/vms/web")).explained;
    let reasons: Vec<&str> = told.causes.iter().map(|cause| &*cause.reason).collect();
    assert_eq!(reasons, ["memory", "disk"], "{told:#?}");
    let reads = told.kinds.iter().find(|kind| kind.kind == "reads").expect("it reads");
    assert_eq!((&*reads.reason, reads.share_permille), ("disk", 1_000), "{reads:#?}");
    let reports: Vec<&LiveReport> = reports.iter().collect();
    let span = Span::new(&reports, "disk").expect("it is there");
    let (sums, budget) = (span.sums("/vms/web"), place(Reason::Budget));
    let of_write_back = sums.waits[budget] - sums.of_tasks()[budget];
    assert!(of_write_back > 1_000_000_000, "its write-back waits: {of_write_back}");
    // A mean is rounded down, by less than a nanosecond for each.
    let latencies = reports.iter().map(|report| &report.devices[0].groups[2].activity.latency);
    let known: u128 =
        latencies.map(|latency| u128::from(latency.mean_ns) * u128::from(latency.count)).sum();
    let reads: u128 = sums.of_requests().iter().sum();
    assert!((known..known + u128::from(sums.sync_count)).contains(&reads), "{known} {reads}");
}

/// Thousands of quick writes beside a few reads that wait long: the mean of all is short, and the
/// reads are worse off than those of a group that only reads.
#[test]
fn a_few_reads_among_many_writes_are_not_hidden_by_them() {
    let policy = pace::find("rate").expect("in the registry");
    let others = [3, 4, 5, 6].map(|task| Client::new(task, GroupId::ROOT, 4));
    let slow = Client { think: 50 * MS, ..Client::new(1, WEB, 2) };
    let quick = Client { think: MS / 4, ..Client::writer(2, WEB) };
    let clients: Vec<Client> = [slow, quick].into_iter().chain(others).collect();
    let config = Config { base: scheduler("rr"), window_depth: 1, ..with_pace(policy, 1 << 30) };
    let mut bench = Bench::new(config, &clients);
    bench.second();
    let reports = bench.seconds(5);
    let told = ask(&bench, &reports, None);
    let web = told.groups.iter().find(|group| group.group == "/vms/web").expect("waits");
    assert_eq!((&*web.kind, &*web.reason), ("reads", "turn"), "{web:#?}");
    let worst = told.worst.expect("somebody waits");
    let all: u64 = worst.causes.iter().map(|cause| cause.wait_ns).sum();
    assert!(worst.finished_count > 5_000, "{}", worst.finished_count);
    assert!(web.each_waits_ns > 10 * (all / worst.finished_count), "{web:#?}");
}

/// What the sentences say stands in fields too.
#[test]
fn bounds_and_holders_are_told_in_figures() {
    let clients = [Client::new(1, WEB, 8), Client::new(2, DB, 56)];
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 32, 4), &clients);
    bench.set(DB, Settings { weight: Weight::new(300).expect("legal"), ..Settings::default() });
    let told = of_web(&mut bench).explained;
    let of = |told: &Explained, reason: &str| {
        let cause = told.causes.iter().find(|cause| cause.reason == reason).expect("told").clone();
        let bound = cause.bound.map(|bound| (bound.what, bound.group, bound.set, bound.used));
        (bound, cause.holder)
    };
    let (bound, holder) = of(&told, "slot");
    assert_eq!(bound, Some(("slots".into(), "/".into(), 32, 32)));
    let holder = holder.expect("taken");
    assert_eq!((&*holder.what, &*holder.group), ("slots", "/vms/db"));
    assert_eq!((holder.share_permille, holder.own_permille, holder.due_permille), (750, 250, 250));
    let (bound, holder) = of(&told, "turn");
    assert_eq!((bound, holder.map(|holder| holder.what)), (None, Some("disk time".into())));
    let (bound, _) = of(&told, "window");
    assert_eq!(bound, Some(("window".into(), "/".into(), 4, 4)));
    bench.set(WEB, limited(50));
    let (bound, holder) = of(&of_web(&mut bench).explained, "budget");
    let (what, group, set, used) = bound.expect("set");
    assert_eq!((&*what, &*group, set), ("io.max iops", "/vms/web", 50));
    assert!((49..=51).contains(&used) && holder.is_none(), "{used}");
}

/// A limit of reads and one of writes, both used up: a request that waits does not say for which,
/// so both are told, each with its own figure and its own remedy. One of which half is used is not.
#[test]
fn limits_that_are_both_used_up_are_both_told() {
    let policy = pace::find("rate").expect("in the registry");
    let clients = [Client::new(1, WEB, 8), Client::writer(2, WEB)];
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &clients);
    let mut max = wbps(4096 * 100);
    max.sustained.riops = NonZeroU64::new(50);
    max.sustained.wiops = NonZeroU64::new(200);
    bench.set(WEB, Settings { max, ..Settings::default() });
    let told = of_web(&mut bench).explained;
    let cause = told.causes.iter().find(|cause| cause.reason == "budget").expect("told");
    for words in [
        "the limit of /vms/web, 50 requests/s (io.max riops), is used up: it had 50 requests/s",
        "the limit of /vms/web, 400 KiB/s (io.max wbps), is used up: it had 400 KiB/s",
    ] {
        assert!(cause.text.contains(words), "'{words}' in {}", cause.text);
    }
    assert!(!cause.text.contains("wiops"), "{}", cause.text);
    // Whichever is told alone waits for its own.
    let kind = |name: &str| told.kinds.iter().find(|kind| kind.kind == name).expect("told");
    let (reads, writes) = (&kind("reads").text, &kind("buffered writes").text);
    assert!(reads.contains("riops") && !reads.contains("wbps"), "{reads}");
    assert!(writes.contains("wbps") && !writes.contains("riops"), "{writes}");
    let commands: BTreeSet<&str> = cause.remedies.iter().map(|remedy| &*remedy.command).collect();
    let web = "iopace group set /vms/web io.max";
    let wanted = ["riops=100", "riops=max", "wbps=800k", "wbps=max"];
    let wanted: Vec<String> = wanted.iter().map(|value| format!("{web} 'disk {value}'")).collect();
    assert_eq!(commands, wanted.iter().map(|command| &**command).collect());
}

/// The bound that was set is not lost: a policy has it lower for a moment.
#[test]
fn a_window_below_what_was_set_may_have_that_again() {
    let mut bench = Bench::new(config(&fifo::ALGORITHM, 128, 4), &[Client::new(1, WEB, 32)]);
    let mut reports = bench.seconds(5);
    for report in &mut reports {
        let device = &mut report.devices[0];
        device.window.policy = "latency".into();
        device.window.depth_set = 32;
        assert_eq!((device.window.depth, device.queue.window_depth), (4, 4));
    }
    let told = ask(&bench, &reports, Some("/vms/web"));
    let effect = "the disk may always hold 32";
    let given = &told.explained.causes[0].remedies;
    assert!(given.iter().any(|remedy| remedy.effect == effect), "{given:#?}");
}
