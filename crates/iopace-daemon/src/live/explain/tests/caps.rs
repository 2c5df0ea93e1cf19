//! Caps of single processes, beside limits of groups.

use super::*;
use crate::api::NARROWED_BY_HOSTS;
use crate::groups::SharedDevice;
use iopace_core::group::LimitsEnd;
use iopace_core::time::Instant;

/// Bytes per second.
const CAP: u64 = 4096 * 100;

/// A writer with a cap, and its group with a limit so many times as high if there is one.
fn capped(limit_times: Option<u64>) -> Bench {
    let policy = pace::find("rate").expect("in the registry");
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &[Client::writer(1, WEB)]);
    bench.cap(1, CAP);
    if let Some(times) = limit_times {
        bench.set(WEB, Settings { max: wbps(CAP * times), ..Settings::default() });
    }
    bench
}

#[test]
fn a_cap_is_named_where_no_limit_is_used_up() {
    let words = [
        "no limit of a group is used up, so it is probably the cap of a process",
        "1 process on the device has one ('iopace pace limit' lists it)",
    ];
    for limit_times in [None, Some(2)] {
        let mut bench = capped(limit_times);
        let told = of_web(&mut bench);
        names(&told, "budget", 990, &words, &[]);
        assert_eq!(told.explained.causes[0].bound, None, "the limit is not what held it up");
        bench.cap(2, CAP);
        let told = of_web(&mut bench);
        let words = "2 processes on the device have one ('iopace pace limit' lists them)";
        assert!(told.explained.summary.contains(words), "{}", told.explained.summary);
    }
}

#[test]
fn a_limit_that_is_used_up_is_named_beside_caps() {
    let mut bench = capped(Some(1));
    // A higher cap holds nothing up.
    bench.cap(1, 2 * CAP);
    let told = of_web(&mut bench);
    let words = ["the limit of /vms/web, 400 KiB/s (io.max wbps), is used up: it had 400 KiB/s"];
    let commands = [
        "iopace group set /vms/web io.max 'disk wbps=800k'",
        "iopace group set /vms/web io.max 'disk wbps=max'",
    ];
    names(&told, "budget", 990, &words, &commands);
}

/// Reads waited for a limit that is lifted since. Caps hold no reads up.
#[test]
fn no_cap_is_named_for_reads_that_wait() {
    let policy = pace::find("rate").expect("in the registry");
    let mut bench = Bench::new(with_pace(policy, 1 << 30), &[Client::new(1, WEB, 8)]);
    bench.cap(2, CAP);
    bench.set(WEB, limited(50));
    let reports = bench.seconds(5);
    bench.set(WEB, Settings::default());
    let told = ask(&bench, &reports, Some("/vms/web"));
    let words = ["a limit (io.max) held it up, which is not set any more"];
    names(&told, "budget", 900, &words, &[]);
}

/// A policy that holds no caps keeps those that are set.
#[test]
fn caps_that_are_not_held_are_not_named() {
    let mut bench = capped(None);
    let control = iopace_core::engine::Control::Pace(&pace::none::POLICY);
    let now = iopace_core::time::Instant(bench.now);
    bench.engine.control(now, control).expect("exchanged");
    assert_eq!(bench.second().devices[0].pace.as_ref().map(|pace| pace.caps_count), Some(1));
    let told = of_web(&mut bench);
    let causes = &told.explained.causes;
    assert!(causes.iter().all(|cause| !cause.text.contains("cap")), "{causes:#?}");
}

#[test]
fn a_share_of_the_limit_of_all_hosts_is_told_as_such() {
    let mut bench = Bench::new(Config::default(), &[Client::new(1, WEB, 8)]);
    let mut settings = limited(50);
    let then = settings.max.sustained;
    settings.max.end = Some(LimitsEnd { at: Instant::NEVER, then });
    bench.set(WEB, settings);
    let told = of_web(&mut bench);
    let words = "50 requests/s (io.max iops; this host's share of the limit of all hosts)";
    assert!(told.explained.summary.contains(words), "{}", told.explained.summary);
    let remedies = &told.explained.causes[0].remedies;
    let [Remedy { command, change: None, .. }] = &remedies[..] else { panic!("{remedies:?}") };
    assert_eq!(command, "iopace cluster hosts");
}

/// What is said of `/vms/web` after five seconds, on a disk of several hosts.
fn of_web_shared(bench: &mut Bench, shared: &SharedDevice, narrowed: bool) -> ExplainedDevice {
    bench.second();
    let mut reports = bench.seconds(5);
    for report in reports.iter_mut().filter(|_| narrowed) {
        report.devices[0].window.narrowed = Some(NARROWED_BY_HOSTS.into());
    }
    let reports: Vec<&LiveReport> = reports.iter().collect();
    let subject = Subject { device: "disk", is_rotational: false, shared: Some(shared) };
    explain(&reports, subject, Some("/vms/web"), &bench.settings).expect("it is there")
}

/// A disk of a volume of several hosts, which has a part of a limit of 50 requests a second.
fn shared(dark_for: Option<Nanos>) -> SharedDevice {
    let limits = BTreeMap::from([("/vms/web".to_owned(), limited(50).max.sustained)]);
    let weights = BTreeMap::from([("/vms".to_owned(), Weight::DEFAULT)]);
    SharedDevice { volume: "pool".into(), dark_for, limits, weights, ..SharedDevice::default() }
}

#[test]
fn in_the_dark_the_store_is_named_and_no_limit_of_this_host() {
    let mut bench = Bench::new(Config::default(), &[Client::new(1, WEB, 8)]);
    bench.set(WEB, limited(50));
    let told = of_web_shared(&mut bench, &shared(Some(Nanos::from_secs(40))), false);
    let summary = &told.explained.summary;
    assert!(summary.contains("etcd is not reached, for 40"), "{summary}");
    let remedies = &told.explained.causes[0].remedies;
    let [Remedy { command, effect, .. }] = &remedies[..] else { panic!("{remedies:?}") };
    assert_eq!(command, "iopace cluster status");
    assert!(effect.contains("does not raise its share"), "{effect}");
    // A stricter limit of this host is one of its own.
    bench.set(WEB, limited(20));
    let told = of_web_shared(&mut bench, &shared(Some(Nanos::from_secs(40))), false);
    assert!(!told.explained.summary.contains("etcd"), "{}", told.explained.summary);
}

#[test]
fn a_share_of_the_queue_of_a_volume_is_no_reason_for_another_window() {
    let mut bench = Bench::new(config(scheduler("fifo"), 128, 1), &[Client::new(1, WEB, 32)]);
    let told = of_web_shared(&mut bench, &shared(None), true);
    let told: Vec<_> = told.explained.causes.iter().filter(|one| one.reason == "window").collect();
    let [cause] = &told[..] else { panic!("{told:?}") };
    assert!(cause.text.contains("share of the queue of volume pool"), "{}", cause.text);
    let commands: Vec<&str> = cause.remedies.iter().map(|remedy| &*remedy.command).collect();
    assert_eq!(commands, ["iopace cluster hosts"]);
}
