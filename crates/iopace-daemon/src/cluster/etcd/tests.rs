//! What is made of the answers of etcd, and of those of something else.

use super::*;
use std::net::TcpListener;
use std::path::PathBuf;

#[test]
fn somebody_else_than_etcd_is_told_from_it() {
    let refused = |status, answer| match taken(status, answer) {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(401, json!({"error": "the request has no token"}));
    assert!(why.starts_with("this is no etcd") && why.contains("no token"), "{why}");
    let why = refused(400, json!({"message": "etcdserver: user name is empty", "code": 3}));
    assert_eq!(why, "etcdserver: user name is empty");
    let gone = json!({"message": "etcdserver: requested lease not found", "code": 5});
    assert!(matches!(taken(404, gone), Err(StoreError::NoSession)));
    let eof = ureq::Error::Io(io::ErrorKind::UnexpectedEof.into());
    assert!(words(&eof, true).contains("speaks no TLS"));
    assert!(!words(&eof, false).contains("TLS"));
}

#[test]
fn one_who_ends_asks_no_member_after_another() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // Nobody listens there.
    drop(listener);
    let is_ending = Arc::new(AtomicBool::new(false));
    let config = ClusterConfig {
        etcd: vec![format!("http://{address}"); 3],
        tls: None,
        user: None,
        host: "a".into(),
        prefix: "iopace".into(),
        state: PathBuf::new(),
        hosts_max: 2,
        target: None,
    };
    let mut etcd = Etcd::new(&config, Arc::clone(&is_ending));
    assert!(matches!(etcd.read("iopace/"), Err(StoreError::Unreachable(_))));
    assert_eq!(etcd.at, 1, "each of three, and the first one again");
    is_ending.store(true, Ordering::Relaxed);
    assert!(matches!(etcd.read("iopace/"), Err(StoreError::Unreachable(_))));
    assert_eq!(etcd.at, 2, "one");
}
