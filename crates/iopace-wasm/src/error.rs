//! Why a policy was not loaded, or not unloaded: each message names the file, the place in it and
//! the remedy.

use crate::limits::{ABI, MEMORY_BYTES_MAX, MODULE_BYTES_MAX};
use core::fmt;
use std::path::PathBuf;

/// A file was not loaded.
#[derive(Debug)]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub problem: Problem,
}

/// Why a file was not loaded.
#[derive(Debug)]
pub enum Problem {
    /// It cannot be opened or read: the reason, and the remedy.
    Unreadable(String),
    /// It is larger than a policy may be; its size in bytes.
    TooLarge(u64),
    /// It is something else; a word about it.
    NoModule(&'static str),
    /// It breaks a rule of WebAssembly or uses more of it than a policy may: which and where.
    Invalid(String),
    /// Memory cannot be made executable here.
    NotExecutable,
    /// It imports something that is not there.
    Import(String),
    /// It does not export this function or memory.
    NoExport(&'static str),
    /// It exports something else under this name: name, what it is, what it has to be.
    Export(&'static str, String, &'static str),
    /// Its memory begins with so many bytes.
    Memory(u64),
    /// It speaks another version of the interface.
    Version(i32),
    /// A call that loading makes has failed: its name and the reason.
    Call(&'static str, String),
    /// Its description is wrong: the place and the reason.
    Description(String),
    /// Its desk is wrong: the place and the reason.
    Desk(String),
    /// Its name is that of another scheduler, or a word with another meaning.
    Taken(String),
    /// Another module is loaded under its name; the file that it is from.
    Loaded(String, PathBuf),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for LoadError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SEE: &str = "see docs/policy-abi.md";
        match self {
            Problem::Unreadable(why) => write!(f, "{why}"),
            Problem::TooLarge(bytes) => write!(
                f,
                "it has {bytes} bytes; a policy has at most {MODULE_BYTES_MAX}: build it in \
                 release mode and strip it"
            ),
            Problem::NoModule(what) => write!(f, "it is no WebAssembly module: {what}"),
            Problem::Invalid(what) => write!(
                f,
                "{what}; a policy may use WebAssembly 1.0, sign extension, float to integer \
                 conversions, mutable globals, multi-value and bulk memory: {SEE}"
            ),
            Problem::NotExecutable => write!(
                f,
                "its code cannot be made executable: this process may not have memory that is \
                 written and then executed. Under systemd: `systemctl edit` the unit, set \
                 MemoryDenyWriteExecute=no under [Service], and restart it"
            ),
            Problem::Import(name) => {
                write!(f, "it imports {name}; a policy may import only iopace.log: {SEE}")
            }
            Problem::NoExport(name) => write!(f, "it exports no {name}; {SEE}"),
            Problem::Export(name, is, has_to_be) => {
                write!(f, "its export {name} is {is}, and has to be {has_to_be}; {SEE}")
            }
            Problem::Memory(bytes) => write!(
                f,
                "its memory begins with {bytes} bytes; a policy has at most {MEMORY_BYTES_MAX}"
            ),
            Problem::Version(abi) => write!(
                f,
                "it speaks version {abi} of the interface, and this iopace version {ABI}: build \
                 it with the kit of this release"
            ),
            Problem::Call(name, why) => write!(f, "its {name} failed: {why}"),
            Problem::Description(why) => write!(f, "its description: {why}; {SEE}"),
            Problem::Desk(why) => write!(f, "its desk: {why}; {SEE}"),
            Problem::Taken(name) => {
                write!(f, "its name '{name}' is taken: give it another one in its description")
            }
            Problem::Loaded(name, path) => write!(
                f,
                "'{name}' is loaded from {} with other contents: unload it first, or put this \
                 one in its place ('iopace sched load --replace')",
                path.display()
            ),
        }
    }
}

/// A policy was not unloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnloadError {
    /// It is compiled in.
    BuiltIn(String),
    /// There is none of that name; the names of those that are loaded.
    NotLoaded(String, Vec<&'static str>),
}

impl fmt::Display for UnloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnloadError::BuiltIn(name) => write!(f, "'{name}' is built in and stays"),
            UnloadError::NotLoaded(name, loaded) if loaded.is_empty() => {
                write!(f, "no policy '{name}' is loaded; none is")
            }
            UnloadError::NotLoaded(name, loaded) => {
                write!(f, "no policy '{name}' is loaded; there are: {}", loaded.join(", "))
            }
        }
    }
}

impl std::error::Error for UnloadError {}
