//! A report for tests: one busy device with groups and tasks, and one that does nothing.

use iopace_daemon::api::{
    Activity, FlowReport, LiveDevice, LiveGroup, LiveReport, LiveTask, PaceReport, PictureReport,
    QueueReport, TimesReport, WindowReport,
};

const MIB: u64 = 1 << 20;

/// What finished: MiB/s and requests per second of reads and writes, p99 in us, and waits in ms
/// (dirty, slot, budget, turn, disk).
fn activity(read: (u64, u64), write: (u64, u64), p99_us: u64, waits: [u64; 5]) -> Activity {
    let flow = |(mib, ops)| FlowReport { bytes_s: mib * MIB, ops_milli_s: ops * 1000 };
    let mut activity = Activity { read: flow(read), write: flow(write), ..Activity::default() };
    // A writer whose pages are written back a little slower than it dirties them.
    activity.buffered = FlowReport { bytes_s: write.0 * MIB * 6 / 5, ops_milli_s: write.1 * 3000 };
    let count = read.1 + write.1;
    let (p99_ns, p50_ns) = (p99_us * 1000, p99_us * 250);
    activity.latency = TimesReport { count, mean_ns: p50_ns, p50_ns, p99_ns, max_ns: p99_ns * 2 };
    let [dirty, slot, budget, turn, disk] = waits.map(|ms| ms * 1_000_000);
    let times = &mut activity.waits;
    (times.dirty_ns, times.slot_ns, times.budget_ns) = (dirty, slot, budget);
    (times.turn_ns, times.disk_ns) = (turn, disk);
    activity
}

fn group(group: &str, activity: Activity) -> LiveGroup {
    LiveGroup {
        group: group.into(),
        activity,
        weight: 100,
        class: "be".into(),
        limited: false,
        slots_taken_count: 4,
        dirty_bytes: 3 * MIB,
        pace: None,
        promise: None,
    }
}

fn task(task: &str, group: &str, activity: Activity) -> LiveTask {
    LiveTask { task: task.into(), group: group.into(), activity, live_count: 0 }
}

fn groups() -> Vec<LiveGroup> {
    let web = activity((1, 200), (6, 90), 34_000, [0, 900, 0, 400, 300]);
    vec![
        group("/", activity((39, 1450), (31, 121), 81_000, [1900, 900, 700, 800, 3400])),
        LiveGroup {
            weight: 50,
            class: "idle".into(),
            limited: true,
            dirty_bytes: 190 * MIB + MIB / 2,
            ..group("/backup", activity((0, 0), (25, 31), 81_000, [1900, 0, 700, 0, 200]))
        },
        group("/vms", activity((39, 1450), (6, 90), 34_000, [0, 900, 0, 800, 3200])),
        LiveGroup {
            weight: 10_000,
            class: "rt".into(),
            slots_taken_count: 24,
            ..group("/vms/db", activity((38, 1250), (0, 0), 2_300, [0, 0, 0, 400, 2900]))
        },
        group("/vms/web", web.clone()),
        group("/vms/web/a-part", web),
    ]
}

fn tasks() -> Vec<LiveTask> {
    vec![
        task("connection 3", "/vms/web", activity((1, 200), (6, 90), 34_000, [0, 9, 0, 4, 3])),
        task("connection 12", "/vms/db", activity((38, 1250), (0, 0), 2_300, [0, 0, 0, 4, 29])),
        task("tar (4711)", "/backup", activity((0, 0), (25, 31), 81_000, [19, 0, 7, 0, 2])),
    ]
}

fn pace() -> PaceReport {
    PaceReport {
        pause_target_ns: Some(8_000_000),
        policy: "rate".into(),
        write_back_bytes: 8 * MIB,
        background_bytes: 100 * MIB,
        picture: PictureReport {
            dirty_bytes: 190 * MIB + MIB / 2,
            freerun_bytes: 96 * MIB,
            setpoint_bytes: 192 * MIB,
            limit_bytes: 256 * MIB,
            ..PictureReport::default()
        },
        pauses: TimesReport::default(),
        caps_count: 0,
        waiting_count: 2,
    }
}

fn queue() -> QueueReport {
    QueueReport {
        waiting_count: 3,
        queued_count: 20,
        in_flight_count: 12,
        nr_requests: 128,
        window_depth: 32,
        reason: "window".into(),
        submitted_count: 0,
        finished_count: 0,
        refused_count: 0,
    }
}

/// The report.
pub fn report() -> LiveReport {
    let groups = groups();
    let busy = LiveDevice {
        device: "disk".into(),
        kind: "block device".into(),
        scheduler: "fair".into(),
        inserted: true,
        auto: false,
        disk: None,
        activity: groups[0].activity.clone(),
        queue: queue(),
        window: WindowReport {
            policy: "latency".into(),
            depth: 16,
            depth_set: 16,
            narrowed: None,
            write_back_depth: 4,
            write_back_gap_ns: 0,
            quiet_latency_ns: 0,
            latency_ns: 0,
        },
        pace: Some(pace()),
        groups,
        groups_left_out_count: 0,
        tasks: tasks(),
    };
    let idle = LiveDevice {
        device: "idle".into(),
        kind: "emulated".into(),
        scheduler: "fifo".into(),
        inserted: false,
        auto: false,
        disk: None,
        activity: Activity::default(),
        queue: QueueReport {
            waiting_count: 0,
            queued_count: 0,
            in_flight_count: 0,
            reason: "empty".into(),
            ..queue()
        },
        pace: None,
        groups: vec![group("/", Activity::default())],
        tasks: Vec::new(),
        ..busy.clone()
    };
    LiveReport {
        sequence: 187,
        uptime_ns: 187_000_000_000,
        interval_ns: 1_000_000_000,
        devices: vec![busy, idle],
    }
}
