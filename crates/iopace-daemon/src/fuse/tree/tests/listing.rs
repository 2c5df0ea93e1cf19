//! Large directories, listed while they change.

use super::Mounted;
use rustix::fs::{Dir, OFlags, SeekFrom};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Names in the directory.
const FILES: usize = 10_000;

fn directory(path: &Path) -> File {
    File::options()
        .read(true)
        .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
        .open(path)
        .unwrap()
}

fn names(dir: &mut Dir) -> impl Iterator<Item = String> + '_ {
    std::iter::from_fn(|| dir.read())
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .filter(|name| !name.starts_with('.'))
}

#[test]
fn a_large_directory_is_listed_whole_while_it_changes() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    // Names of one file, as those are made and removed in a fraction of the time.
    let file = mounted.plain.join("file");
    File::create(&file).unwrap();
    for at in 0..FILES {
        fs::hard_link(&file, mounted.below.join(format!("keep{at}"))).unwrap();
    }
    let mut dir = Dir::read_from(directory(&mounted.mount)).unwrap();
    let mut listed = Vec::new();
    for (at, name) in names(&mut dir).enumerate() {
        if at % 50 == 0 {
            File::create(mounted.mount.join(format!("new{at}"))).unwrap();
            let old = mounted.mount.join(format!("new{}", at.saturating_sub(500)));
            let _ = fs::remove_file(old);
        }
        listed.push(name);
    }
    let unique: BTreeSet<_> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a name came twice");
    assert_eq!(listed.iter().filter(|name| name.starts_with("keep")).count(), FILES);
    dir.rewind();
    let again = names(&mut dir).filter(|name| name.starts_with("new")).count();
    let there = fs::read_dir(&mounted.below).unwrap().count() - FILES;
    assert_eq!(again, there, "rewinding shows what is there now");
}

#[test]
fn what_the_kernel_keeps_of_a_listing_goes_with_the_next_change() {
    let Some(mounted) = Mounted::over_itself() else { return };
    let at = |number: usize| mounted.mount.join(format!("name{number}"));
    for number in 0..500 {
        File::create(at(number)).unwrap();
    }
    let mut dir = Dir::read_from(directory(&mounted.mount)).unwrap();
    let mut listed = |count: usize, gone: usize, there: usize| {
        dir.rewind();
        let open: BTreeSet<_> = names(&mut dir).collect();
        let again = fs::read_dir(&mounted.mount).unwrap();
        let again: BTreeSet<_> =
            again.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(open, again);
        assert_eq!(again.len(), count);
        assert!(!again.contains(&format!("name{gone}")));
        assert!(again.contains(&format!("name{there}")));
    };
    listed(500, 500, 0);
    listed(500, 500, 0);
    File::create(at(500)).unwrap();
    listed(501, 501, 500);
    fs::remove_file(at(7)).unwrap();
    listed(500, 7, 500);
    fs::rename(at(8), at(900)).unwrap();
    listed(500, 8, 900);
    fs::create_dir(at(901)).unwrap();
    listed(501, 8, 901);
}

#[test]
fn a_place_in_a_directory_is_found_again() {
    let Some(mounted) = Mounted::over_itself() else { return };
    for at in 0..2_000 {
        File::create(mounted.mount.join(format!("{at}"))).unwrap();
    }
    let file = directory(&mounted.mount);
    let mut buffer = Vec::with_capacity(4096);
    let mut places = Vec::new();
    let mut entries = rustix::fs::RawDir::new(&file, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        places.push((entry.next_entry_cookie(), entry.file_name().to_owned()));
    }
    assert_eq!(places.len(), 2_002);
    for at in (0..2_000).rev().step_by(97) {
        rustix::fs::seek(&file, SeekFrom::Start(places[at].0)).unwrap();
        let mut buffer = Vec::with_capacity(4096);
        let mut entries = rustix::fs::RawDir::new(&file, buffer.spare_capacity_mut());
        assert_eq!(entries.next().unwrap().unwrap().file_name(), &*places[at + 1].1, "{at}");
    }
}

#[test]
fn entries_have_the_numbers_and_types_that_stat_shows() {
    use std::os::unix::fs::{DirEntryExt, MetadataExt};
    let Some(mounted) = Mounted::elsewhere() else { return };
    fs::create_dir(mounted.mount.join("d")).unwrap();
    fs::write(mounted.mount.join("f"), "").unwrap();
    std::os::unix::fs::symlink("f", mounted.mount.join("s")).unwrap();
    for entry in fs::read_dir(&mounted.mount).unwrap() {
        let entry = entry.unwrap();
        let stat = fs::symlink_metadata(entry.path()).unwrap();
        assert_eq!(entry.ino(), stat.ino());
        assert_eq!(entry.file_type().unwrap(), stat.file_type());
        let below = fs::symlink_metadata(mounted.below.join(entry.file_name())).unwrap();
        assert_eq!(below.ino(), stat.ino());
    }
    assert_eq!(fs::metadata(&mounted.mount).unwrap().ino(), {
        fs::metadata(&mounted.below).unwrap().ino()
    });
}

#[test]
fn what_was_listed_is_forgotten_when_it_goes() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    for at in 0..300 {
        fs::write(mounted.mount.join(format!("{at}")), "x").unwrap();
    }
    let long = std::process::Command::new("ls").arg("-lR").arg(&mounted.mount).output().unwrap();
    assert!(long.status.success());
    assert_eq!(mounted.tree.inodes_known(), 300);
    for at in 0..300 {
        fs::remove_file(mounted.mount.join(format!("{at}"))).unwrap();
    }
    super::until("all are forgotten", || mounted.tree.inodes_known() == 0);
    super::until("all are told", || mounted.data.forgotten.lock().unwrap().len() == 300);
    super::until("nothing is open", || mounted.tree.files_open() == 0);
}
