//! Groups as users see them: [`tree`] has their names, parents and members; [`files`] are their
//! settings as lines of text under the names of cgroup v2.
//!
//! A device knows neither: it is told by [`iopace_core::engine::Control`] what holds for a number.

pub mod cgroup;
pub mod files;
pub mod limits;
mod own;
pub mod tree;
