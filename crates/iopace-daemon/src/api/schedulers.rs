//! The schedulers that there are, over the control socket: those that are compiled in, and those
//! that were loaded.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scheduler that can be inserted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// Whether devices have it for which none is named (`auto`).
    #[serde(default)]
    pub default: bool,
    /// Its parameters.
    pub params: Vec<ParamReport>,
    /// Its counters.
    pub counters: Vec<CounterReport>,
    /// The module that it came from, if it was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<LoadedPolicy>,
}

/// A scheduler that failed, and that fifo stands in for until another one is put in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedReport {
    /// Its name.
    pub name: String,
    /// Its failure, in words.
    pub text: String,
    /// The time since then.
    pub age_ns: u64,
}

/// A parameter of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParamReport {
    /// Its name, as in `--set name=value`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Smallest legal value.
    pub min: u64,
    /// The value without any setting.
    pub default: u64,
    /// Largest legal value.
    pub max: u64,
    /// What it does.
    pub doc: String,
}

/// A counter of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CounterReport {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub doc: String,
}

/// A policy that was loaded: a scheduler that came as a WebAssembly module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadedPolicy {
    /// Its name: that of its scheduler.
    pub name: String,
    /// Its version, as its description has it.
    pub version: String,
    /// What it does.
    pub summary: String,
    /// The SHA-256 of the module, in hexadecimal digits.
    pub digest: String,
    /// Size of the module.
    pub size_bytes: u64,
    /// The file that it came from, as whoever loaded it says; empty if that was not said.
    #[serde(default)]
    pub path: String,
}

impl LoadedPolicy {
    /// Its version, size and the first twelve digits of its digest, in words.
    pub fn words(&self) -> String {
        let digest = self.digest.get(..12).unwrap_or(&self.digest);
        let size = self.size_bytes.div_ceil(1024);
        format!("version {}, {size} KiB, sha256 {digest}", self.version)
    }
}
