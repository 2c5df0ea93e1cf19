use super::*;
use std::fs;

/// A tree of plain files, and the time.
struct Bench {
    root: tempfile::TempDir,
    now: Instant,
    /// The waiting of the others, and what the governed one has read.
    waited_us: u64,
    read: u64,
}

const BACKUP: &str = "system.slice/backup.service";
const WEB: &str = "system.slice/web.service";

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().expect("a directory");
        let bench = Bench { root, now: Instant::ZERO, waited_us: 0, read: 0 };
        bench.add(BACKUP);
        bench.add(WEB);
        bench.add("user.slice");
        bench
    }

    fn add(&self, path: &str) {
        fs::create_dir_all(self.root.path().join(path)).expect("made");
        self.set(path, "io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        self.set(path, "io.max", "8:0 rbps=max wbps=5000000 riops=max wiops=max\n");
        self.set(path, "io.weight", "default 200\n");
    }

    fn set(&self, path: &str, file: &str, text: &str) {
        fs::write(self.root.path().join(path).join(file), text).expect("written");
    }

    fn get(&self, file: &str) -> String {
        let path = self.root.path().join(BACKUP).join(file);
        fs::read_to_string(path).expect("read")
    }

    fn governor(&self, percent: u32) -> Governor {
        let args = GovernArgs {
            cgroups: Vec::new(),
            keep_pressure: percent,
            others: Vec::new(),
            limit: None,
            release: false,
            quiet: true,
        };
        let wanted = vec![CgroupName::Unit("backup.service".into())];
        let tree = CgroupTree::at(self.root.path());
        let mut governor = Governor::new(tree, (wanted, Vec::new()), &args);
        governor.disks = vec!["8:0".into()];
        governor
    }

    /// Seconds in which the web waits for so many permille, and the backup reads as fast as it may,
    /// up to 100 MB/s. The rate at the end.
    fn run(&mut self, governor: &mut Governor, seconds: u64, permille: u64) -> Option<u64> {
        for _ in 0..seconds {
            let text = self.get("io.max");
            let rate = text.split("rbps=").nth(1).and_then(|text| text.split(' ').next());
            let rate = rate.and_then(|rate| rate.parse::<u64>().ok());
            self.read += rate.unwrap_or(u64::MAX).min(100_000_000);
            self.waited_us += 1_000 * permille;
            let total = self.waited_us;
            self.set(WEB, "io.pressure", &format!("some avg10=9.00 total={total}\nfull total=0\n"));
            // Its own waiting is nobody's.
            self.set(BACKUP, "io.pressure", &format!("some avg10=99.00 total={}\n", total * 50));
            self.set(BACKUP, "io.stat", &format!("8:0 rbytes={} wbytes=7 rios=1\n", self.read));
            self.set(BACKUP, "io.max", "");
            self.set(BACKUP, "io.weight", "");
            self.now = self.now + Nanos::from_secs(1);
            governor.held.iter_mut().flatten().for_each(|governed| governed.push = None);
            governor.tick(self.now).expect("looked");
        }
        let course = governor.held[0].as_ref().and_then(|governed| governed.push);
        course.and_then(|push| push.rate).map(|rate| rate.0)
    }
}

#[test]
fn others_that_wait_hold_it_back_and_it_comes_back() {
    let mut bench = Bench::new();
    let mut governor = bench.governor(5);
    governor.tick(bench.now).expect("looked");
    assert_eq!(bench.run(&mut governor, 12, 20), None, "others wait less than they may");
    assert_eq!(bench.get("io.weight"), "default 1");
    let held = bench.run(&mut governor, 4, 200).expect("held back");
    let less = bench.run(&mut governor, 4, 200).expect("held back");
    assert!(less < held && held < 100_000_000, "{less} of {held}");
    // Never more than it had: it writes 5 MB/s at most, whatever it reads.
    assert!(bench.get("io.max").ends_with(&format!("wbps={}", less.min(5_000_000))));
    let more = bench.run(&mut governor, 8, 0);
    assert!(more.is_none_or(|more| more > less), "{more:?}");
    assert_eq!(bench.run(&mut governor, 200, 0), None, "nobody waits");
    bench.set(BACKUP, "io.max", "");
    bench.set(BACKUP, "io.weight", "");
    governor.end().expect("given back");
    assert_eq!(bench.get("io.max"), "8:0 rbps=max wbps=5000000");
    assert_eq!(bench.get("io.weight"), "default 200");
}

#[test]
fn it_comes_and_goes() {
    let mut bench = Bench::new();
    let dir = bench.root.path().join(BACKUP);
    fs::remove_dir_all(&dir).expect("removed");
    let mut governor = bench.governor(5);
    let line = governor.tick(bench.now).expect("looked");
    assert!(line.contains("none of them"), "{line}");
    bench.add(BACKUP);
    bench.run(&mut governor, 3, 0);
    assert!(governor.held[0].is_some());
    fs::remove_dir_all(&dir).expect("removed");
    bench.now = bench.now + Nanos::from_secs(1);
    governor.tick(bench.now).expect("looked");
    assert!(governor.held[0].is_none());
    // One without the controller is told.
    fs::create_dir_all(&dir).expect("made");
    let error = governor.tick(bench.now).expect_err("refused").message;
    assert!(error.contains("backup.service: has neither io.max"), "{error}");
}

#[test]
fn all_others_are_seen_once() {
    let bench = Bench::new();
    bench.add("system.slice/web.service/worker");
    let tree = CgroupTree::at(bench.root.path());
    let found = tree.beside(&[PathBuf::from(BACKUP)]);
    assert_eq!(found, ["user.slice", WEB].map(PathBuf::from));
    let unit = |name: &str| tree.locate(&CgroupName::Unit(name.into()));
    assert_eq!(unit("worker.scope"), None);
    assert_eq!(unit("web.service"), Some(PathBuf::from(WEB)));
    // One that a user has made in a cgroup of his own is not it.
    bench.add("user.slice/fake.service");
    assert!(unit("fake.service").is_some());
    if rustix::process::geteuid().is_root() {
        let own = bench.root.path().join("user.slice");
        std::os::unix::fs::chown(own, Some(65_534), None).expect("given");
        assert_eq!(unit("fake.service"), None);
    }
}

#[test]
fn names_are_units_or_paths_below_the_root() {
    let root = Path::new("/sys/fs/cgroup");
    let path = |text: &str| Ok(CgroupName::Path(text.into()));
    assert_eq!(CgroupName::parse("/a.slice/b.service", root), path("a.slice/b.service"));
    assert_eq!(CgroupName::parse("/sys/fs/cgroup/a", root), path("a"));
    let unit = CgroupName::parse("b.service", root);
    assert_eq!(unit, Ok(CgroupName::Unit("b.service".into())));
    for wrong in ["", "/", "b", "/../etc", "/a/../../etc", "../b.service", "/sys/fs/cgroup"] {
        let error = CgroupName::parse(wrong, root).expect_err(wrong);
        assert!(error.contains("/system.slice/restic.service"), "{error}");
    }
}
