//! Nothing below a mount stays open when its record is gone.

use super::{Mounted, wait_for};
use iopace_daemon::config::MountConfig;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The files below a directory that this process has open.
fn open_below(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc/self/fd").expect("listed").flatten();
    let links = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|path| path.starts_with(directory)).collect()
}

/// The file system below can be unmounted as soon as whoever waits for the record returns, also
/// while the daemon goes on for another mount.
#[test]
fn all_below_is_closed_before_the_record_goes() {
    let mut other = PathBuf::new();
    let mounted = Mounted::over(
        |below| {
            other = below.with_file_name("other");
            fs::create_dir(&other).expect("made");
            fs::create_dir(below.with_file_name("run")).expect("made");
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(below.with_file_name("run"), mode).expect("set");
        },
        |config| {
            let folder = config.mounts[0].directory.parent().expect("it is in one").to_owned();
            config.mounts.push(MountConfig::new(folder.join("other")));
            config.runtime = Some(folder.join("run"));
        },
    );
    let Some(mounted) = mounted else { return };
    let names = |extension: &str| {
        let all = fs::read_dir(mounted.below("").with_file_name("run")).expect("listed").flatten();
        all.filter(|entry| entry.path().extension() == Some(OsStr::new(extension))).count()
    };
    assert_eq!(names("json"), 2, "a record for each");
    let below = mounted.below("").components().collect::<PathBuf>();
    assert!(!open_below(&below).is_empty(), "the directory itself");
    // Kept open for their write-back.
    for number in 0..100 {
        fs::write(mounted.at(&number.to_string()), vec![7; 100_000]).expect("written");
    }
    rustix::mount::unmount(mounted.at(""), rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    wait_for("its record is gone", || names("json") == 1);
    assert_eq!(open_below(&below), Vec::<PathBuf>::new());
    let devices = mounted.daemon().devices();
    let left: Vec<&str> = devices.iter().map(|device| &*device.info().name).collect();
    assert_eq!(left, ["other"]);
    fs::write(other.join("new"), "served").expect("written");
    assert!(!open_below(&other).is_empty(), "the other one is served");
}
