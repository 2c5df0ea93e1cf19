//! Loadable policies: a WebAssembly module as a scheduler, fenced in.
//!
//! `docs/policy-abi.md` is the contract of both sides; this crate is the host. A module computes
//! and nothing else: its memory is its own, time is an argument, and the one import is a line of
//! log. So it gives the same answers to the same calls live, in the simulator and in the suites.
//!
//! ```text
//!  engine ── push, done, group ─► Policy ── writes events ─► desk ┐
//!         ◄─ request, instant ── checks ◄──── answer ◄─ one call ─┴─ module, with fuel
//! ```
//!
//! A call that traps, uses up its fuel or answers what means nothing is thrown as a
//! [`iopace_core::trace::Fault`]; the fence of the engine catches it, and `fifo` takes over. An
//! answer that is well formed is handed on as it is: the engine knows what it has queued, and finds
//! a request that was invented, given twice or forgotten.
//!
//! [`load`] reads, compiles and describes a file and adds it to the registry of schedulers; from
//! then on it is one of them. Each distinct module that was ever loaded stays in memory until the
//! process ends, as a device may run it and algorithms are `'static`.

mod cache;
mod cost;
mod describe;
mod desk;
mod error;
mod instance;
pub mod limits;
mod loaded;
mod module;
mod policy;
mod read;
mod sandbox;
#[cfg(test)]
mod tests;
mod text;

pub use error::{LoadError, Problem, UnloadError};
pub use loaded::{
    Caching, Compiled, Loaded, Replacement, load, load_bytes, loaded, replace_bytes, unload,
};
pub use sandbox::{LogLine, on_log};
