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
//! which requests wait ([`DeviceMapper::switch`]). The *volume below* is a new device with the old
//! table. It is all that is needed to go back.
//!
//! # Properties
//! 1. Each step leaves a state from which the next one, or the way back, goes on: whoever is killed
//!    leaves no request without a place, and no device that stands still.
//! 2. A table that somebody else has changed in the meantime (`lvextend`) is left as it is.
//!
//! # Limits
//! Tables of `linear` and `striped` pieces: other targets have a state of their own, and two devices
//! with the same table would each have one. What is below a snapshot or a cache can be inserted
//! into; so can each of the volumes that an encrypted one is on.

use crate::device_mapper::{DeviceMapper, Mapped, Target, Which};
use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Targets without a state of their own.
const STATELESS: [&str; 2] = ["linear", "striped"];

/// Begins the identifier of each volume below.
const UUID_PREFIX: &str = "IOPACE-below-";

/// Longest name that a device can have, and longest identifier (`<linux/dm-ioctl.h>`).
const NAME_LEN_MAX: usize = 127;
const UUID_LEN_MAX: usize = 128;

/// Why nothing is inserted, or taken out.
#[derive(Debug, thiserror::Error)]
pub enum InsertionError {
    /// It is no volume.
    #[error(
        "{0}: is no volume of the device mapper (LVM): a daemon goes in front of other disks, \
         files and partitions by 'iopace attach --ublk', before they are mounted"
    )]
    NoVolume(String),
    /// A table that cannot be copied.
    #[error(
        "{0}: is made of '{1}', which cannot be there twice: only volumes of linear and striped \
         pieces can be inserted into; look with 'dmsetup deps' for one below it"
    )]
    Kind(String, String),
    /// Somebody else is at it.
    #[error("{0}: somebody else changes its table at this moment (LVM); try again after that")]
    Changing(String),
    /// A volume of our own making.
    #[error("{0}: is the volume below of another that a daemon is in front of; name that one")]
    Below(String),
    /// The device mapper refuses.
    #[error("{0}: {1}: {2}; the kernel's log may say why (dmesg)")]
    Refused(String, &'static str, io::Error),
    /// The device mapper is not there.
    #[error("/dev/mapper/control cannot be opened: {0}; load it with 'modprobe dm_mod'")]
    Control(io::Error),
}

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
        let whole = format!("{UUID_PREFIX}{named}");
        let (major, minor) = (major(volume.number), minor(volume.number));
        let by_number = format!("{UUID_PREFIX}{major}-{minor}");
        let below = if whole.len() <= UUID_LEN_MAX { whole } else { by_number };
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

    /// Makes the volume below, or finds it if it is there.
    ///
    /// # Errors
    /// The volume cannot be inserted into, or the device mapper refuses.
    pub fn make_below(&self) -> Result<BelowVolume, InsertionError> {
        let mapper = open()?;
        let volume = self.own(&mapper)?;
        if let Some(below) = self.below(&mapper)? {
            let (live, table) = (volume.number, below.number);
            let (live, table) = (self.table(&mapper, live)?, self.table(&mapper, table)?);
            if !table.is_empty() && (live == table || self.is_ours(&live)) {
                return Ok(BelowVolume::of(&below));
            }
            // Its maker was killed before it had a table, or the volume was changed since.
            self.done("the old volume below stays", mapper.remove(below.number))?;
        }
        if volume.is_changing {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        let table = self.table(&mapper, volume.number)?;
        let is_other = |target: &&Target| !STATELESS.contains(&&*target.kind);
        if let Some(other) = table.iter().find(is_other) {
            return Err(InsertionError::Kind(self.volume.clone(), other.kind.clone()));
        }
        let below = self.done("no volume below", mapper.create(&self.below_name(), &self.below))?;
        let below = Mapped { read_only: volume.read_only, ..below };
        let begun = mapper.load(&below, &table).and_then(|()| mapper.switch(below.number, true));
        if begun.is_err() {
            let _ = mapper.remove(below.number);
        }
        self.done("no volume below", begun)?;
        Ok(BelowVolume::of(&below))
    }

    /// Has requests go through the device of that number from now on. Nothing happens if they do.
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
        let below = self.below(&mapper)?;
        let below = below.ok_or_else(|| InsertionError::Changing(self.volume.clone()))?;
        if volume.is_changing || live != self.table(&mapper, below.number)? {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        self.go_over(&mapper, &volume, &wanted)
    }

    /// Has requests go past the device of that number again: what is under way is finished first.
    /// Nothing happens if they do.
    ///
    /// # Errors
    /// The device mapper refuses: all is as before then.
    pub fn turn_back(&self, device: u64) -> Result<(), InsertionError> {
        let mapper = open()?;
        let Some(volume) = self.volume(&mapper)? else { return Ok(()) };
        let wanted = |table: &[Target]| table == [Target::whole(sectors(table), device)];
        if volume.is_changing && wanted(&self.waiting(&mapper, volume.number)?) {
            // Left by whoever was killed just before it was inserted.
            self.done("its table in waiting stays", mapper.clear(volume.number))?;
        }
        let live = self.table(&mapper, volume.number)?;
        if !wanted(&live) {
            return Ok(());
        }
        let gone = || io::Error::other("the volume below is gone, and the old table with it");
        let below = self.below(&mapper)?;
        let below = self.done("not taken out", below.ok_or_else(gone))?;
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
            && self.is_ours(&self.table(&mapper, volume.number)?)
        {
            return Err(InsertionError::Changing(self.volume.clone()));
        }
        self.done("the volume below stays", mapper.remove(below.number))
    }

    /// Where requests go, if the daemon's device has that number.
    pub fn way(&self, device: u64) -> Way {
        let Ok(mapper) = open() else { return Way::Past };
        let Ok(Some(volume)) = self.volume(&mapper) else { return Way::Gone };
        let live = mapper.table(volume.number, false).unwrap_or_default();
        if live == [Target::whole(sectors(&live), device)] { Way::Daemon } else { Way::Past }
    }

    /// Whether the volume below is there.
    pub fn has_below(&self) -> bool {
        open().is_ok_and(|mapper| self.below(&mapper).is_ok_and(|below| below.is_some()))
    }

    fn go_over(
        &self,
        mapper: &DeviceMapper,
        volume: &Mapped,
        table: &[Target],
    ) -> Result<(), InsertionError> {
        self.done("the kernel refuses the table", mapper.load(volume, table))?;
        let switched = mapper.switch(volume.number, false);
        if switched.is_err() {
            let _ = mapper.clear(volume.number);
        }
        self.done("it does not go over", switched)
    }

    /// The volume, if it is there and the one that was meant.
    fn volume(&self, mapper: &DeviceMapper) -> Result<Option<Mapped>, InsertionError> {
        let found = self.done("not found", mapper.find(Which::Number(self.number)))?;
        let has_uuid = |uuid: &str| !uuid.is_empty() && self.below.ends_with(uuid);
        Ok(found.filter(|found| found.name == self.volume || has_uuid(&found.uuid)))
    }

    fn own(&self, mapper: &DeviceMapper) -> Result<Mapped, InsertionError> {
        let shown = self.path().display().to_string();
        self.volume(mapper)?.ok_or(InsertionError::NoVolume(shown))
    }

    fn below(&self, mapper: &DeviceMapper) -> Result<Option<Mapped>, InsertionError> {
        self.done("not found", mapper.find(Which::Uuid(&self.below)))
    }

    fn table(&self, mapper: &DeviceMapper, number: u64) -> Result<Vec<Target>, InsertionError> {
        self.done("its table is not told", mapper.table(number, false))
    }

    fn waiting(&self, mapper: &DeviceMapper, number: u64) -> Result<Vec<Target>, InsertionError> {
        self.done("its table is not told", mapper.table(number, true))
    }

    /// Whether a table is one that we make: all of a ublk device.
    fn is_ours(&self, table: &[Target]) -> bool {
        let [Target { start: 0, kind, params, .. }] = table else { return false };
        let device = params.split(' ').next().unwrap_or_default();
        let link = fs::read_link(format!("/sys/dev/block/{device}")).unwrap_or_default();
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        kind == "linear" && name.starts_with("ublkb")
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

/// By its number: the name may be another's.
fn node(number: u64) -> PathBuf {
    format!("/dev/dm-{}", minor(number)).into()
}

fn sectors(table: &[Target]) -> u64 {
    table.last().map_or(0, |last| last.start + last.sectors)
}
