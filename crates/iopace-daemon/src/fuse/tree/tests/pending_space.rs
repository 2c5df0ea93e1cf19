//! A full file system has room again as soon as a file is removed.

use super::Mounted;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

const FULL: u64 = 1 << 20;

/// A directory below a mount, on a file system of its own with this much room; unmounted when it
/// goes.
struct Small(std::path::PathBuf);

impl Small {
    fn new(mounted: &Mounted, options: &str) -> Small {
        let path = mounted.below.join("small");
        fs::create_dir(&path).unwrap();
        let (flags, options) = (rustix::mount::MountFlags::empty(), options.to_owned());
        let options = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount("none", &path, "tmpfs", flags, options.as_c_str()).unwrap();
        Small(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

fn fill(path: &Path) -> File {
    let mut file = File::create(path).unwrap();
    let error = file.write_all(&vec![1; 2 * FULL as usize]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.metadata().unwrap().len(), FULL);
    file
}

/// Each time it is as if the kernel's word that the file is forgotten came late: somebody else
/// keeps what is known of it.
#[test]
fn who_needs_the_space_of_a_file_that_was_removed_gets_it() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let small = Small::new(&mounted, &format!("size={FULL}"));
    let at = mounted.mount.join("small");
    let remove = |name: &str| fs::remove_file(at.join(name)).unwrap();
    let again = |needs: &dyn Fn() -> io::Result<()>, frees: &dyn Fn()| {
        drop(fill(&at.join("a")));
        let inode = mounted.tree.inodes.get(fs::metadata(at.join("a")).unwrap().ino()).unwrap();
        frees();
        let late = thread::spawn(move || {
            // SLEEP: the last name is let go late on purpose; any time will do.
            thread::sleep(Duration::from_millis(100));
            drop(inode);
        });
        needs().unwrap();
        late.join().unwrap();
        for entry in fs::read_dir(&small.0).unwrap() {
            fs::remove_file(at.join(entry.unwrap().file_name())).unwrap();
        }
    };
    let allocate = || {
        let (file, flags) = (File::create(at.join("b"))?, FallocateFlags::empty());
        Ok(rustix::fs::fallocate(file, flags, 0, FULL / 2)?)
    };
    again(&allocate, &|| remove("a"));
    let replace = || {
        File::create(at.join("c")).unwrap();
        fs::rename(at.join("c"), at.join("a")).unwrap();
    };
    again(&allocate, &replace);
}

#[test]
fn who_needs_the_number_of_a_directory_that_was_removed_gets_it() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    // The root of it is one.
    let _small = Small::new(&mounted, "nr_inodes=3");
    let at = mounted.mount.join("small");
    for name in ["a", "b"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    let full = fs::create_dir(at.join("c")).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let inode = mounted.tree.inodes.get(fs::metadata(at.join("a")).unwrap().ino()).unwrap();
    fs::remove_dir(at.join("a")).unwrap();
    let late = thread::spawn(move || {
        // SLEEP: the last name is let go late on purpose; any time will do.
        thread::sleep(Duration::from_millis(100));
        drop(inode);
    });
    fs::create_dir(at.join("c")).unwrap();
    late.join().unwrap();
    fs::remove_dir(at.join("c")).unwrap();
    File::create(at.join("c")).unwrap();
}

#[test]
fn a_file_that_is_still_open_or_has_another_name_keeps_its_space() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let _small = Small::new(&mounted, &format!("size={FULL}"));
    let at = mounted.mount.join("small");
    let full = |name: &str| {
        let (file, flags) = (File::create(at.join(name)).unwrap(), FallocateFlags::empty());
        assert_eq!(rustix::fs::fallocate(&file, flags, 0, 4096), Err(Errno::NOSPC));
    };
    let open = fill(&at.join("a"));
    fs::hard_link(at.join("a"), at.join("other")).unwrap();
    fs::remove_file(at.join("a")).unwrap();
    full("b");
    fs::remove_file(at.join("other")).unwrap();
    full("b");
    // It itself is not waited for either.
    let flags = FallocateFlags::empty();
    assert_eq!(rustix::fs::fallocate(&open, flags, FULL, 4096), Err(Errno::NOSPC));
}
