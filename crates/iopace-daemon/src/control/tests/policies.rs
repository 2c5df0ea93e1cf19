//! Stages pace and window over the control socket.

use super::*;
use crate::api::{CapChange, PaceChange, WindowChange};
use crate::config::{PACE_DEFAULT, WINDOW_DEFAULT};

fn pace(policy: &str) -> PaceChange {
    PaceChange { policy: Some(policy.into()), pause_target_ns: None }
}

fn window(policy: Option<&str>, depth: Option<u32>) -> WindowChange {
    WindowChange { policy: policy.map(Into::into), depth }
}

#[test]
fn the_policies_are_told_with_their_defaults() {
    let bench = Bench::new(&["disk"]);
    let all = bench.client().policies().expect("answered");
    let names = |specs: &[crate::api::PolicySpec]| -> Vec<String> {
        specs.iter().map(|spec| spec.name.clone()).collect()
    };
    let registry: Vec<&str> =
        iopace_core::pace::REGISTRY.iter().map(|policy| policy.name).collect();
    assert_eq!(names(&all.pace), registry);
    let registry: Vec<&str> =
        iopace_core::window::REGISTRY.iter().map(|policy| policy.name).collect();
    assert_eq!(names(&all.window), registry);
    for (specs, default) in [(&all.pace, PACE_DEFAULT), (&all.window, WINDOW_DEFAULT)] {
        let defaults: Vec<&str> =
            specs.iter().filter(|spec| spec.default).map(|spec| &*spec.name).collect();
        assert_eq!(defaults, [default]);
        assert!(specs.iter().all(|spec| !spec.summary.is_empty()));
    }
}

#[test]
fn policies_are_exchanged_and_told_as_they_are_in_force() {
    let bench = Bench::new(&["disk", "direct"]);
    let client = bench.client();
    let paced = client.device("disk").expect("answered").pace.expect("buffered");
    assert_eq!((&*paced.policy, paced.waiting_count, paced.pauses.count), ("none", 0, 0));
    assert_eq!((paced.background_bytes, paced.picture.limit_bytes), (10 << 20, 20 << 20));
    assert_eq!((paced.picture.dirty_bytes, paced.write_back_bytes), (0, 0));

    let device = client.change_pace("disk", &pace("rate")).expect("exchanged");
    let paced = device.pace.expect("buffered");
    assert_eq!(&*paced.policy, "rate");
    assert!(paced.picture.setpoint_bytes > paced.picture.freerun_bytes);
    assert!(paced.picture.limit_bytes > paced.picture.setpoint_bytes);
    let again = client.change_pace("disk", &pace("rate")).expect("the same");
    assert_eq!(again.pace.map(|pace| pace.policy), Some("rate".into()));

    let windowed = client.change_window("disk", &window(None, Some(7))).expect("set").window;
    assert_eq!((&*windowed.policy, windowed.depth), ("fixed", 7));
    let device = client.change_window("direct", &window(Some("aimd"), Some(9))).expect("set");
    assert_eq!(&*device.window.policy, "aimd");
    assert!((1..=9).contains(&device.window.depth), "{:?}", device.window);
    assert!(device.pace.is_none(), "nothing is buffered");
    let device = client.change_window("direct", &window(Some("fixed"), None)).expect("set");
    assert_eq!((&*device.window.policy, device.window.depth), ("fixed", 9));

    let stat = client.group_stat("/").expect("told");
    assert_eq!(stat.groups[0].devices[0].dirty_bytes, 0);
}

#[test]
fn a_pause_target_is_set_alone_or_with_a_policy_that_has_one() {
    let bench = Bench::new(&["disk", "direct"]);
    let client = bench.client();
    let change = |policy: Option<&str>, millis: Option<u64>| PaceChange {
        policy: policy.map(Into::into),
        pause_target_ns: millis.map(|millis| millis * 1_000_000),
    };
    let target = || client.device("disk").expect("told").pace.expect("buffered").pause_target_ns;
    assert_eq!(target(), None, "no pacing aims at no pause");
    let set = |policy, millis| client.change_pace("disk", &change(policy, millis));
    let (_, error, _) = refusal(set(None, Some(5)));
    assert!(error.contains("'none' aims at no pause: 'rate' does"), "{error}");
    assert_eq!(set(Some("rate"), Some(5)).map(|_| target()).expect("set"), Some(5_000_000));
    assert_eq!(set(None, Some(20)).map(|_| target()).expect("set"), Some(20_000_000));
    for millis in [0, 101] {
        let (_, error, _) = refusal(set(None, Some(millis)));
        assert!(error.contains("is out of bounds: 1 ms to 100 ms"), "{error}");
    }
    let (_, error, _) = refusal(set(Some("threshold"), Some(5)));
    assert!(error.contains("'threshold' aims at no pause"), "{error}");
    let (_, error, _) = refusal(set(None, None));
    assert!(error.contains("neither a policy nor a pause target"), "{error}");
    assert_eq!(target(), Some(20_000_000), "nothing was changed by what was refused");
    // It is the device's: another policy that aims at a pause would have it too.
    assert_eq!(set(Some("none"), None).map(|_| target()).expect("set"), None);
    assert_eq!(set(Some("rate"), None).map(|_| target()).expect("set"), Some(20_000_000));
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let bench = Bench::new(&["disk", "direct"]);
    let client = bench.client();
    let post = |route: &str, body: &str| {
        let head = format!("POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: {}", body.len());
        bench.raw(format!("{head}\r\n\r\n{body}").as_bytes())
    };
    let change = |stage: &str, body: &str| post(&format!("/v1/devices/disk/{stage}"), body);
    let set = |policy, depth| refusal(client.change_window("disk", &window(policy, depth)));
    let cases = [
        (refusal(client.change_pace("disk", &pace("rat"))), 400, "no pacing policy 'rat'", "none"),
        (refusal(client.change_pace("dsik", &pace("rate"))), 404, "no device 'dsik'", "disk"),
        (refusal(client.change_pace("direct", &pace("none"))), 409, "bypasses", "nothing to pace"),
        (set(Some("fix"), Some(3)), 400, "there is no window policy 'fix'", "fixed"),
        (set(Some("aimd"), Some(0)), 400, "depth 0 is out of bounds", "it is 1 to 1024"),
        (set(None, Some(1_025)), 400, "depth 1025 is out of bounds", "it is 1 to 1024"),
        (set(None, None), 400, "neither a policy nor a depth", "-a"),
    ];
    for ((status, error, hint), right, text, remedy) in cases {
        assert_eq!(status, right, "{error}");
        assert!(error.contains(text), "{text}: {error}");
        assert!(hint.contains(remedy), "{remedy}: {hint}");
    }
    let hostile = [
        (change("pace", "{}"), " 400 ", "policy"),
        (change("pace", r#"{"policy":"rate","depth":3}"#), " 400 ", "depth"),
        (change("pace", r#"{"policy":null}"#), " 400 ", "neither a policy nor a pause"),
        (change("pace", r#"{"pause_target_ns":-1}"#), " 400 ", "-1"),
        (change("window", r#"{"depth":-1}"#), " 400 ", "-1"),
        (change("window", r#"{"depth":99999999999}"#), " 400 ", "99999999999"),
        (change("window", &" ".repeat(BODY_BYTES_MAX + 1)), " 413 ", "65536"),
        (post("/v1/schedulers", "{}"), " 405 ", "GET"),
        (post("/v1/devices/%ff/pace", "{}"), " 400 ", ""),
    ];
    for (answer, status, text) in hostile {
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.contains(status), "{status}: {answer}");
        assert!(answer.contains(text), "{text}: {answer}");
    }
    let device = client.device("disk").expect("still served");
    assert_eq!(device.pace.map(|pace| pace.policy), Some("none".into()));
    let fixed = iopace_core::limits::WINDOW_DEPTH_DEFAULT;
    assert_eq!((&*device.window.policy, device.window.depth), ("fixed", fixed));
}

/// Caps that are set and lifted are in `tests/mount/caps.rs`: they are of processes of a mount.
#[test]
fn caps_are_refused_where_they_would_hold_nobody_up() {
    let bench = Bench::new(&["disk", "direct", "other"]);
    let client = bench.client();
    let own = std::process::id();
    let cap = |device: &str, pid, bytes_s| client.set_cap(device, &CapChange { pid, bytes_s });
    let cases = [
        (refusal(cap("disk", own, Some(1 << 20))), 409, "'none' holds no caps", "configure -a"),
        (refusal(cap("disk", own, Some(4_095))), 400, "4095 bytes per second", "type 4K or more"),
        (refusal(cap("direct", own, Some(1 << 20))), 409, "bypasses", "nothing to pace"),
        (refusal(cap("other", own, Some(1 << 20))), 409, "no directory is mounted", "io.max"),
        (refusal(cap("dsik", own, None)), 404, "no device 'dsik'", "disk"),
        (refusal(cap("disk", u32::MAX, None)), 404, "no process 4294967295", "processes"),
    ];
    for ((status, error, hint), right, text, remedy) in cases {
        assert_eq!(status, right, "{error}");
        assert!(error.contains(text), "{text}: {error}");
        assert!(hint.contains(remedy), "{remedy}: {hint}");
    }
    client.change_pace("disk", &pace("rate")).expect("exchanged");
    let caps = cap("disk", own, Some(1 << 20)).expect("our own").caps;
    assert_eq!(caps.iter().map(|cap| (cap.pid, cap.bytes_s)).collect::<Vec<_>>(), [(own, 1 << 20)]);
    assert_eq!(client.device("disk").expect("told").pace.expect("buffered").caps_count, 1);
    client.change_pace("disk", &pace("none")).expect("exchanged");
    let report = client.caps("disk").expect("told");
    assert!(!report.held && report.caps == caps, "{report:?}");
    assert_eq!(cap("disk", own, None).expect("lifted").caps, []);
}
