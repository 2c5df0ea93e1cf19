//! Measuring a disk, real or modelled, and fitting a model to what was measured.
//!
//! ```text
//!  plan ──► measure ──► figures ──► fit ──► parameters ──► the model, measured by the same steps
//!            │ real file: iopace-daemon             │           │
//!            └ model in virtual time: Modelled      └ assumed   └► error of each figure
//! ```
//! The same code measures a real disk and a model: both stand behind [`Measured`]. So the error of
//! a fitted model is not estimated, it is measured; and a preset, measured as if it were unknown,
//! shows whether the rules of the fit find its parameters again.
//!
//! # Limits
//! A step sees a mean. What happens seldom (stalls, collection after hours of writing, heat) is not
//! found. A file is measured as the disk that it seems to be: its size is the stroke of the arm.

mod fit;
mod fitness;
mod measure;
mod modelled;
mod plan;

#[cfg(test)]
mod tests;

pub use fit::{Fit, Fitted, Model, Nature, Row, compare, fit, mean_error};
pub use fitness::{Fitness, MEAN_ERROR_MAX, WORST_ERROR_MAX};
pub use measure::{Figure, Limits, Trouble, measure};
pub use modelled::TimedModel;
pub use plan::{FigureUnit, PlanStep, StepKind, plan};

use crate::disk::{Command, Completion};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

/// The smallest disk or file that is measured: below it the distances mean nothing.
pub const SIZE_MIN: Bytes = Bytes(16 << 20);

/// Most commands outstanding in any step.
pub const DEPTH_MAX: u32 = 64;

/// A disk that can be measured.
pub trait Measured {
    /// Its size.
    fn capacity(&self) -> Bytes;

    /// The present time.
    fn now(&self) -> Instant;

    /// Takes a command; at most [`DEPTH_MAX`] are outstanding.
    fn submit(&mut self, command: Command);

    /// Waits for the next completion, and says when it came.
    fn wait(&mut self) -> (Instant, Completion);

    /// Whether whoever asked wants no more.
    fn is_stopped(&self) -> bool {
        false
    }
}
