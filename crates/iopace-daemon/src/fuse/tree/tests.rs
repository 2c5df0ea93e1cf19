//! The tree, mounted for real on temporary directories, beside plain ones.

mod borders;
mod callers;
mod copies;
mod descriptors;
mod listing;
mod locks;
mod matrix;
mod open_files;
mod pending_space;
mod random;
mod smoke;
mod twins;
mod two_types;
mod waiting;

use super::super::caller::{Caller, Operation};
use super::super::pending_replies::{Kept, Room};
use super::data::{Data, Kind, LateWrite, Opened, WriteMode};
use super::inode::Inode;
use super::{Options, Served, Tree};
use crate::buffer::Buffer;
use crate::memory::Memory;
use iopace_core::request::{GroupId, TaskId};
use iopace_fuse::{BackgroundSession, Config, MountOption, ReplyData, ReplyEmpty, Session};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tempfile::TempDir;

/// Writes as much of `data` as the system takes at once, in the way that the kernel wants.
fn write_at(file: &Opened, data: &[u8], offset: u64, mode: WriteMode) -> io::Result<usize> {
    let mut flags = ReadWriteFlags::empty();
    flags.set(ReadWriteFlags::APPEND, mode.append);
    flags.set(ReadWriteFlags::SYNC, mode.durable && !file.durable);
    Ok(rustix::io::pwritev2(&file.file, &[IoSlice::new(data)], offset, flags)?)
}

/// Reads and writes at once, in the thread that is asked.
#[derive(Default)]
struct Plain {
    reshaped: Mutex<Vec<(u64, u64, u64)>>,
    forgotten: Mutex<Vec<u64>>,
    durable: AtomicUsize,
    passed: AtomicUsize,
    /// Everybody has a limit; what was held since.
    limits: AtomicBool,
    pending: Mutex<Vec<Kind>>,
    /// Memory for writes that wait, and whether there was room for each that was carried out.
    memory: OnceLock<Arc<Memory>>,
    had_room: Mutex<Vec<bool>>,
}

impl Plain {
    fn read_all(file: &Opened, offset: u64, len: usize) -> io::Result<Buffer> {
        let mut buffer = Buffer::new(len);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let more = file.file.std().read_at(&mut buffer.as_mut_slice()[done..], at)?;
            done += more;
            if more == 0 || file.file.is_direct() {
                break;
            }
        }
        buffer.resize(done);
        Ok(buffer)
    }

    fn write_all(file: &Opened, offset: u64, data: &[u8], mode: WriteMode) -> io::Result<usize> {
        let mut aligned = Buffer::new(data.len());
        aligned.as_mut_slice().copy_from_slice(data);
        let mut done = 0;
        while done < data.len() {
            let rest = &aligned.as_slice()[done..];
            done += match write_at(file, rest, offset + done as u64, mode) {
                Ok(0) => break,
                Ok(more) => more,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
        }
        Ok(done)
    }
}

impl Data for Plain {
    fn read(
        &self,
        _from: Caller,
        file: &Arc<Opened>,
        (offset, len): (u64, u32),
        _kept: Kept,
        reply: ReplyData,
    ) {
        match Plain::read_all(file, offset, len as usize) {
            Ok(data) => reply.data(data.as_slice()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _from: Caller,
        file: &Arc<Opened>,
        offset: u64,
        (data, room): (&[u8], Option<Room>),
        mode: WriteMode,
        late: &LateWrite<'_>,
    ) {
        let Some(reply) = late.take() else { return };
        if let Some(memory) = self.memory.get() {
            let room = room.or_else(|| Room::take(memory, data.len() as u64));
            self.had_room.lock().unwrap().push(room.is_some());
        }
        self.durable.fetch_add(mode.durable.into(), Ordering::Relaxed);
        match Plain::write_all(file, offset, data, mode) {
            Ok(done) => reply.written(done as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn room(&self, _file: &Opened, _mode: WriteMode, len: usize) -> (usize, Option<Room>) {
        (len, self.memory.get().and_then(|memory| Room::take(memory, len as u64)))
    }

    fn sync(&self, _from: Caller, file: &Arc<Opened>, data_only: bool, reply: ReplyEmpty) {
        let done = if data_only { file.file.std().sync_data() } else { file.file.std().sync_all() };
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn copy(
        &self,
        _from: Caller,
        (source, mut at): (&Arc<Opened>, u64),
        (to, mut to_at): (&Arc<Opened>, u64),
        len: u64,
        late: &LateWrite<'_>,
    ) {
        let Some(reply) = late.take() else { return };
        let len = len.min(1 << 30) as usize;
        let files = (&source.file, &to.file);
        match rustix::fs::copy_file_range(files.0, Some(&mut at), files.1, Some(&mut to_at), len) {
            Ok(done) => reply.written(done as u32),
            Err(error) => reply.error(io::Error::from(error).into()),
        }
    }

    fn passed_through(&self, _from: Caller) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    fn limited(&self, _from: Caller) -> Option<(TaskId, GroupId)> {
        self.limits.load(Ordering::Relaxed).then_some((TaskId(0), GroupId::ROOT))
    }

    fn hold(&self, _from: Caller, _pays: (TaskId, GroupId), kind: Kind, operation: Operation) {
        self.pending.lock().unwrap().push(kind);
        std::thread::spawn(move || operation.end(Ok(())));
    }

    fn reshaped(&self, inode: &Inode, range: (u64, u64)) {
        self.reshaped.lock().unwrap().push((inode.number, range.0, range.1));
    }

    fn forgotten(&self, inode: &Inode) {
        self.forgotten.lock().unwrap().push(inode.number);
    }
}

/// A mounted tree; unmounted when it goes, also when the test has failed.
struct Mounted {
    data: Arc<Plain>,
    tree: Arc<Tree>,
    session: Option<BackgroundSession>,
    /// The directory below.
    below: PathBuf,
    /// The same, opened before something was mounted.
    hidden: File,
    /// Where it is mounted.
    mount: PathBuf,
    /// A directory of the same file system that is not mounted.
    plain: PathBuf,
    folder: TempDir,
}

/// Whether this machine lets us mount and act for others; says so if not.
fn can_mount() -> bool {
    let able = rustix::process::geteuid().is_root()
        && File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !able {
        eprintln!("skipped: no root or no /dev/fuse");
    }
    able
}

impl Mounted {
    /// Mounts a directory elsewhere; `None` if that is not possible here.
    fn elsewhere() -> Option<Mounted> {
        Mounted::start(Options::shared(), false)
    }

    /// Mounts a directory over itself.
    fn over_itself() -> Option<Mounted> {
        Mounted::start(Options::alone(), true)
    }

    /// Mounts a directory over itself for callers with limits: what may need the disk is held, and
    /// carried out by other threads.
    fn held() -> Option<Mounted> {
        let mounted = Mounted::over_itself();
        if let Some(mounted) = &mounted {
            mounted.data.limits.store(true, Ordering::Relaxed);
        }
        mounted
    }

    /// All three of them.
    fn all() -> impl Iterator<Item = Mounted> {
        [Mounted::elsewhere, Mounted::over_itself, Mounted::held].into_iter().filter_map(|m| m())
    }

    fn start(options: Options, over: bool) -> Option<Mounted> {
        Mounted::start_as(options, over, |_| {})
    }

    /// The same, with the tree changed before.
    fn start_as(options: Options, over: bool, change: fn(&mut Tree)) -> Option<Mounted> {
        if !can_mount() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let [below, mount, plain] = ["below", "mount", "plain"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        });
        let mount = if over { below.clone() } else { mount };
        let data = Arc::new(Plain::default());
        let hidden = File::open(&below).unwrap();
        let directory = File::open(&below).unwrap().into();
        let mut tree =
            Tree::new(directory, (Arc::clone(&data) as _, Arc::default()), options).unwrap();
        change(&mut tree);
        let tree = Arc::new(tree);
        let session = mount_tree(&tree, &mount);
        tree.trim_with(session.notifier(), session.control()).unwrap();
        Some(Mounted { data, tree, session: Some(session), below, hidden, mount, plain, folder })
    }
}

fn mount_tree(tree: &Arc<Tree>, mount: &Path) -> BackgroundSession {
    mount_any(Served(Arc::clone(tree)), mount)
}

fn mount_any(filesystem: impl iopace_fuse::Filesystem, mount: &Path) -> BackgroundSession {
    let mount_options = vec![
        MountOption::FSName("iopace".into()),
        MountOption::Subtype("test".into()),
        MountOption::DefaultPermissions,
        MountOption::Dev,
        MountOption::Suid,
    ];
    let config = Config { mount_options, allow_other: true, ..Config::default() };
    Session::new(filesystem, mount, &config).unwrap().spawn().unwrap()
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            unmount(session, &self.mount);
        }
    }
}

/// Unmounts it, whoever looks at it at that moment: others list the mounts of all.
fn unmount(session: BackgroundSession, mount: &Path) {
    let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
    let _ = session.join();
}

/// Waits until something is so: what the kernel does by itself is done within a second or two, on a
/// busy machine some more.
fn until(what: &str, so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if so() {
            return;
        }
        // SLEEP: the pause between two looks at the condition.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("not so after a minute: {what}");
}
