//! A file of a tree as the place where a request is carried out: many files behind one engine.
//!
//! What the engine sees as the extent of a request is where the file lies on the disk, or a place
//! of our own making; what is read and written is the file at its own offset.

use super::file::File;
use super::past_cache::PastCache;
use super::pending_space::Patience;
use crate::buffer::Buffer;
use iopace_core::request::{Area, Extent, Op};
use iopace_core::units::Bytes;
use rustix::io::{Errno, ReadWriteFlags};
use std::any::Any;
use std::io;
use std::sync::Arc;

/// Where a request is carried out when that is not the device's own file.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file.
    pub(crate) file: Arc<File>,
    /// The offset in it of the first byte of the request.
    pub(crate) offset: u64,
    /// Of a write: to the end of the file, wherever that is by then (`RWF_APPEND`).
    pub(crate) append: bool,
    /// Of a durable write: the attributes are durable as well (`RWF_SYNC`, not `RWF_DSYNC`).
    pub(crate) full_sync: bool,
    /// Of a flush: attributes that need not be durable for the data to be read are left out.
    pub(crate) data_only: bool,
    /// Nothing of it need be written back any more: the file is gone.
    is_gone: bool,
    /// The file to copy from and the offset there, of a write without data of its own.
    pub(crate) source: Option<(Arc<File>, u64)>,
    /// Of a write: its data is in the page cache already; what is left is to wait and to count.
    pub(crate) is_written: bool,
    /// Of a read: the same file, to be read past the page cache if nothing of it is there.
    pub(crate) past_cache: Option<Arc<PastCache>>,
    /// Of a durable request: the file is lent for it (`durable.rs`), after so many failures.
    pub(crate) lent: Option<u64>,
    /// Where the file is dirty; it stays known as long as a request is on its way there.
    pub(crate) space: Option<Arc<dyn Any + Send + Sync>>,
}

impl Target {
    /// A file from an offset on.
    pub(crate) fn new(file: Arc<File>, offset: u64) -> Target {
        Target {
            file,
            offset,
            append: false,
            full_sync: false,
            data_only: false,
            is_gone: false,
            source: None,
            is_written: false,
            past_cache: None,
            lent: None,
            space: None,
        }
    }

    /// What stands for a file that is gone.
    pub(crate) fn gone(any: Arc<File>) -> Target {
        Target { is_gone: true, ..Target::new(any, 0) }
    }

    /// A read of so many bytes is carried out now: it passes the cache only if still nothing of it
    /// is there.
    pub(crate) fn choose(&mut self, len: usize) {
        self.past_cache.take_if(|_| !self.file.is_uncached(self.offset, len as u64));
    }

    /// The file that a read goes to first.
    pub(crate) fn first(&self) -> &File {
        self.past_cache.as_ref().map_or(&self.file, |past| past.file())
    }

    /// Whether the file bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// Carries out a request of so many bytes, blocking. A read ends at the end of the file: then
    /// its buffer has become shorter.
    ///
    /// # Errors
    /// What the system said, with what was written before.
    pub(crate) fn perform(
        &self,
        op: Op,
        len: u64,
        fua: bool,
        buffer: &mut Buffer,
    ) -> Result<(), (u64, io::Error)> {
        match op {
            Op::Read => self.read_from(0, buffer).map_err(|error| (0, error)),
            Op::Write => self.write_from(0, len, fua, buffer.as_slice()),
            Op::Flush => {
                let flushed =
                    if self.data_only { self.file.flush() } else { self.file.flush_all() };
                flushed.map_err(|error| (0, error))
            }
            Op::Trim | Op::WriteZeroes | Op::Cache => {
                let done = self.file.perform(op, self.extent(len), fua, &mut []);
                done.map_err(|error| (0, error))
            }
        }
    }

    fn extent(&self, len: u64) -> Extent {
        let len = len.min(i64::MAX as u64 - self.offset);
        Extent::new(Bytes(self.offset), Bytes(len)).expect("within a file")
    }

    /// Has the kernel write what is dirty in so many bytes, and waits until the disk has it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn write_back(&self, len: u64) -> io::Result<()> {
        if self.is_gone { Ok(()) } else { self.file.write_back(self.extent(len)) }
    }

    /// Reads into the buffer from its byte `at` on, up to its end or that of the file: past the
    /// page cache where that is wanted, and what remains through it.
    ///
    /// Fewer bytes mean the end of the file to the kernel's page cache, which would show zeroes
    /// behind them. So what was read before an error counts only where the cache is bypassed.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn read_from(&self, mut at: usize, buffer: &mut Buffer) -> io::Result<()> {
        if let Some(past) = &self.past_cache {
            let read = rustix::io::pread(past.file().fd(), buffer.as_mut_slice(), self.offset);
            if let Some(settled) = past.settled(read.map_err(io::Error::from), buffer.len()) {
                buffer.resize(settled?);
                return Ok(());
            }
        }
        while at < buffer.len() {
            let into = &mut buffer.as_mut_slice()[at..];
            match rustix::io::pread(self.file.fd(), into, self.offset + at as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(Errno::INTR) => {}
                Err(_) if at > 0 && self.is_direct() => break,
                Err(error) => return Err(error.into()),
            }
        }
        buffer.resize(at);
        Ok(())
    }

    /// Writes `data`, or `len` bytes of the source where there is one, to the place of the
    /// request's byte `at`.
    pub(crate) fn write_from(
        &self,
        at: u64,
        len: u64,
        durable: bool,
        data: &[u8],
    ) -> Result<(), (u64, io::Error)> {
        match &self.source {
            _ if self.is_written && !durable => Ok(()),
            _ if self.is_written => self.file.flush_all().map_err(|error| (0, error)),
            Some(source) => self.copy_from(source, at, len),
            None => self.file.write_some(data, self.offset + at, self.write_flags(durable)),
        }
    }

    /// Writes what is left of a write of which `at` bytes are done, in a thread that others wait
    /// for.
    pub(crate) fn write_rest(
        &self,
        at: u64,
        durable: bool,
        data: &[u8],
    ) -> Result<(), (u64, io::Error)> {
        match (&self.source, self.is_written) {
            (None, false) => self.file.write_now(data, self.offset + at, self.write_flags(durable)),
            _ => self.write_from(at, data.len() as u64, durable, data),
        }
    }

    /// In what manner a write is carried out.
    pub(crate) fn write_flags(&self, durable: bool) -> ReadWriteFlags {
        let mut flags = ReadWriteFlags::empty();
        flags.set(ReadWriteFlags::DSYNC, durable);
        flags.set(ReadWriteFlags::SYNC, durable && self.full_sync);
        flags.set(ReadWriteFlags::APPEND, self.append);
        flags
    }

    fn copy_from(
        &self,
        (source, start): &(Arc<File>, u64),
        at: u64,
        len: u64,
    ) -> Result<(), (u64, io::Error)> {
        let (mut done, mut from, mut to) = (0, start + at, self.offset + at);
        let mut patience = Patience::of(self.file.hold());
        while done < len {
            let left = usize::try_from(len - done).unwrap_or(usize::MAX);
            let (from, to) = (Some(&mut from), Some(&mut to));
            match rustix::fs::copy_file_range(source.fd(), from, self.file.fd(), to, left) {
                // The source has become shorter.
                Ok(0) => return Err((done, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => done += count as u64,
                Err(Errno::INTR) => {}
                Err(error) if patience.allows(Some(error)) => {}
                Err(error) => return Err((done, error.into())),
            }
        }
        Ok(())
    }
}

/// Where dirty memory of a device lies: the file of an area that is to be written back.
pub(crate) trait Places: Send + Sync + std::fmt::Debug {
    /// The file of the space, from where the area begins.
    fn target(&self, area: Area) -> Target;
}

#[cfg(test)]
mod tests {
    use super::super::past_cache::tests::instead;
    use super::*;
    use crate::config::IoEngineChoice;
    use crate::io::{Completions, Disk, IoDone, IoRequest};
    use iopace_core::group::Class;
    use iopace_core::request::RequestId;
    use rustix::fs::{Advice, fadvise};
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::sync::{Mutex, mpsc};

    const SIZE: usize = 20_000;

    fn content(first: u8) -> Vec<u8> {
        (0..SIZE).map(|at| first.wrapping_add((at / 5) as u8)).collect()
    }

    fn file(content: &[u8]) -> fs::File {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(content, 0).expect("written");
        file.sync_all().expect("durable");
        file
    }

    /// A file that is in the cache or is not, as far as that can be had, to be read past it by way
    /// of another one, which shows where the data is from.
    fn target(is_cached: bool, past: fs::File) -> Target {
        let file = file(&content(0));
        if !is_cached {
            fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
        }
        let mut target = Target::new(Arc::new(File::of_tree(file, false)), 4096);
        target.past_cache = Some(instead(past));
        target
    }

    struct Done(Mutex<mpsc::Sender<IoDone>>);

    impl Completions for Done {
        fn completed(&self, done: &mut Vec<IoDone>) {
            for one in done.drain(..) {
                self.0.lock().expect("sound").send(one).expect("awaited");
            }
        }
    }

    /// What is read of it with either engine.
    fn read(target: &dyn Fn() -> Target) -> [io::Result<Vec<u8>>; 2] {
        [IoEngineChoice::Threads, IoEngineChoice::Auto].map(|choice| {
            let (sender, done) = mpsc::channel();
            let to: Arc<dyn Completions> = Arc::new(Done(Mutex::new(sender)));
            let target = target();
            let disk = Disk::start(Arc::clone(&target.file), choice, Arc::downgrade(&to));
            let request = IoRequest {
                id: RequestId::forge(1),
                key: 0,
                op: Op::Read,
                extent: Extent::new(Bytes(0), Bytes(65_536)).expect("small"),
                fua: false,
                class: Class::Idle,
                write_back: false,
                target: Some(target),
                buffer: Buffer::new(65_536),
            };
            disk.expect("started").start_all(&mut vec![request]);
            let done = done.recv().expect("it comes back");
            done.result.map(|()| done.request.buffer.as_slice().to_vec())
        })
    }

    fn can_be_uncached() -> bool {
        let target = target(false, file(&[]));
        let can = target.file.is_uncached(4096, 65_536);
        if !can {
            println!("skipped: the system does not say what is cached, or keeps it");
        }
        can
    }

    #[test]
    fn a_read_passes_the_cache_if_nothing_is_there_when_it_is_carried_out() {
        let through = read(&|| target(true, file(&content(100))));
        assert!(through.into_iter().all(|all| all.expect("read") == content(0)[4096..]));
        if can_be_uncached() {
            let past = read(&|| target(false, file(&content(100))));
            assert!(past.into_iter().all(|all| all.expect("read") == content(100)[4096..]));
        }
    }

    #[test]
    fn a_read_that_ends_early_is_done_through_the_cache() {
        // Two blocks behind the offset, and nothing at all.
        for len in [4096 + 1024, 4096] {
            let all = read(&|| target(false, file(&content(100)[..len])));
            assert!(all.into_iter().all(|all| all.expect("read") == content(0)[4096..]));
        }
    }

    #[test]
    fn an_error_of_the_disk_is_told_and_not_asked_for_twice() {
        if !can_be_uncached() {
            return;
        }
        // Nothing is there at 4096, which it says with EIO.
        let failing = || fs::File::open("/proc/self/mem").expect("procfs");
        for result in read(&|| target(false, failing())) {
            let error = result.expect_err("not read through the cache");
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
    }
}
