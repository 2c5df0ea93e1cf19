//! Job files: what they become, what is named, what is refused.

use super::Job;
use super::options::{NO_EFFECT, UNDERSTOOD};
use crate::random::Random;
use crate::run::run;
use crate::scenario::Scenario;
use iopace_core::request::GroupId;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

const DISK: &str = "hdd-sata-250g";

fn job(text: &str) -> Job {
    Job::parse("a.fio", text, DISK).unwrap_or_else(|error| panic!("{error}"))
}

fn scenario(text: &str) -> Scenario {
    let job = job(text);
    Scenario::parse("it", &job.toml).unwrap_or_else(|error| panic!("{error}\n{}", job.toml))
}

fn mistake(text: &str) -> String {
    Job::parse("a.fio", text, DISK).expect_err("a mistake").to_string()
}

/// The job of the slots test of 2009, with a second one behind a wall.
const JOB: &str = "; comment\n# another\n[global]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\n\
                   iodepth=32\nsize=128m\ngroup_reporting\nruntime=30\ntime_based\n\
                   [g1]\ncgroup=one\ncgroup_weight=500\nnumjobs=2\n\
                   [g2]\nstartdelay=10\nprioclass=1\nthinktime=50\n\
                   [g3]\nstonewall\nreadwrite=randrw\nrwmixread=70\nrate_iops=100\nfsync=8\n";

#[test]
fn a_job_file_becomes_a_scenario() {
    let scenario = scenario(JOB);
    let names: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["g1-1", "g1-2", "g2", "g3"]);
    let [g1, twin, g2, g3] = &scenario.tasks[..] else { panic!("four tasks") };
    assert_eq!((g1.depth, g1.block, g1.write_percent), (32, Bytes(4_096), 0));
    assert_eq!(g1.region.len(), Bytes::from_mib(128));
    assert_eq!(twin.region.offset(), g1.region.end(), "each clone has a file of its own");
    assert_eq!(g1.stop, Instant::ZERO + Nanos::from_secs(30));
    assert!(g1.group != GroupId::ROOT && g1.group == twin.group && g2.group != g1.group);
    assert_eq!(g2.start, Instant::ZERO + Nanos::from_secs(10));
    assert_eq!((g2.think, g2.depth), (Nanos::from_micros(50), 1), "think time caps the depth");
    assert_eq!((g3.wave, g3.write_percent, g3.flush_every), (1, 30, 8));
    assert!(g3.arrivals.is_some_and(|arrivals| arrivals.is_ceiling && arrivals.requests == 100));
    assert!(scenario.until_done && scenario.memory.is_none());
    assert_eq!(job(JOB).unknown, Vec::<String>::new());
}

#[test]
fn a_job_ends_when_it_has_moved_its_size() {
    let text = "[global]\ndirect=1\nsize=4m\nbs=64k\n[a]\nrw=read\n[b]\nrw=write\nloops=2\n\
                [c]\nstonewall\nrw=randwrite\nio_size=1m\n";
    let report = run(&scenario(text));
    let bytes = ["a", "b", "c"].map(|name| report.tasks[name].bytes >> 20);
    assert_eq!(bytes, [4, 8, 1]);
    assert_eq!(report.unfinished, 0);
    assert!(report.duration_ms.0 < 60_000_000, "{}", report.duration_ms);
}

#[test]
fn a_rate_is_kept_and_fsync_flushes() {
    let text = "[a]\ndirect=1\nsize=1g\nbs=4k\nrw=randwrite\nrate=40k\nruntime=20\ntime_based\n";
    let ops = run(&scenario(text)).tasks["a"].ops;
    assert!((199..=201).contains(&ops), "10 a second: {ops}");
    let text = "[a]\ndirect=1\nsize=1m\nbs=64k\nrw=write\nfsync=4\n";
    let report = run(&scenario(text));
    assert_eq!((report.tasks["a"].ops, report.requests), (16, 16 + 3), "the last has no successor");
}

#[test]
fn a_job_that_stays_in_memory_ends_with_its_time() {
    for rw in ["write", "read"] {
        let text = format!("[a]\nsize=1m\nbs=1m\nrw={rw}\ntime_based\nruntime=1\n");
        let report = run(&scenario(&text));
        // 1 MiB in 132 us, when what fits into memory was moved in no time.
        let ops = report.tasks["a"].ops;
        assert!((8_000..=8_700).contains(&ops), "{rw}: {ops}");
        assert_eq!(report.unfinished, 0);
    }
}

#[test]
fn the_page_cache_is_used_unless_it_is_direct() {
    let scenario = scenario("[a]\nsize=64m\nbs=64k\nrw=write\nioengine=libaio\niodepth=8\n");
    assert!(scenario.memory.is_some() && scenario.tasks[0].buffered);
    assert_eq!(scenario.tasks[0].depth, 1, "libaio without direct waits");
    assert!(!job("[a]\nsize=64m\n").notes.is_empty(), "it is said aloud");
}

#[test]
fn jobs_with_one_file_share_its_place() {
    let text = "[global]\nfilename=/dev/sdz\nsize=1g\ndirect=1\n[a]\n[b]\noffset=2g\nnumjobs=2\n\
                offset_increment=1g\n[c]\nfilename=other\n";
    let offsets: Vec<u64> =
        scenario(text).tasks.iter().map(|task| task.region.offset().0 >> 30).collect();
    assert_eq!(offsets, [0, 2, 3, 4]);
}

#[test]
fn what_is_not_understood_is_named_once_with_its_line() {
    let text = "[global]\nsize=1m\nbssplit=4k/50:8k/50\nlog_avg_msec=10\n[a]\nrw=read:8\n[b]\n\
                latency_target=10ms\nioengine=rados\n";
    let unknown = job(text).unknown;
    assert_eq!(unknown.len(), 4, "{unknown:?}");
    assert_eq!(unknown[0], "line 3: bssplit=4k/50:8k/50");
    for (option, line) in [("rw=read:8", 6), ("latency_target=10ms", 8), ("ioengine=rados", 9)] {
        let wanted = format!("line {line}: {option}");
        assert!(unknown.iter().any(|said| said.starts_with(&wanted)), "{wanted}: {unknown:?}");
    }
    assert!(UNDERSTOOD.iter().all(|name| !NO_EFFECT.contains(name)));
}

#[test]
fn a_mistake_has_its_line_and_a_remedy() {
    assert!(mistake("size=1m\n").starts_with("a.fio:1: an option before any section"));
    assert!(mistake("[global]\nsize=1m\n").contains("there is no job"));
    assert!(mistake("[a]\nsize=${SIZE}\n").starts_with("a.fio:2: '${SIZE}' would be expanded"));
    assert!(mistake("[a]\ninclude b.fio\n").contains("put the text of that file here"));
    assert!(mistake("[a]\nrw=read\n").starts_with("a.fio:1: job 'a' has no size"));
    assert!(mistake("[a]\nsize=20%\n").contains("a.fio:2: size: '20%' is no size"));
    assert!(mistake("[a]\nsize=1m\nbs=1000\n").contains("a multiple of 512 B"));
    assert!(mistake("[a]\nsize=1k\nbs=4k\n").contains("less than a block"));
    assert!(mistake("[a]\nsize=900g\n").contains("the disk has 250"));
    assert!(mistake("[a]\nsize=1m\nrw=rwx\n").starts_with("a.fio:3: rw is read, write"));
    assert!(mistake("[a]\nsize=1m\ntime_based\n").contains("add runtime=30"));
    assert!(mistake("[a]\nsize=1m\niodepth=100000\n").contains("from 1 to 1024"));
    assert!(mistake("[a]\nsize=1m\nnumjobs=99999\n").contains("from 1 to 1024"));
    assert!(mistake("[a]\nfilename=x\n").contains("never ends"));
    assert!(mistake("[a\n").contains("[NAME]"));
    assert!(mistake("[a]\nsize=1m\nruntime=3d\n").contains("within a day"));
    assert!(mistake("[a]\nsize=1\0m\n").contains("control character"));
}

#[test]
fn mutations_are_scenarios_or_mistakes() {
    let mut random = Random::new(1, "jobs");
    let (mut good, mut bad) = (0, 0);
    for _ in 0..5_000 {
        let mut bytes = JOB.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = b"0123456789=[]\nkmgx,:-%"[random.below(22) as usize];
        }
        let text = String::from_utf8(bytes).expect("ASCII");
        match Job::parse("a.fio", &text, DISK) {
            Ok(job) => match Scenario::parse("it", &job.toml) {
                Ok(_) => good += 1,
                Err(error) => panic!("{error}\n{text}\n{}", job.toml),
            },
            Err(error) => {
                assert!(!error.message.is_empty());
                bad += 1;
            }
        }
    }
    assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
}

#[test]
fn any_name_of_a_job_or_cgroup_becomes_that_of_a_group() {
    let job = |name: &str, option: &str| format!("[{name}]\nsize=1m\nrw=read\n{option}\n");
    let path = |text: &str| {
        let _ = scenario(text);
        let toml = self::job(text).toml;
        let path = toml.lines().find_map(|line| line.strip_prefix("group = "));
        path.map(|path| path.trim_matches('"').to_owned())
    };
    for (name, option, wanted) in [
        ("g/", "prioclass=1", "/g"),
        ("a", "cgroup=/vms//web/", "/vms/web"),
        ("a", "cgroup=./../a b@c", "/_/__/a_b_c"),
    ] {
        assert_eq!(path(&job(name, option)).as_deref(), Some(wanted), "{option}");
    }
    assert_eq!(path(&job("a", "cgroup=//")), None);
    let deep = mistake(&job("a", &format!("cgroup={}", "x/".repeat(40))));
    assert!(deep.starts_with("a.fio:4"), "{deep}");
    let long = mistake(&job(&"x".repeat(300), "prioclass=1"));
    assert!(long.starts_with("a.fio:4") && long.contains("255"), "{long}");
}
