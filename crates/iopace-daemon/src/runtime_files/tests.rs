use super::*;
use crate::attached;
use crate::fuse::record;
use rustix::fs::{FileType, mknodat};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// Somebody who is neither root nor us.
const STRANGER: u32 = 4_242;

fn fifo(path: &Path) {
    mknodat(rustix::fs::CWD, path, FileType::Fifo, MODE, 0).expect("a FIFO");
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

/// Text that is a record of both kinds.
fn forged() -> &'static str {
    r#"{"loop_device": "/dev/loop0", "image": "/x", "mountpoint": "/etc", "source": null,
        "directory": "/etc", "device": "disk", "size_bytes": 1, "read_only": false, "pid": 1,
        "control": null, "log": null}"#
}

fn names(at: &Path) -> (usize, usize) {
    let attached = attached::all(at).len();
    (attached, record::found_count(at))
}

#[test]
fn records_are_plain_files_of_bounded_size_that_nobody_else_can_change() {
    let place = tempfile::tempdir().expect("a directory");
    let at = place.path();
    for name in ["attach-loop0-1.json", "mount-9.json"] {
        fs::write(at.join(name), forged()).expect("written");
    }
    assert_eq!(names(at), (1, 1), "they would be believed");
    for name in ["attach-loop0-1.json", "mount-9.json"] {
        set(&at.join(name), 0o666);
    }
    assert_eq!(names(at), (0, 0), "others can write to them");
    for name in ["attach-loop0-1.json", "mount-9.json"] {
        fs::rename(at.join(name), at.join(format!("{name}.other"))).expect("renamed");
        set(&at.join(format!("{name}.other")), 0o600);
        symlink(format!("{name}.other"), at.join(name)).expect("a link");
    }
    assert_eq!(names(at), (0, 0), "links are not followed");
    for name in ["attach-loop0-1.json", "mount-9.json"] {
        fs::remove_file(at.join(name)).expect("removed");
        // Opened to be read as usual, it would wait for a writer.
        fifo(&at.join(name));
    }
    assert_eq!(names(at), (0, 0), "a FIFO is none");
    for name in ["attach-loop0-1.json", "mount-9.json"] {
        fs::remove_file(at.join(name)).expect("removed");
        let long = format!("{}{}", forged(), " ".repeat(RECORD_BYTES_MAX as usize));
        fs::write(at.join(name), long).expect("written");
    }
    assert_eq!(names(at), (0, 0), "longer than any record");
}

#[test]
fn a_directory_that_others_can_write_to_or_replace_is_not_used() {
    let place = tempfile::tempdir().expect("a directory");
    let parent = place.path().join("parent");
    let at = parent.join("iopace");
    fs::create_dir_all(&at).expect("made");
    fs::write(at.join("mount-9.json"), forged()).expect("written");
    set(&at, 0o755);
    assert_eq!(names(&at).1, 1);
    set(&at, 0o1777);
    assert!(matches!(RuntimeDir::open(&at), Err(Distrust::Writable(_))), "even if it is sticky");
    set(&at, 0o700);
    // As /tmp: what is ours in there stays.
    set(&parent, 0o1777);
    assert_eq!(names(&at).1, 1);
    set(&parent, 0o777);
    assert_eq!(names(&at).1, 0, "it could be replaced");
    assert!(RuntimeDir::make(&parent.join("new")).is_err());
    set(&parent, 0o755);
    // A link of our own is as good as the path.
    let link = place.path().join("link");
    symlink("parent", &link).expect("a link");
    assert_eq!(names(&link.join("iopace")).1, 1);
    let round = place.path().join("round");
    symlink("round", &round).expect("a link");
    assert!(RuntimeDir::open(&round).is_err());
}

#[test]
fn what_a_stranger_owns_is_ignored_by_root() {
    if !geteuid().is_root() {
        return eprintln!("skipped: only root can give files away");
    }
    let place = tempfile::tempdir().expect("a directory");
    let at = place.path().join("iopace");
    fs::create_dir(&at).expect("made");
    fs::write(at.join("mount-9.json"), forged()).expect("written");
    fs::write(at.join("attach-loop0-1.json"), forged()).expect("written");
    let give = |path: &Path, uid: u32| chown(path, Some(uid), None).expect("given away");
    give(&at.join("mount-9.json"), STRANGER);
    give(&at.join("attach-loop0-1.json"), STRANGER);
    assert_eq!(names(&at), (0, 0), "his files");
    give(&at.join("mount-9.json"), 0);
    give(&at, STRANGER);
    assert_eq!(names(&at), (0, 0), "his directory");
    assert!(matches!(RuntimeDir::make(&at), Err(Distrust::Foreign(_, STRANGER))));
    give(&at, 0);
    give(place.path(), STRANGER);
    assert_eq!(names(&at), (0, 0), "in his directory");
    give(place.path(), 0);
    let link = place.path().join("link");
    symlink(&at, &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).expect("given away");
    assert!(matches!(RuntimeDir::open(&link), Err(Distrust::Foreign(_, STRANGER))), "his link");
    give(&at.join("mount-9.json"), 0);
    assert_eq!(names(&at).1, 1);
}

#[test]
fn a_log_is_no_way_to_cut_another_file() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    drop(open_log(&at("log")).expect("made"));
    assert_eq!(fs::metadata(at("log")).expect("there").permissions().mode() & 0o777, 0o600);
    symlink(at("log"), at("link")).expect("a link");
    assert!(open_log(&at("link")).is_err());
    fs::hard_link(at("log"), at("other")).expect("a second name");
    assert!(open_log(&at("log")).is_err());
    fifo(&at("fifo"));
    assert!(open_log(&at("fifo")).is_err());
}

#[test]
fn a_configuration_is_a_file_or_a_pipe_without_a_name() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    fs::write(at("config"), "a = 1\n").expect("written");
    assert_eq!(read_config(&at("config")).expect("read"), "a = 1\n");
    fifo(&at("fifo"));
    assert!(read_config(&at("fifo")).is_err());
    assert!(read_config(place.path()).is_err());
    let missing = read_config(&at("missing")).expect_err("nothing there");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let writing = std::thread::spawn(move || io::Write::write_all(&mut writer, b"b = 2\n"));
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    assert_eq!(read_config(Path::new(&path)).expect("read"), "b = 2\n");
    writing.join().expect("no panic").expect("written");
    if geteuid().is_root() {
        set(&at("config"), 0o646);
        assert!(read_config(&at("config")).is_err(), "everybody can change it");
    }
}
