//! The first things that anybody does.

use super::super::data::Kind;
use super::Mounted;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

#[test]
fn of_callers_with_limits_what_may_need_the_disk_is_held() {
    let Some(mounted) = Mounted::held() else { return };
    let at = |name: &str| mounted.mount.join(name);
    let held = || std::mem::take(&mut *mounted.data.pending.lock().unwrap());
    let kind = |changes, locks| Kind { changes, locks };
    let (look, change) = (kind(false, false), kind(true, false));
    let (look_at_names, change_names) = (kind(false, true), kind(true, true));
    held();
    fs::create_dir(at("d")).unwrap();
    assert_eq!(held(), [look_at_names, change_names]);
    fs::write(at("f"), b"1").unwrap();
    assert_eq!(held(), [look_at_names, change_names]);
    let opened = fs::File::options().append(true).open(at("f")).unwrap();
    assert_eq!(held(), [look], "its name is known");
    opened.set_len(0).unwrap();
    assert_eq!(held(), [change]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(at("d"), open).unwrap();
    assert_eq!(held(), [change_names], "the kernel locks the directory");
    assert!(fs::read_dir(at("d")).unwrap().next().is_none());
    assert!(held().iter().all(|kind| *kind == look_at_names));
    (&opened).write_all(b"more").unwrap();
    opened.sync_all().unwrap();
    assert_eq!(opened.metadata().unwrap().len(), 4);
    fs::read_link(at("f")).unwrap_err();
    drop(opened);
    assert_eq!(held(), [], "attributes that are in memory, and data, which has its own way");
    fs::rename(at("f"), at("d/g")).unwrap();
    assert_eq!(held().last(), Some(&change_names));
    fs::remove_file(at("d/g")).unwrap();
    assert_eq!(held(), [change_names]);
    fs::remove_dir(at("d")).unwrap();
    assert_eq!(held(), [change_names]);
}

#[test]
fn files_are_made_read_written_renamed_and_removed() {
    for mounted in Mounted::all() {
        let at = |name: &str| mounted.mount.join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/a"), b"hello").unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(at("d/a")).unwrap();
        file.write_all(b" world").unwrap();
        assert_eq!(fs::read(at("d/a")).unwrap(), b"hello world");
        fs::rename(at("d/a"), at("b")).unwrap();
        fs::hard_link(at("b"), at("c")).unwrap();
        let (b, c) = (fs::metadata(at("b")).unwrap(), fs::metadata(at("c")).unwrap());
        assert_eq!((b.ino(), b.nlink(), b.len()), (c.ino(), 2, 11));
        std::os::unix::fs::symlink("b", at("s")).unwrap();
        assert_eq!(fs::read_to_string(at("s")).unwrap(), "hello world");
        let mut names: Vec<_> = fs::read_dir(&mounted.mount)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["b", "c", "d", "s"]);
        let mut open = fs::File::open(at("b")).unwrap();
        for name in ["b", "c", "s"] {
            fs::remove_file(at(name)).unwrap();
        }
        fs::remove_dir(at("d")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello world");
        assert_eq!(fs::read_dir(&mounted.mount).unwrap().count(), 0);
        assert!(fs::metadata(at("b")).is_err());
    }
}
