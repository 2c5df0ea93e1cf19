//! The words of the kernel's ublk driver: command numbers, and structures as bytes.
//!
//! Names, numbers and layouts are those of `<linux/ublk_cmd.h>`. All fields are in the byte order
//! of the machine, and no structure has padding that it does not name.

/// The command of an io_uring entry of 128 bytes has room for so many.
pub(super) const COMMAND_BYTES: usize = 80;

/// Bytes of `struct ublksrv_ctrl_cmd` and `struct ublksrv_io_cmd`: a part of the command numbers.
const CONTROL_BYTES: u32 = 32;
const IO_BYTES: u32 = 16;

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// The number of an ioctl (`_IOC`), as which the driver has its commands coded since Linux 6.4.
const fn numbered(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Commands for `/dev/ublk-control`.
pub(super) mod control {
    use super::{CONTROL_BYTES, READ, READ_WRITE, numbered};

    pub(in super::super) const INFO: u32 = numbered(READ, 0x02, CONTROL_BYTES);
    pub(in super::super) const ADD: u32 = numbered(READ_WRITE, 0x04, CONTROL_BYTES);
    pub(in super::super) const DELETE: u32 = numbered(READ_WRITE, 0x05, CONTROL_BYTES);
    pub(in super::super) const START: u32 = numbered(READ_WRITE, 0x06, CONTROL_BYTES);
    pub(in super::super) const STOP: u32 = numbered(READ_WRITE, 0x07, CONTROL_BYTES);
    pub(in super::super) const SET_PARAMS: u32 = numbered(READ_WRITE, 0x08, CONTROL_BYTES);
    pub(in super::super) const BEGIN_RECOVERY: u32 = numbered(READ_WRITE, 0x10, CONTROL_BYTES);
    pub(in super::super) const END_RECOVERY: u32 = numbered(READ_WRITE, 0x11, CONTROL_BYTES);
    pub(in super::super) const FEATURES: u32 = numbered(READ, 0x13, CONTROL_BYTES);
    pub(in super::super) const DELETE_LATER: u32 = numbered(READ, 0x14, CONTROL_BYTES);
}

/// Commands for `/dev/ublkcN`.
pub(super) mod io {
    use super::{IO_BYTES, READ_WRITE, numbered};

    /// The place of a request is free, for the first time.
    pub(in super::super) const FETCH: u32 = numbered(READ_WRITE, 0x20, IO_BYTES);
    /// The request there is done, and its place is free.
    pub(in super::super) const COMMIT: u32 = numbered(READ_WRITE, 0x21, IO_BYTES);
}

/// Abilities of the driver, which a device is asked to have.
pub(super) mod feature {
    /// The device waits for another server when its own is gone.
    pub(in super::super) const RECOVERY: u64 = 1 << 3;
    /// Requests that the server had are given to the next one.
    pub(in super::super) const REISSUE: u64 = 1 << 4;
    /// Commands are coded as numbers of ioctls.
    pub(in super::super) const IOCTL: u64 = 1 << 6;
    /// Data are copied by `pread` and `pwrite` on `/dev/ublkcN`.
    pub(in super::super) const USER_COPY: u64 = 1 << 7;
    /// All that is needed here; the newest, `USER_COPY`, is in Linux 6.5.
    pub(in super::super) const NEEDED: u64 = RECOVERY | REISSUE | IOCTL | USER_COPY;
}

/// `struct ublksrv_ctrl_cmd` for a device; the payload is filled in by whoever sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlCommand {
    /// The device's number.
    pub(super) id: u32,
    /// Where the payload is.
    pub(super) address: u64,
    /// Its length.
    pub(super) len: u16,
    /// One number more.
    pub(super) data: u64,
}

impl ControlCommand {
    /// As the kernel takes it.
    pub(super) fn bytes(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        put(&mut bytes, 0, &self.id.to_ne_bytes());
        // No command here is for one queue: all ones.
        put(&mut bytes, 4, &u16::MAX.to_ne_bytes());
        put(&mut bytes, 6, &self.len.to_ne_bytes());
        put(&mut bytes, 8, &self.address.to_ne_bytes());
        put(&mut bytes, 16, &self.data.to_ne_bytes());
        bytes
    }
}

/// Where a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceState {
    /// It was not started, or is stopped.
    Dead,
    /// It has a server, or the kernel has not noticed yet that this is gone.
    Live,
    /// Its server is gone, and it waits for another one.
    Quiesced,
    /// A state that this driver is not told of.
    Other(u16),
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceFacts {
    /// Its number.
    pub(super) id: u32,
    pub(super) queues_count: u16,
    /// Requests of each queue.
    pub(super) depth: u16,
    pub(super) state: DeviceState,
    /// The longest request.
    pub(super) request_bytes_max: u32,
    /// See [`feature`].
    pub(super) features: u64,
    /// A number that the driver keeps for the server.
    pub(super) mark: u64,
}

impl DeviceFacts {
    pub(super) const BYTES: usize = 64;

    /// As the kernel takes it.
    pub(super) fn bytes(&self) -> [u8; DeviceFacts::BYTES] {
        let mut bytes = [0; DeviceFacts::BYTES];
        put(&mut bytes, 0, &self.queues_count.to_ne_bytes());
        put(&mut bytes, 2, &self.depth.to_ne_bytes());
        put(&mut bytes, 8, &self.request_bytes_max.to_ne_bytes());
        put(&mut bytes, 12, &self.id.to_ne_bytes());
        put(&mut bytes, 24, &self.features.to_ne_bytes());
        put(&mut bytes, 32, &self.mark.to_ne_bytes());
        bytes
    }

    /// As the kernel gives it.
    pub(super) fn of(bytes: &[u8; DeviceFacts::BYTES]) -> DeviceFacts {
        let state = match u16::from_ne_bytes(get(bytes, 4)) {
            0 => DeviceState::Dead,
            1 => DeviceState::Live,
            2 => DeviceState::Quiesced,
            other => DeviceState::Other(other),
        };
        DeviceFacts {
            queues_count: u16::from_ne_bytes(get(bytes, 0)),
            depth: u16::from_ne_bytes(get(bytes, 2)),
            state,
            request_bytes_max: u32::from_ne_bytes(get(bytes, 8)),
            id: u32::from_ne_bytes(get(bytes, 12)),
            features: u64::from_ne_bytes(get(bytes, 24)),
            mark: u64::from_ne_bytes(get(bytes, 32)),
        }
    }
}

/// `struct ublk_params`: the disk, as programs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskParams {
    pub(super) size_bytes: u64,
    /// Smallest request in bytes: a power of two from 512 to the page size.
    pub(super) block_bytes: u32,
    /// The longest read or write.
    pub(super) request_bytes_max: u32,
    /// The longest request for zeroes.
    pub(super) zeroes_bytes_max: u64,
    pub(super) read_only: bool,
    pub(super) rotational: bool,
    /// Whether what is not needed any more can be told to the disk.
    pub(super) discards: bool,
}

/// Bits of `ublk_param_basic.attrs`.
const READ_ONLY: u32 = 1 << 0;
const ROTATIONAL: u32 = 1 << 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

/// Bits of `ublk_params.types`: which parts of it are filled in.
const BASIC: u32 = 1 << 0;
const DISCARD: u32 = 1 << 1;

/// The unit in which the driver counts, whatever the block is.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A page: what the disk is best asked for.
const PAGE_SHIFT: u8 = 12;

impl DiskParams {
    /// The header, `ublk_param_basic` and `ublk_param_discard`.
    pub(super) const BYTES: usize = 8 + 32 + 20;

    /// As the kernel takes it.
    pub(super) fn bytes(&self) -> [u8; DiskParams::BYTES] {
        let mut bytes = [0; DiskParams::BYTES];
        let sectors = |bytes: u64| u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
        let types = if self.read_only { BASIC } else { BASIC | DISCARD };
        put(&mut bytes, 0, &(DiskParams::BYTES as u32).to_ne_bytes());
        put(&mut bytes, 4, &types.to_ne_bytes());
        let mut attributes = VOLATILE_CACHE | FUA;
        attributes |= if self.read_only { READ_ONLY } else { 0 };
        attributes |= if self.rotational { ROTATIONAL } else { 0 };
        put(&mut bytes, 8, &attributes.to_ne_bytes());
        let shift = self.block_bytes.trailing_zeros() as u8;
        put(&mut bytes, 12, &[shift, PAGE_SHIFT.max(shift), PAGE_SHIFT, PAGE_SHIFT.max(shift)]);
        put(&mut bytes, 16, &sectors(self.request_bytes_max.into()).to_ne_bytes());
        let whole = self.size_bytes - self.size_bytes % u64::from(self.block_bytes);
        put(&mut bytes, 24, &(whole / SECTOR_BYTES).to_ne_bytes());
        let granularity = self.block_bytes.max(1 << PAGE_SHIFT);
        put(&mut bytes, 44, &granularity.to_ne_bytes());
        // A trim moves no data: as long as one request of the kernel can be.
        let longest = if self.discards { u64::from(u32::MAX) / 4096 * 4096 } else { 0 };
        put(&mut bytes, 48, &sectors(longest).to_ne_bytes());
        put(&mut bytes, 52, &sectors(self.zeroes_bytes_max).to_ne_bytes());
        put(&mut bytes, 56, &1u16.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_cmd`, with the result of the request that is done; a negative one is an
/// error.
pub(super) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    put(&mut bytes, 0, &queue.to_ne_bytes());
    put(&mut bytes, 2, &tag.to_ne_bytes());
    put(&mut bytes, 4, &result.to_ne_bytes());
    bytes
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

/// `struct ublksrv_io_desc`: a request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelRequest {
    /// The kind; `None` for one that was not offered.
    pub(super) kind: Option<RequestKind>,
    /// Durable before it is answered.
    pub(super) fua: bool,
    /// Where, in bytes.
    pub(super) offset: u64,
    /// How much, in bytes.
    pub(super) len: u64,
}

/// The bit of the flags that says so.
const REQUEST_FUA: u32 = 1 << 13;

impl KernelRequest {
    pub(super) const BYTES: usize = 24;

    /// As the kernel gives it.
    pub(super) fn of(bytes: &[u8; KernelRequest::BYTES]) -> KernelRequest {
        let flags = u32::from_ne_bytes(get(bytes, 0));
        let kind = match flags & 0xff {
            0 => Some(RequestKind::Read),
            1 => Some(RequestKind::Write),
            2 => Some(RequestKind::Flush),
            3 => Some(RequestKind::Discard),
            5 => Some(RequestKind::WriteZeroes),
            _ => None,
        };
        KernelRequest {
            kind,
            fua: flags & REQUEST_FUA != 0,
            offset: u64::from_ne_bytes(get(bytes, 8)).saturating_mul(SECTOR_BYTES),
            len: u64::from(u32::from_ne_bytes(get(bytes, 4))) * SECTOR_BYTES,
        }
    }
}

/// Most requests of a queue that the driver has room for in the area of each (`4096`); so far apart
/// are the areas of two queues in `/dev/ublkcN`, as it is mapped.
const DEPTH_MAX: u64 = 4096;

/// Where the requests of a queue are mapped.
pub(super) fn requests_offset(queue: u16, page_bytes: u64) -> u64 {
    u64::from(queue) * (DEPTH_MAX * KernelRequest::BYTES as u64).next_multiple_of(page_bytes)
}

/// Where the data of a request are in `/dev/ublkcN`, for `pread` and `pwrite`.
pub(super) fn data_offset(queue: u16, tag: u16) -> u64 {
    (1 << 31) + (u64::from(queue) << 41 | u64::from(tag) << 25)
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the structure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // As a program in C prints them.
        assert_eq!([control::ADD, control::INFO], [0xc020_7504, 0x8020_7502]);
        assert_eq!([control::START, control::STOP], [0xc020_7506, 0xc020_7507]);
        assert_eq!([control::DELETE, control::DELETE_LATER], [0xc020_7505, 0x8020_7514]);
        assert_eq!([io::FETCH, io::COMMIT], [0xc010_7520, 0xc010_7521]);
        let command = ControlCommand { id: 3, address: 0x1122, len: 64, data: 77 }.bytes();
        assert_eq!(command[..8], [3, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!((command[8], command[9], command[16]), (0x22, 0x11, 77));
        let command = io_command(2, 127, -5);
        assert_eq!(command[..8], [2, 0, 127, 0, 0xfb, 0xff, 0xff, 0xff]);
        assert_eq!(command[8..16], [0; 8], "no buffer: data are copied");
    }

    #[test]
    fn a_device_comes_back_as_it_was_told() {
        let facts = DeviceFacts {
            id: 5,
            queues_count: 4,
            depth: 128,
            state: DeviceState::Dead,
            request_bytes_max: 1 << 20,
            features: feature::NEEDED,
            mark: 0x0123_4567_89ab_cdef,
        };
        let mut bytes = facts.bytes();
        assert_eq!(DeviceFacts::of(&bytes), facts);
        assert_eq!((bytes[0], bytes[2], bytes[12], bytes[24]), (4, 128, 5, 0xd8));
        for (number, state) in
            [(1, DeviceState::Live), (2, DeviceState::Quiesced), (3, DeviceState::Other(3))]
        {
            bytes[4] = number;
            assert_eq!(DeviceFacts::of(&bytes).state, state);
        }
    }

    #[test]
    fn a_disk_is_told_in_sectors() {
        let mut disk = DiskParams {
            size_bytes: (1 << 30) + 1024,
            block_bytes: 4096,
            request_bytes_max: 1 << 20,
            zeroes_bytes_max: 64 << 20,
            read_only: false,
            rotational: true,
            discards: true,
        };
        let bytes = disk.bytes();
        let word = |at| u32::from_ne_bytes(get(&bytes, at));
        assert_eq!([word(0), word(4), word(8)], [60, 3, 0b1110]);
        assert_eq!((&bytes[12..16], word(16)), (&[12; 4][..], 2048));
        assert_eq!(u64::from_ne_bytes(get(&bytes, 24)), 1 << 21, "whole blocks only");
        assert_eq!([word(44), word(52)], [4096, 131_072]);
        disk.read_only = true;
        assert_eq!(disk.bytes()[4..12], [1, 0, 0, 0, 0b1111, 0, 0, 0]);
    }

    #[test]
    fn requests_are_read_and_have_places() {
        let mut bytes = [0; KernelRequest::BYTES];
        put(&mut bytes, 0, &(1u32 | 1 << 13 | 1 << 11).to_ne_bytes());
        put(&mut bytes, 4, &8u32.to_ne_bytes());
        put(&mut bytes, 8, &100u64.to_ne_bytes());
        let write =
            KernelRequest { kind: Some(RequestKind::Write), fua: true, offset: 51_200, len: 4096 };
        assert_eq!(KernelRequest::of(&bytes), write);
        bytes[0] = 4;
        assert_eq!(KernelRequest::of(&bytes).kind, None, "the same block again and again");
        assert_eq!(requests_offset(2, 4096), 2 * 24 * 4096);
        assert_eq!(data_offset(0, 0), 0x8000_0000);
        assert_eq!(data_offset(1, 2), 0x8000_0000 + (1 << 41) + (2 << 25));
    }
}
