//! Fuel: the price of each instruction.
//!
//! Most cost one unit. These cost more, so that a call with all of its fuel ends within some 10 ms
//! of processor time whatever it does, or 32 ms if each load misses all caches
//! (`tests/longest.rs` measures that):
//! - loads: one that misses all caches and whose address depends on the one before takes 80 to 150
//!   ns, and a million of them took 146 ms;
//! - stores: they miss as well, but nothing waits for them;
//! - `memory.copy` and `memory.fill`: a byte is a unit, and one that has nothing to do calls the
//!   host all the same. A byte takes 0.2 ns where it misses all caches, and a unit 1 to 2 ns, so
//!   that this is dear; wasmtime counts whole units a byte, and with none a call had no end;
//! - `memory.grow`: a system call, and pages that the kernel clears;
//! - square roots and what is rounded: 9 and 6 ms for a million.
//!
//! The kernel clears each page when it is first written. That is in no price: it is once in the
//! life of an instance, 8,192 pages at most, and 1 us each on a slow machine.

use wasmtime::{OperatorCost, VariableOperatorCost};

/// A load.
const LOAD: u8 = 20;
/// A store.
const STORE: u8 = 8;
/// A call of the host that moves memory, without its bytes.
const MOVE: u8 = 16;
/// A square root, and what is rounded.
const ROOT: u8 = 4;

/// The prices.
pub(crate) fn prices() -> OperatorCost {
    OperatorCost {
        I32Load: LOAD,
        I64Load: LOAD,
        F32Load: LOAD,
        F64Load: LOAD,
        I32Load8S: LOAD,
        I32Load8U: LOAD,
        I32Load16S: LOAD,
        I32Load16U: LOAD,
        I64Load8S: LOAD,
        I64Load8U: LOAD,
        I64Load16S: LOAD,
        I64Load16U: LOAD,
        I64Load32S: LOAD,
        I64Load32U: LOAD,
        // It looks the function up in memory.
        CallIndirect: LOAD,
        I32Store: STORE,
        I64Store: STORE,
        F32Store: STORE,
        F64Store: STORE,
        I32Store8: STORE,
        I32Store16: STORE,
        I64Store8: STORE,
        I64Store16: STORE,
        I64Store32: STORE,
        MemoryCopy: MOVE,
        MemoryFill: MOVE,
        MemoryGrow: 250,
        F32Sqrt: ROOT,
        F64Sqrt: ROOT,
        F32Div: ROOT,
        F64Div: ROOT,
        F32Ceil: ROOT,
        F32Floor: ROOT,
        F32Trunc: ROOT,
        F32Nearest: ROOT,
        F64Ceil: ROOT,
        F64Floor: ROOT,
        F64Trunc: ROOT,
        F64Nearest: ROOT,
        variable: VariableOperatorCost { memory_grow_per_page: 64, ..Default::default() },
        ..OperatorCost::new()
    }
}
