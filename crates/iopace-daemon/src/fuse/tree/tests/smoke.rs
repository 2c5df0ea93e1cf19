//! The first things that anybody does.

use super::Mounted;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

#[test]
fn files_are_made_read_written_renamed_and_removed() {
    for mounted in [Mounted::elsewhere(), Mounted::over_itself()].into_iter().flatten() {
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
