//! Fuel: the price of each instruction.
//!
//! Most cost one unit. These cost more, so that a call with all of its fuel ends within 10 ms of
//! processor time whatever it does (`tests/longest.rs` measures that):
//! - instructions that call the host (`memory.grow`, `memory.copy`, `memory.fill`): each takes as
//!   long as some dozen others, also where it has nothing to do;
//! - `memory.copy` and `memory.fill` by what they move: a byte is a unit. A page that is written
//!   for the first time is cleared by the kernel on top of that.

use wasmtime::{OperatorCost, VariableOperatorCost};

/// The prices.
pub(crate) fn prices() -> OperatorCost {
    OperatorCost {
        MemoryGrow: 250,
        MemoryCopy: 8,
        MemoryFill: 8,
        variable: VariableOperatorCost { memory_grow_per_page: 64, ..Default::default() },
        ..OperatorCost::new()
    }
}
