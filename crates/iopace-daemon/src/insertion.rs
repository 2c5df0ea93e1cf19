//! A daemon in front of a volume that is in use: a device of the device mapper, as LVM makes them,
//! whose file system may be mounted and busy.
//!
//! ```text
//!  before:   file system ─► volume ─► its pieces of disks
//!
//!  inserted: file system ─► volume ─► /dev/ublkbN ─► the daemon ─► the volume below ─► the pieces
//!                           (a table of one line)                  (a copy of the old table)
//! ```
//! The volume stays the device that it is: whoever has it open notices nothing but a moment in
//! which requests wait (`device_mapper.rs`). The *volume below* is a new device with the old
//! table. It is all that is needed to go back.
//!
//! # Properties
//! 1. Each step leaves a state from which the next one, or the way back, goes on: whoever is killed
//!    leaves no request without a place, and no device that stands still.
//! 2. A table that somebody else has changed in the meantime (`lvextend`) is left as it is.
//!
//! # Limits
//! Tables of `linear` and `striped` pieces: other targets have a state of their own, and two
//! devices with the same table would each have one. One that is on a `linear` volume, as encrypted
//! ones often are, can have a daemon below it.

mod error;

pub use error::InsertionError;

use crate::device_mapper::{DeviceMapper, Mapped, Target, Which};
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Targets without a state of their own.
const STATELESS: [&str; 2] = ["linear", "striped"];

/// Begins the identifier of each volume below.
const UUID_PREFIX: &str = "IOPACE-below-";

/// Longest name that a device can have, and longest identifier (`<linux/dm-ioctl.h>`).
const NAME_LEN_MAX: usize = 127;
const UUID_LEN_MAX: usize = 128;

/// A lock, and a device that is about to go, is looked at so often: for five seconds.
const LOCK_TRIES: u32 = 100;
const STEP: Duration = Duration::from_millis(50);

/// So often a table is exchanged that is the old one afterwards.
const SWITCH_TRIES: u32 = 5;

/// A volume with a daemon in front of it, as records have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inserted {
    /// The volume's name, as in `/dev/mapper`.
    pub volume: String,
    /// Its number (`st_rdev`), which it keeps as long as it is there.
    pub number: u64,
    /// The identifier of the volume below.
    pub below: String,
}

/// The device that has a volume's old table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BelowVolume {
    /// By which it is opened.
    pub path: PathBuf,
    /// Whether it refuses writes.
    pub read_only: bool,
}

impl BelowVolume {
    fn of(below: &Mapped) -> BelowVolume {
        BelowVolume { path: node(below.number), read_only: below.read_only }
    }
}

/// Where requests for a volume go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the daemon's device.
    Daemon,
    /// Past it: not inserted, taken out, or changed by somebody else.
    Past,
    /// There is no such volume any more.
    Gone,
    /// The device mapper cannot be asked: nothing is to be changed.
    Unknown,
}

impl Inserted {
    /// The volume of a path, and what the one below is called.
    ///
    /// # Errors
    /// It is no volume, or one of our own making.
    pub fn find(path: &Path) -> Result<Inserted, InsertionError> {
        let shown = || path.display().to_string();
        let found = fs::metadata(path);
        let found = found.map_err(|error| InsertionError::Refused(shown(), "not there", error))?;
        if !found.file_type().is_block_device() {
            return Err(InsertionError::NoVolume(shown()));
        }
        let mapper = open()?;
        // A number of another driver is none of the device mapper's.
        let volume = mapper.find(Which::Number(found.rdev())).ok().flatten();
        let volume = volume.ok_or_else(|| InsertionError::NoVolume(shown()))?;
        if volume.uuid.starts_with(UUID_PREFIX) {
            return Err(InsertionError::Below(shown()));
        }
        let named = if volume.uuid.is_empty() { &volume.name } else { &volume.uuid };
        let below = below_uuid(named, volume.number);
        Ok(Inserted { volume: volume.name, number: volume.number, below })
    }

    /// The path of the volume: by its name, unless nothing is there (no udev) or something else.
    pub fn path(&self) -> PathBuf {
        let named = Path::new("/dev/mapper").join(&self.volume);
        let is_own = fs::metadata(&named).is_ok_and(|found| found.rdev() == self.number);
        if is_own { named } else { node(self.number) }
    }

    /// Whether it is the same volume.
    pub fn is_same(&self, other: &Inserted) -> bool {
        (self.number, &self.below) == (other.number, &other.below)
    }

    /// Takes the lock of the volume, which keeps others from inserting and removing, and udev from
    /// looking, as long as the file is open.
    ///
    /// # Errors
    /// Somebody else has it for longer than a moment.
    pub fn lock(&self) -> Result<File, InsertionError> {
        let file = File::open(node(self.number));
        let file = self.done("not opened", file)?;
        for _ in 0..LOCK_TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {}
                done => return self.done("no lock", done.map_err(Into::into)).map(|()| file),
            }
            // SLEEP: nobody tells when a lock is free and this does not wait in line for it.
            thread::sleep(STEP);
        }
        Err(InsertionError::Changing(self.volume.clone()))
    }

    /// Makes the volume below, or finds it if it is there. The lock is held.
    ///
    /// # Errors
    /// The volume cannot be inserted into, or the device mapper refuses.
    pub fn make_below(&self) -> Result<BelowVolume, InsertionError> {
        let mapper = open()?;
        let volume = self.own(&mapper)?;
        let live = self.table(&mapper, volume.number)?;
        if let Some(below) = self.below_to_stay(&mapper)? {
            let table = self.table(&mapper, below.number)?;
            if !table.is_empty() && (live == table || is_ours(&live)) {
                return Ok(BelowVolume::of(&below));
            }
            // Its maker was killed before it had a table, or the volume was changed since.
            self.done("the old volume below stays", mapper.remove(below.number))?;
        } else if is_ours(&live) {
            return Err(self.lost());
        }
        if volume.is_changing {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        self.check_kind(&live)?;
        let below = self.done("no volume below", mapper.create(&self.below_name(), &self.below))?;
        let below = Mapped { read_only: volume.read_only, ..below };
        let begun = mapper.load(&below, &live).and_then(|()| mapper.switch(below.number, true));
        if begun.is_err() {
            let _ = mapper.remove(below.number);
        }
        self.done("no volume below", begun)?;
        Ok(BelowVolume::of(&below))
    }

    /// Has requests go through the device of that number from now on. Nothing happens if they do.
    /// The lock is held.
    ///
    /// # Errors
    /// The volume was changed meanwhile, or the device mapper refuses: all is as before then.
    pub fn turn_in(&self, device: u64) -> Result<(), InsertionError> {
        let mapper = open()?;
        let volume = self.own(&mapper)?;
        let live = self.table(&mapper, volume.number)?;
        let wanted = [Target::whole(sectors(&live), device)];
        if live == wanted {
            return Ok(());
        }
        let below = self.below(&mapper)?.filter(|below| !below.is_going);
        let below = below.ok_or_else(|| InsertionError::Changing(self.volume.clone()))?;
        if volume.is_changing || live != self.table(&mapper, below.number)? {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        self.go_over(&mapper, &volume, &wanted)
    }

    /// Has requests go past the daemon's device again: what is under way is finished first, however
    /// long that takes. Nothing happens if they do.
    ///
    /// # Errors
    /// The device mapper refuses: all is as before then.
    pub fn turn_back(&self) -> Result<(), InsertionError> {
        let mapper = open()?;
        let Some(volume) = self.volume(&mapper)? else { return Ok(()) };
        let waiting = self.done("its table is not told", mapper.table(volume.number, true));
        if volume.is_changing && is_ours(&waiting?) {
            // Left by whoever was killed just before it was inserted.
            self.done("its table in waiting stays", mapper.clear(volume.number))?;
        }
        if !is_ours(&self.table(&mapper, volume.number)?) {
            return Ok(());
        }
        let below = self.below(&mapper)?.ok_or_else(|| self.lost())?;
        let table = self.table(&mapper, below.number)?;
        self.go_over(&mapper, &volume, &table)
    }

    /// Removes the volume below, at once or when its last user closes it, unless requests go
    /// through it.
    ///
    /// # Errors
    /// The device mapper refuses.
    pub fn remove_below(&self) -> Result<(), InsertionError> {
        let mapper = open()?;
        let Some(below) = self.below(&mapper)? else { return Ok(()) };
        if let Some(volume) = self.volume(&mapper)?
            && is_ours(&self.table(&mapper, volume.number)?)
        {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        self.done("the volume below stays", mapper.remove(below.number))
    }

    /// Where requests go.
    pub fn way(&self) -> Way {
        let Ok(mapper) = open() else { return Way::Unknown };
        match self.volume(&mapper) {
            Err(_) => Way::Unknown,
            Ok(None) => Way::Gone,
            Ok(Some(volume)) => match mapper.table(volume.number, false) {
                Err(_) => Way::Unknown,
                Ok(live) if is_ours(&live) => Way::Daemon,
                Ok(_) => Way::Past,
            },
        }
    }

    /// Whether the volume below is there.
    pub fn has_below(&self) -> bool {
        open().is_ok_and(|mapper| self.below(&mapper).is_ok_and(|below| below.is_some()))
    }

    /// Exchanges the table, and looks that it is. Where that fails the old one goes on.
    fn go_over(
        &self,
        mapper: &DeviceMapper,
        volume: &Mapped,
        table: &[Target],
    ) -> Result<(), InsertionError> {
        for _ in 0..SWITCH_TRIES {
            self.done("the kernel refuses the table", mapper.load(volume, table))?;
            let switched = mapper.switch(volume.number, false);
            if switched.is_err() {
                // A table that is refused so late may leave the device suspended: it goes on with
                // the one that it has.
                let _ = mapper.clear(volume.number);
                let _ = mapper.switch(volume.number, false);
            }
            self.done("it does not go over", switched)?;
            // A kernel that forgets the new table when a signal comes in between is asked again.
            if self.table(mapper, volume.number)? == table {
                return Ok(());
            }
        }
        Err(InsertionError::Changing(self.volume.clone()))
    }

    fn check_kind(&self, table: &[Target]) -> Result<(), InsertionError> {
        let is_other = |target: &&Target| !STATELESS.contains(&&*target.kind);
        if let Some(other) = table.iter().find(is_other) {
            return Err(InsertionError::Kind(self.volume.clone(), other.kind.clone()));
        }
        let (major, minor) = (major(self.number), minor(self.number));
        let zoned = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/zoned"));
        match zoned.is_ok_and(|zoned| zoned.trim() != "none") {
            true => Err(InsertionError::Kind(self.volume.clone(), "zones".into())),
            false => Ok(()),
        }
    }

    /// The volume, if it is there and the one that was meant.
    fn volume(&self, mapper: &DeviceMapper) -> Result<Option<Mapped>, InsertionError> {
        let found = self.done("not found", mapper.find(Which::Number(self.number)))?;
        let Some(found) = found else { return Ok(None) };
        let is_same = match &*found.uuid {
            // A name can be changed; not while it is inserted, unnoticed.
            "" => found.name == self.volume || is_ours(&self.table(mapper, found.number)?),
            uuid => self.below == below_uuid(uuid, found.number),
        };
        Ok(is_same.then_some(found))
    }

    fn own(&self, mapper: &DeviceMapper) -> Result<Mapped, InsertionError> {
        let shown = self.path().display().to_string();
        self.volume(mapper)?.ok_or(InsertionError::NoVolume(shown))
    }

    fn below(&self, mapper: &DeviceMapper) -> Result<Option<Mapped>, InsertionError> {
        self.done("not found", mapper.find(Which::Uuid(&self.below)))
    }

    /// The volume below, but for one that goes as soon as its last user has closed it: that is
    /// waited for.
    fn below_to_stay(&self, mapper: &DeviceMapper) -> Result<Option<Mapped>, InsertionError> {
        for _ in 0..LOCK_TRIES {
            match self.below(mapper)? {
                Some(below) if below.is_going => {}
                found => return Ok(found),
            }
            // SLEEP: nobody tells when a device is closed.
            thread::sleep(STEP);
        }
        Err(InsertionError::Changing(self.volume.clone()))
    }

    fn table(&self, mapper: &DeviceMapper, number: u64) -> Result<Vec<Target>, InsertionError> {
        self.done("its table is not told", mapper.table(number, false))
    }

    fn lost(&self) -> InsertionError {
        let error = io::Error::other(
            "the volume below is gone, and the old table with it; 'vgcfgrestore --list' and \
             'lvchange --refresh' have another copy of that",
        );
        InsertionError::Refused(self.path().display().to_string(), "not taken out", error)
    }

    fn below_name(&self) -> String {
        let whole = format!("{}-iopace", self.volume);
        let (major, minor) = (major(self.number), minor(self.number));
        if whole.len() <= NAME_LEN_MAX { whole } else { format!("iopace-{major}-{minor}") }
    }

    fn done<T>(&self, what: &'static str, done: io::Result<T>) -> Result<T, InsertionError> {
        done.map_err(|error| {
            InsertionError::Refused(self.path().display().to_string(), what, error)
        })
    }
}

fn open() -> Result<DeviceMapper, InsertionError> {
    DeviceMapper::open().map_err(InsertionError::Control)
}

/// The identifier of the volume below one of that identifier, or of that name if it has none.
fn below_uuid(named: &str, number: u64) -> String {
    let whole = format!("{UUID_PREFIX}{named}");
    let (major, minor) = (major(number), minor(number));
    if whole.len() <= UUID_LEN_MAX { whole } else { format!("{UUID_PREFIX}{major}-{minor}") }
}

/// Whether a table is one that we make: all of a ublk device, which may be gone.
fn is_ours(table: &[Target]) -> bool {
    let [Target { start: 0, kind, params, .. }] = table else { return false };
    let Some((device, "0")) = params.split_once(' ') else { return false };
    let name = match fs::read_link(format!("/sys/dev/block/{device}")) {
        Ok(link) => link.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        Err(error) => return kind == "linear" && error.kind() == io::ErrorKind::NotFound,
    };
    kind == "linear" && name.starts_with("ublkb")
}

/// By its number: the name may be another's.
fn node(number: u64) -> PathBuf {
    format!("/dev/dm-{}", minor(number)).into()
}

fn sectors(table: &[Target]) -> u64 {
    table.last().map_or(0, |last| last.start + last.sectors)
}
