//! Any bytes as what the system below a mount says: attributes, numbers and extents of files, names
//! of extended attributes, and the kernel's tables of mounts and processes.
#![no_main]

use iopace_daemon::fuzzing::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check(input));
