//! The kernel's device mapper: devices that are made of pieces of others, by a table
//! (`/dev/mapper/control`, `<linux/dm-ioctl.h>`).
//!
//! A device has a live table, by which requests go, and may have another one in waiting. Going over
//! to that is one call ([`DeviceMapper::switch`]): the kernel lets requests wait, has those that
//! are under way finished, exchanges the tables and goes on. Whoever is killed meanwhile leaves
//! either the old table live or the new one, and never a device that stands still.

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::File;
use std::io;

const PATH: &str = "/dev/mapper/control";

/// The version of the interface that has all that is used here: since Linux 2.6.37.
const VERSION: [u32; 3] = [4, 19, 0];

/// Bytes of names and identifiers, with the zero at their end (`DM_NAME_LEN`, `DM_UUID_LEN`).
const NAME_BYTES: usize = 128;
const UUID_BYTES: usize = 129;

/// Bytes for a table: a volume in some hundred pieces.
const TABLE_BYTES: usize = 16 * 1024;

/// Bytes of `struct dm_target_spec`, which the parameters of a target follow.
const TARGET_BYTES: usize = 40;

const READ_ONLY: u32 = 1 << 0;
const SUSPENDED: u32 = 1 << 1;
const TABLE_STATUS: u32 = 1 << 4;
const IN_WAITING: u32 = 1 << 6;
const BUFFER_FULL: u32 = 1 << 8;
/// The file system on the device is not frozen, which would first write all that is dirty.
const NO_FREEZE: u32 = 1 << 10;
const QUERY_IN_WAITING: u32 = 1 << 12;
const REMOVE_LATER: u32 = 1 << 17;

/// Told to udev: no links by the file system's name, and no scans, of a device that has the same
/// data as another (`DM_UDEV_DISABLE_*` of libdevmapper.h, in the upper half of a cookie).
const UDEV_QUIET: u32 = (0x02 | 0x04 | 0x08 | 0x40) << 16;

/// `struct dm_ioctl` with room behind it.
#[repr(C)]
struct Packet {
    version: [u32; 3],
    data_bytes: u32,
    data_start: u32,
    targets_count: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; NAME_BYTES],
    uuid: [u8; UUID_BYTES],
    padding_2: [u8; 7],
    data: [u8; TABLE_BYTES],
}

/// Where the data begin.
const HEADER_BYTES: usize = size_of::<Packet>() - TABLE_BYTES;

/// The part of `dm_ioctl` that counts for the number of a command.
const fn numbered(number: u8) -> Opcode {
    opcode::read_write::<[u8; HEADER_BYTES]>(0xfd, number)
}

const CREATE: Opcode = numbered(3);
const REMOVE: Opcode = numbered(4);
const SUSPEND: Opcode = numbered(6);
const STATUS: Opcode = numbered(7);
const LOAD: Opcode = numbered(9);
const CLEAR: Opcode = numbered(10);
const TABLE: Opcode = numbered(12);

/// A piece of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its first sector of 512 bytes.
    pub(crate) start: u64,
    /// How many there are.
    pub(crate) sectors: u64,
    /// `linear`, say.
    pub(crate) kind: String,
    /// The devices and places that it maps to, in the words of its kind.
    pub(crate) params: String,
}

impl Target {
    /// All of another device, and nothing else.
    pub(crate) fn whole(sectors: u64, device: u64) -> Target {
        let params = format!("{}:{} 0", major(device), minor(device));
        Target { start: 0, sectors, kind: "linear".into(), params }
    }
}

/// A device of the device mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Its number, as `st_rdev` has it.
    pub(crate) number: u64,
    /// Its name, in `/dev/mapper` that of its node.
    pub(crate) name: String,
    /// The identifier that its maker gave it; may be empty.
    pub(crate) uuid: String,
    /// Whether it refuses writes.
    pub(crate) read_only: bool,
    /// Whether a table is in waiting, or its requests are.
    pub(crate) is_changing: bool,
    /// Whether it is removed as soon as nobody has it open.
    pub(crate) is_going: bool,
}

/// The device that a command is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    Number(u64),
    Uuid(&'a str),
}

/// The device mapper itself.
#[derive(Debug)]
pub(crate) struct DeviceMapper {
    file: File,
}

impl DeviceMapper {
    /// Opens it. Only root may.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn open() -> io::Result<DeviceMapper> {
        Ok(DeviceMapper { file: File::options().read(true).write(true).open(PATH)? })
    }

    /// A device; `None` if there is none.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn find(&self, which: Which<'_>) -> io::Result<Option<Mapped>> {
        let mut packet = Packet::new(which, 0);
        match self.call::<STATUS>(&mut packet) {
            Ok(()) => Ok(Some(packet.mapped())),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The table by which requests go, or the one in waiting.
    ///
    /// # Errors
    /// The error of the system call, or that it is too long.
    pub(crate) fn table(&self, number: u64, in_waiting: bool) -> io::Result<Vec<Target>> {
        let flags = TABLE_STATUS | if in_waiting { QUERY_IN_WAITING } else { 0 };
        let mut packet = Packet::new(Which::Number(number), flags);
        self.call::<TABLE>(&mut packet)?;
        if packet.flags & BUFFER_FULL != 0 {
            return Err(io::Error::other("its table is too long"));
        }
        packet.targets().ok_or_else(|| io::Error::other("its table cannot be read"))
    }

    /// Makes a device without a table, of which udev takes no notice.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn create(&self, name: &str, uuid: &str) -> io::Result<Mapped> {
        let mut packet = Packet::new(Which::Uuid(uuid), 0);
        put_text(&mut packet.name, name);
        self.call::<CREATE>(&mut packet)?;
        Ok(packet.mapped())
    }

    /// Puts a table in waiting, in place of one that is.
    ///
    /// # Errors
    /// The error of the system call: the kernel's log says more.
    pub(crate) fn load(&self, to: &Mapped, table: &[Target]) -> io::Result<()> {
        let flags = if to.read_only { READ_ONLY } else { 0 };
        let mut packet = Packet::new(Which::Number(to.number), flags);
        packet.put_targets(table).ok_or_else(|| io::Error::other("the table is too long"))?;
        self.call::<LOAD>(&mut packet)
    }

    /// Takes back a table in waiting.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn clear(&self, number: u64) -> io::Result<()> {
        self.call::<CLEAR>(&mut Packet::new(Which::Number(number), 0))
    }

    /// Goes over to the table in waiting. Takes as long as requests that are under way: nothing
    /// fails, and the file system on it is not frozen. udev takes no notice of a `quiet` device.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn switch(&self, number: u64, quiet: bool) -> io::Result<()> {
        loop {
            let mut packet = Packet::new(Which::Number(number), NO_FREEZE);
            packet.event = if quiet { UDEV_QUIET } else { 0 };
            match self.call::<SUSPEND>(&mut packet) {
                // A signal came while requests were waited for: all is as before.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Removes a device, at once or when nobody has it open any more.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        let mut packet = Packet::new(Which::Number(number), REMOVE_LATER);
        packet.event = UDEV_QUIET;
        self.call::<REMOVE>(&mut packet)
    }

    fn call<const OPCODE: Opcode>(&self, packet: &mut Packet) -> io::Result<()> {
        // SAFETY: the kernel is told the size of the packet, and writes no more than that; every
        // pattern of bits is a packet.
        let done = unsafe { ioctl(&self.file, Updater::<OPCODE, Packet>::new(packet)) };
        Ok(done?)
    }
}

impl Packet {
    fn new(which: Which<'_>, flags: u32) -> Box<Packet> {
        let mut packet = Box::new(Packet {
            version: VERSION,
            data_bytes: size_of::<Packet>() as u32,
            data_start: HEADER_BYTES as u32,
            targets_count: 0,
            open_count: 0,
            flags,
            event: 0,
            padding: 0,
            device: 0,
            name: [0; NAME_BYTES],
            uuid: [0; UUID_BYTES],
            padding_2: [0; 7],
            data: [0; TABLE_BYTES],
        });
        match which {
            Which::Number(number) => packet.device = number,
            Which::Uuid(uuid) => put_text(&mut packet.uuid, uuid),
        }
        packet
    }

    fn mapped(&self) -> Mapped {
        Mapped {
            number: self.device,
            name: text(&self.name),
            uuid: text(&self.uuid),
            read_only: self.flags & READ_ONLY != 0,
            is_changing: self.flags & (IN_WAITING | SUSPENDED) != 0,
            is_going: self.flags & REMOVE_LATER != 0,
        }
    }

    /// Each piece begins where the one before says, counted from where the first begins.
    fn targets(&self) -> Option<Vec<Target>> {
        let start = (self.data_start as usize).checked_sub(HEADER_BYTES)?;
        let data = self.data.get(start..)?;
        let mut at = 0;
        let mut targets = Vec::new();
        for _ in 0..self.targets_count {
            let spec = data.get(at..at + TARGET_BYTES)?;
            targets.push(Target {
                start: number(spec, 0)?,
                sectors: number(spec, 8)?,
                kind: text(spec.get(24..)?),
                params: text(data.get(at + TARGET_BYTES..)?),
            });
            at = u32::from_ne_bytes(spec.get(20..24)?.try_into().ok()?) as usize;
        }
        Some(targets)
    }

    /// Each piece says how far the next one is from it.
    fn put_targets(&mut self, table: &[Target]) -> Option<()> {
        let mut at = 0;
        for target in table {
            let end = at + TARGET_BYTES + target.params.len() + 1;
            let next = end.next_multiple_of(8);
            let spec = self.data.get_mut(at..next)?;
            spec[..8].copy_from_slice(&target.start.to_ne_bytes());
            spec[8..16].copy_from_slice(&target.sectors.to_ne_bytes());
            spec[20..24].copy_from_slice(&((next - at) as u32).to_ne_bytes());
            put_text(&mut spec[24..TARGET_BYTES], &target.kind);
            put_text(&mut spec[TARGET_BYTES..], &target.params);
            at = next;
        }
        self.targets_count = table.len() as u32;
        Some(())
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The text before the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// As much of a text as there is room for, with a zero behind it.
fn put_text(into: &mut [u8], text: &str) {
    let len = text.len().min(into.len().saturating_sub(1));
    into[..len].copy_from_slice(&text.as_bytes()[..len]);
    into[len..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = vec![
            Target { start: 0, sectors: 8, kind: "linear".into(), params: "8:16 2048".into() },
            Target {
                start: 8,
                sectors: 16,
                kind: "striped".into(),
                params: "2 8 8:0 0 8:1 0".into(),
            },
            Target::whole(7, rustix::fs::makedev(253, 300)),
        ];
        let mut packet = Packet::new(Which::Number(0), 0);
        packet.put_targets(&table).expect("it fits");
        assert_eq!(packet.targets_count, 3);
        // The kernel counts from the first piece when it tells, from each one when it is told.
        let mut at = 0;
        for _ in 0..3 {
            let place = at as usize + 20..at as usize + 24;
            let next = u32::from_ne_bytes(packet.data[place.clone()].try_into().expect("four"));
            at += next;
            packet.data[place].copy_from_slice(&at.to_ne_bytes());
        }
        assert_eq!(packet.targets().as_deref(), Some(&*table));
        assert_eq!(table[2].params, "253:300 0");
    }

    #[test]
    fn a_table_that_makes_no_sense_is_none() {
        let mut packet = Packet::new(Which::Number(0), 0);
        packet.put_targets(&[Target::whole(7, 0)]).expect("it fits");
        packet.targets_count = 2;
        packet.data[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(packet.targets(), None);
        packet.data_start = 0;
        assert_eq!(packet.targets(), None);
        let long = Target { params: "x".repeat(TABLE_BYTES), ..Target::whole(7, 0) };
        assert_eq!(packet.put_targets(&[long]), None);
    }

    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        // As <linux/dm-ioctl.h> has them compiled.
        assert_eq!(size_of::<Packet>() - TABLE_BYTES, 312);
        assert_eq!((CREATE, SUSPEND, TABLE), (0xc138_fd03, 0xc138_fd06, 0xc138_fd0c));
        let mut name = [1; 4];
        put_text(&mut name, "too long");
        assert_eq!(&name, b"too\0");
    }
}
