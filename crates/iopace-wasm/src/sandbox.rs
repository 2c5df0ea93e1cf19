//! The engine that compiles and runs modules, the same for all, and the little that they see of the
//! host: a line of log.

use crate::cost;
use crate::limits::{
    FUEL_PER_LOG_LINE, LOG_LINE_BYTES_MAX, LOG_LINES_PER_CALL_MAX, MEMORY_BYTES_MAX,
    STACK_BYTES_MAX, TABLE_ELEMENTS_MAX,
};
use crate::text::printable;
use std::sync::{LazyLock, OnceLock};
use wasmtime::{
    Caller, Config, Engine, Extern, Linker, OptLevel, Store, StoreLimits, StoreLimitsBuilder, Trap,
    WasmFeatures,
};

/// A line that a policy logs: its name, or nothing while it is loaded, and the text, which has no
/// control characters.
pub type LogLine = fn(policy: &str, line: &str);

/// The taker of lines of log.
static LOG: OnceLock<LogLine> = OnceLock::new();

/// Says where lines of log go; without it they are dropped. The first call counts.
pub fn on_log(take: LogLine) {
    _ = LOG.set(take);
}

/// The part of the host that belongs to one instance.
#[derive(Debug)]
pub(crate) struct Host {
    limits: StoreLimits,
    policy: String,
    /// Lines of log that the present call may still write.
    pub(crate) lines_left: u32,
}

/// The engine.
pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(&config()).expect("the target is one that Cranelift compiles for")
});

/// The imports there are.
pub(crate) static LINKER: LazyLock<Linker<Host>> = LazyLock::new(|| {
    let mut linker = Linker::new(&ENGINE);
    linker.func_wrap("iopace", "log", log).expect("the only one of that name");
    linker
});

/// The part of WebAssembly that a policy may use, and how it is compiled.
fn config() -> Config {
    let mut config = Config::new();
    // Lime 1: what compilers emit by default. No reference types, SIMD, threads, tail calls.
    let features = WasmFeatures::LIME1.difference(WasmFeatures::GC_TYPES);
    config.wasm_features(WasmFeatures::all(), false).wasm_features(features, true);
    config.consume_fuel(true).operator_cost(cost::prices());
    config.max_wasm_stack(STACK_BYTES_MAX);
    config.cranelift_opt_level(OptLevel::Speed).cranelift_nan_canonicalization(true);
    // Checks in the code instead of guard pages. Those need handlers of SIGSEGV and SIGILL, which
    // are the process's: a fault of the daemon itself would come to them first. They also need
    // 4 GiB of addresses per instance, which a daemon that locks its memory has to account for. A
    // request costs fair as a module 390 ns more than compiled in, and 190 ns with guard pages.
    config.signals_based_traps(false);
    // A memory has its place in full from the beginning, so that it never moves.
    config.memory_reservation(MEMORY_BYTES_MAX as u64).memory_reservation_for_growth(0);
    config.memory_guard_size(0).memory_may_move(false).memory_init_cow(false);
    // Nobody unwinds through the code, or asks where in it a trap was.
    config.native_unwind_info(false).generate_address_map(false);
    config
}

/// A place for one instance.
pub(crate) fn store(policy: &str) -> Store<Host> {
    let limits = StoreLimitsBuilder::new().memory_size(MEMORY_BYTES_MAX);
    let limits = limits.table_elements(TABLE_ELEMENTS_MAX).instances(1).memories(1).tables(1);
    let (limits, policy) = (limits.build(), policy.to_owned());
    let mut store = Store::new(&ENGINE, Host { limits, policy, lines_left: 0 });
    store.limiter(|host| &mut host.limits);
    store
}

/// `iopace.log`: a text in the module's memory.
fn log(mut caller: Caller<'_, Host>, address: u32, length: u32) -> wasmtime::Result<()> {
    let fuel = caller.get_fuel()?;
    caller.set_fuel(fuel.saturating_sub(FUEL_PER_LOG_LINE))?;
    if fuel < FUEL_PER_LOG_LINE {
        return Err(Trap::OutOfFuel.into());
    }
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
        return Err(Trap::MemoryOutOfBounds.into());
    };
    let (memory, host) = memory.data_and_store_mut(&mut caller);
    let end = (address as usize).checked_add(length as usize).ok_or(Trap::MemoryOutOfBounds)?;
    let text = memory.get(address as usize..end).ok_or(Trap::MemoryOutOfBounds)?;
    if host.lines_left > 0 {
        host.lines_left -= 1;
        let text = &text[..text.len().min(LOG_LINE_BYTES_MAX)];
        if let Some(take) = LOG.get() {
            take(&host.policy, &printable(&String::from_utf8_lossy(text), LOG_LINE_BYTES_MAX));
        }
    }
    Ok(())
}

/// A call begins: it may write so many lines of log.
pub(crate) fn begin_call(store: &mut Store<Host>, fuel: u64) {
    store.set_fuel(fuel).expect("the engine counts fuel");
    store.data_mut().lines_left = LOG_LINES_PER_CALL_MAX;
}
