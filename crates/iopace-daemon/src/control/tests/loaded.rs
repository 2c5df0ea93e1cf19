//! Policies that are loaded over the control socket.

use super::*;
use crate::loadable::MODULE_BYTES_MAX;

#[path = "../../../../iopace-wasm/tests/support/modules.rs"]
mod modules;

/// A module under a name that no other test loads: tests of one process share the registry.
fn module(name: &str) -> Vec<u8> {
    modules::module(&[("oldest", name)])
}

#[test]
fn a_module_is_loaded_told_and_unloaded() {
    let bench = Bench::new(&["disk", "other"]);
    let client = bench.client();
    let loaded = client.load_policy("/srv/told.wasm", module("told")).expect("loaded");
    assert_eq!(
        (&*loaded.name, &*loaded.version, &*loaded.path),
        ("told", "0.1.0", "/srv/told.wasm")
    );
    assert_eq!(loaded.digest.len(), 64);
    let again = client.load_policy("/srv/told.wasm", module("told")).expect("the same");
    assert_eq!(again, loaded);
    assert!(client.policies().expect("told").loaded.contains(&loaded));
    let all = client.schedulers().expect("told");
    let spec = all.into_iter().find(|spec| spec.name == "told").expect("it is there");
    assert_eq!((spec.loaded.as_ref(), &*spec.params[0].name), (Some(&loaded), "limit"));

    let insert = change(Action::Insert, Some("told"), &[("limit", 5)]);
    let device = client.change("other", &insert).expect("inserted");
    assert_eq!((&*device.scheduler.algorithm, device.scheduler.params["limit"]), ("told", 5));
    let (status, error, hint) = refusal(client.unload_policy("told"));
    assert_eq!((status, &*error), (409, "policy 'told' is at work on other"));
    assert!(hint.contains("iopace sched destroy other"), "{hint}");
    client.change("other", &change(Action::Destroy, None, &[])).expect("taken out");
    assert_eq!(client.unload_policy("told").expect("unloaded"), loaded);
    let (status, error, _) = refusal(client.unload_policy("told"));
    assert!(status == 404 && error.contains("no policy 'told' is loaded"), "{error}");
    let (status, error, hint) = refusal(client.change("disk", &insert));
    assert_eq!((status, &*error), (400, "there is no scheduler 'told'"));
    assert!(hint.contains("fifo") && !hint.contains("told"), "{hint}");
}

#[test]
fn another_module_of_the_same_name_is_refused() {
    let bench = Bench::new(&["disk"]);
    let client = bench.client();
    client.load_policy("/srv/a.wasm", module("twice")).expect("loaded");
    let other = modules::module(&[("oldest", "twice"), ("0.1.0", "0.2.0")]);
    let (status, error, _) = refusal(client.load_policy("/srv/b.wasm", other.clone()));
    assert!(status == 409 && error.contains("unload it first"), "{error}");
    assert!(error.contains("/srv/b.wasm") && error.contains("/srv/a.wasm"), "{error}");
    client.unload_policy("twice").expect("unloaded");
    let loaded = client.load_policy("/srv/b.wasm", other).expect("the new one");
    assert_eq!(loaded.version, "0.2.0");
    client.unload_policy("twice").expect("unloaded");
}

/// The scheduler of each device, its parameter, and how many there were before it.
fn stand(client: &Client) -> Vec<(String, Option<u64>, u64)> {
    let devices = client.devices().expect("told").into_iter();
    let stand = devices.map(|device| {
        let limit = device.scheduler.params.get("limit").copied();
        (device.scheduler.algorithm, limit, device.exchanged_count)
    });
    stand.collect()
}

#[test]
fn a_policy_is_replaced_on_all_devices_that_have_it_or_on_none() {
    const LIMIT: &str = "(global.set $limit (i64.load (i32.const 20480)))";
    let build = |changes: &[(&str, &str)]| {
        let name = [("oldest", "renewed")];
        modules::module(&[&name[..], changes].concat())
    };
    let bench = Bench::new(&["disk", "other", "third"]);
    let client = bench.client();
    let replace = |bytes: Vec<u8>| client.replace_policy("/srv/renewed.wasm", bytes);
    assert_eq!(replace(build(&[])).expect("it is loaded").version, "0.1.0");
    for (name, limit) in [("disk", 8), ("third", 5)] {
        let insert = change(Action::Insert, Some("renewed"), &[("limit", limit)]);
        client.change(name, &insert).expect("inserted");
    }
    let stand = || stand(&client);
    let version = || {
        client
            .policies()
            .expect("told")
            .loaded
            .into_iter()
            .find_map(|policy| (policy.name == "renewed").then_some(policy.version))
    };

    // The first device could have it, and the third one cannot.
    let traps = format!(
        "(if (i64.eq (i64.load (i32.const 20480)) (i64.const 5))
                           (then unreachable)) {LIMIT}"
    );
    let (status, error, _) = refusal(replace(build(&[(LIMIT, &traps), ("0.1.0", "0.1.1")])));
    assert!(status == 409 && error.contains("failed to start; device 'third'"), "{error}");
    let (status, ..) = refusal(replace(b"no module".to_vec()));
    assert_eq!((status, version().as_deref()), (400, Some("0.1.0")));
    let names: Vec<_> = stand().into_iter().map(|(name, limit, _)| (name, limit)).collect();
    let [renewed, fifo] = ["renewed", "fifo"].map(str::to_owned);
    let at_work = [(renewed.clone(), Some(8)), (fifo, None), (renewed.clone(), Some(5))];
    assert_eq!(names, at_work);

    let before = stand();
    assert_eq!(replace(build(&[])).expect("the same").version, "0.1.0");
    assert_eq!(stand(), before, "nothing is exchanged");
    // A value that is not legal any more is the default again.
    let newer = [("0.1.0", "0.2.0"), ("\"min\": 1,", "\"min\": 6,")];
    assert_eq!(replace(build(&newer)).expect("replaced").version, "0.2.0");
    assert_eq!(version().as_deref(), Some("0.2.0"));
    let after = stand();
    assert_eq!(after[0], (renewed.clone(), Some(8), before[0].2 + 1));
    assert_eq!(after[1], before[1]);
    assert_eq!(after[2], (renewed, Some(8), before[2].2 + 1));
    for name in ["disk", "third"] {
        client.change(name, &change(Action::Destroy, None, &[])).expect("taken out");
    }
    client.unload_policy("renewed").expect("unloaded");
}

#[test]
fn what_is_no_policy_is_refused_and_the_next_one_is_loaded() {
    let bench = Bench::new(&["disk"]);
    let client = bench.client();
    let load = |bytes: &[u8]| refusal(client.load_policy("/srv/x.wasm", bytes.to_vec()));
    let cases: [(&[u8], u16, &str); 4] = [
        (b"", 400, "it is no WebAssembly module"),
        (b"\0asm\x01\0\0\0", 400, "/srv/x.wasm: it exports no "),
        (&module("fifo"), 409, "its name 'fifo' is taken"),
        (&vec![0; MODULE_BYTES_MAX as usize + 1], 413, "the module cannot be read"),
    ];
    for (bytes, right, text) in cases {
        let (status, error, _) = load(bytes);
        assert_eq!(status, right, "{error}");
        assert!(error.contains(text), "{text}: {error}");
    }
    let (status, error, _) = refusal(client.unload_policy("fair"));
    assert!(status == 409 && error.contains("built in"), "{error}");
    let cut = b"POST /v1/policies HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n\0asm";
    let mut stream = UnixStream::connect(bench.path()).expect("connected");
    stream.write_all(cut).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(!answer.contains(" 200 "), "{answer}");
    client.load_policy("/srv/next.wasm", module("next")).expect("the next one");
    client.unload_policy("next").expect("unloaded");
}
