//! Power cuts of the machine, recorded and tried.
//!
//! ```text
//!  caller ──► iopace ──► recorder   a file system in memory that keeps a record of what arrives
//!    │                      │
//!    │ what was promised    │ cut: every state that a power cut may leave at a moment
//!    ▼                      ▼
//!  promise ───────────────► does each state keep what was promised by then?
//! ```
//! The model, and what is promised: `docs/power-cuts.md`.

pub mod ace;
pub mod bench;
pub mod cut;
pub mod faults;
pub mod load;
pub mod logwrites;
pub mod node;
pub mod programs;
pub mod promise;
pub mod recorder;
pub mod report;
pub mod tree;
