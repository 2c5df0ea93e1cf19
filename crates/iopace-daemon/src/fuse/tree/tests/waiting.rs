//! Writes that wait for what was given up.

use super::super::super::inflight_operations::Touch;
use super::{Mounted, until};
use crate::memory::Memory;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

#[test]
fn a_write_that_had_to_wait_goes_on_with_the_room_that_it_has() {
    let Some(mounted) = Mounted::over_itself() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, "before").unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let (inflight, id) = (&mounted.tree.inflight, file.metadata().unwrap().ino());
    // All the memory there is.
    let data = [7; 4096];
    let memory = Arc::new(Memory::new(data.len() as u64));
    mounted.data.memory.set(Arc::clone(&memory)).expect("once");
    inflight.add(Touch::one(id));
    let writing = std::thread::spawn(move || file.write_at(&data, 0));
    until("it waits, and has room", || memory.used_bytes() == data.len() as u64);
    until("it is parked", || inflight.parked_count() == 1);
    inflight.has_ended(0, Touch::one(id));
    assert_eq!(writing.join().unwrap().unwrap(), data.len());
    assert_eq!(*mounted.data.had_room.lock().unwrap(), [true]);
    until("the room is given back", || memory.used_bytes() == 0);
    assert_eq!(fs::read(&path).unwrap(), data);
}
