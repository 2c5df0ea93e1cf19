//! Recommend mode in a running daemon: a limit that is tried holds nobody up, and is told.

mod support;

use iopace_core::request::GroupId;
use iopace_daemon::api::RecommendChange;
use iopace_daemon::config::Backend;
use support::Running;

const SIZE: u64 = 16 << 20;
const READS: u64 = 200;

#[test]
fn a_limit_that_is_tried_is_told_and_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    let running = Running::start_in(folder, Backend::Path(path), |config| {
        config.devices[0].direct = false;
        config.devices[0].recommend =
            Some(RecommendChange { scheduler: Some("fair".into()), ..RecommendChange::default() });
    });
    let groups = running.daemon.groups();
    let wrong = groups.recommend("/", Some("io.max"), Some("default riops=x"));
    assert!(wrong.is_err(), "a wrong line is refused");
    groups.recommend("/", Some("io.max"), Some("default wiops=10")).expect("tried");
    let device = &running.daemon.devices()[0];
    assert_eq!(groups.tried(&device.info().name).len(), 1);
    assert!(groups.read("/", "io.max").expect("a file").trim().is_empty(), "it does not hold");
    let begin = std::time::Instant::now();
    let mut client = running.client();
    for block in 0..READS {
        client.write(block * 4096, &[7; 4096], true).expect("a write");
    }
    // Live it would take twenty seconds.
    drop(client);
    device.tick();
    let mut seen = (0, 0, 0);
    device.look(&mut |engine, _| {
        let view = engine.recommendation().expect("a shadow");
        assert_eq!(view.failed, None);
        assert_eq!(view.plan.scheduler.as_ref().map(|(found, _)| found.name), Some("fair"));
        let root = &view.report.groups[&GroupId::ROOT];
        seen = (root.live_count, root.served_count, root.delays.count());
    });
    let (took, (live, served, delayed)) = (begin.elapsed(), seen);
    assert_eq!(live, READS);
    // Ten a second, and one more for each beginning.
    let most = took.as_secs() * 10 + 12;
    assert!(served <= most && delayed <= served, "{served} served, {delayed} delayed in {took:?}");
    // What holds at last is not tried.
    groups.write("/", "io.max", "default wiops=10").expect("set");
    assert!(groups.tried(&device.info().name).is_empty());
    groups.end_recommend(&device.info().name);
    device.look(&mut |engine, _| assert!(engine.recommendation().is_none()));
}
