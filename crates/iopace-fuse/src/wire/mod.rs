//! The layouts of the protocol, as `linux/fuse.h` has them (ABI 7.23 and newer).

pub mod input;
pub mod opcode;
pub mod output;
