//! A module: compiled, its imports and exports checked, and described by itself.

use crate::cache::CodeCache;
use crate::describe::Description;
use crate::error::Problem;
use crate::instance::{Failure, Fresh};
use crate::limits::{ABI, DESCRIPTION_BYTES_MAX, MEMORY_BYTES_MAX};
use crate::sandbox::{ENGINE, Host, LINKER};
use crate::text::printable;
use core::fmt;
use wasmtime::{ExternType, FuncType, InstancePre};

/// The seed of every instance: two of the same module that are asked the same answer the same.
pub(crate) const SEED: u64 = 0x1095_ACE5;

/// A module that can be run.
pub(crate) struct Module {
    pub(crate) ready: InstancePre<Host>,
    pub(crate) description: Description,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.description.name)
    }
}

/// A function that a module exports.
struct Export {
    name: &'static str,
    signature: &'static str,
    is_needed: bool,
}

/// One that has to be there.
const fn needed(name: &'static str, signature: &'static str) -> Export {
    Export { name, signature, is_needed: true }
}

/// One that may be there.
const fn optional(name: &'static str, signature: &'static str) -> Export {
    Export { name, signature, is_needed: false }
}

/// The functions of the contract.
const EXPORTS: [Export; 11] = [
    needed("iopace_abi", "() -> i32"),
    needed("iopace_describe", "() -> i64"),
    needed("iopace_make", "(i64, i32) -> i32"),
    needed("iopace_pop", "(i64, i32, i32) -> i32"),
    needed("iopace_events", "(i32) -> ()"),
    needed("iopace_configure", "(i32) -> ()"),
    optional("iopace_counters", "(i32) -> ()"),
    optional("iopace_join", "(i64, i32, i32, i64, i32, i64) -> i32"),
    optional("iopace_disk", "(i32) -> i32"),
    optional("iopace_dump", "() -> i64"),
    optional("iopace_wait_max", "(i32, i64, i64, i64) -> i64"),
];

impl Module {
    /// Compiles and describes a module; its code may come from the cache, which the second value
    /// says.
    pub(crate) fn new(bytes: &[u8], cache: Option<&CodeCache>) -> Result<(Module, bool), Problem> {
        is_module(bytes)?;
        let cached = cache.and_then(|cache| cache.get(bytes));
        let was_cached = cached.is_some();
        let code = match cached {
            Some(code) => code,
            None => {
                wasmtime::Module::from_binary(&ENGINE, bytes).map_err(|error| refused(&error))?
            }
        };
        check_imports(&code)?;
        check_exports(&code)?;
        if let (Some(cache), false) = (cache, was_cached) {
            cache.put(bytes, &code);
        }
        let ready = LINKER.instantiate_pre(&code).map_err(|error| refused(&error))?;
        let (name, version, summary) = (String::new(), String::new(), String::new());
        let (parameters, counters) = (Vec::new(), Vec::new());
        let (learns, run_ahead, divides) = (false, false, false);
        let nothing = Description {
            name,
            version,
            summary,
            parameters,
            counters,
            learns,
            run_ahead,
            divides,
        };
        let mut module = Module { ready, description: nothing };
        module.description = module.describe()?;
        module.try_out()?;
        let exports_counters = code.get_export("iopace_counters").is_some();
        match module.description.counters.is_empty() || exports_counters {
            true => Ok((module, was_cached)),
            false => Err(Problem::NoExport("iopace_counters")),
        }
    }

    /// Its parameters at their defaults.
    pub(crate) fn defaults(&self) -> Vec<u64> {
        self.description.parameters.iter().map(|parameter| parameter.default).collect()
    }

    fn describe(&self) -> Result<Description, Problem> {
        let mut fresh = Fresh::new(&self.ready, "").map_err(failed)?;
        let abi = fresh.abi().map_err(failed)?;
        if abi != ABI {
            return Err(Problem::Version(abi));
        }
        let json = fresh.describe(DESCRIPTION_BYTES_MAX).map_err(failed)?;
        Description::read(&json).map_err(Problem::Description)
    }

    /// Makes an instance as a device does, so that a mistake shows here.
    fn try_out(&self) -> Result<(), Problem> {
        let fresh = Fresh::new(&self.ready, &self.description.name).map_err(failed)?;
        fresh.make(SEED, None, &self.defaults()).map_err(failed)?;
        Ok(())
    }
}

/// A call has failed while the module was looked at.
fn failed(failure: Failure) -> Problem {
    Problem::Call(failure.call, failure.why)
}

/// Whether it begins as a module does.
fn is_module(bytes: &[u8]) -> Result<(), Problem> {
    let what = match bytes {
        [] => "it is empty",
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => {
            "it is a component; build a core module (target wasm32-unknown-unknown)"
        }
        [0, b'a', b's', b'm', ..] => "its version is not 1",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is a program or library of this machine; build it with --target \
             wasm32-unknown-unknown"
        }
        [b'(', ..] => "it is WebAssembly as text; make a binary of it with wat2wasm",
        _ => "it does not begin with \\0asm",
    };
    Err(Problem::NoModule(what))
}

/// The compiler, or the memory for its code, has refused it.
fn refused(error: &wasmtime::Error) -> Problem {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    if causes.iter().any(|cause| cause.contains("unable to make memory executable")) {
        return Problem::NotExecutable;
    }
    Problem::Invalid(printable(&causes.join(": "), 400))
}

fn check_imports(code: &wasmtime::Module) -> Result<(), Problem> {
    for import in code.imports() {
        let name = printable(&format!("{}.{}", import.module(), import.name()), 200);
        match import.ty() {
            ExternType::Func(of) if (import.module(), import.name()) == ("iopace", "log") => {
                if signature(&of) != "(i32, i32) -> ()" {
                    return Err(Problem::Import(format!("{name} as {}", signature(&of))));
                }
            }
            _ => return Err(Problem::Import(name)),
        }
    }
    Ok(())
}

fn check_exports(code: &wasmtime::Module) -> Result<(), Problem> {
    match code.get_export("memory") {
        Some(ExternType::Memory(memory)) => {
            let bytes = memory.minimum().saturating_mul(memory.page_size());
            if bytes > MEMORY_BYTES_MAX as u64 {
                return Err(Problem::Memory(bytes));
            }
        }
        Some(_) => return Err(Problem::Export("memory", "something else".into(), "a memory")),
        None => return Err(Problem::NoExport("memory")),
    }
    for Export { name, signature: wanted, is_needed } in EXPORTS {
        match code.get_export(name) {
            Some(ExternType::Func(of)) if signature(&of) == wanted => {}
            Some(ExternType::Func(of)) => {
                return Err(Problem::Export(name, signature(&of), wanted));
            }
            Some(_) => return Err(Problem::Export(name, "no function".into(), wanted)),
            None if is_needed => return Err(Problem::NoExport(name)),
            None => {}
        }
    }
    Ok(())
}

/// The parameters and results of a function as text.
fn signature(of: &FuncType) -> String {
    let list = |types: Vec<String>| types.join(", ");
    let params = list(of.params().map(|of| of.to_string()).collect());
    let results: Vec<String> = of.results().map(|of| of.to_string()).collect();
    match results.as_slice() {
        [one] => format!("({params}) -> {one}"),
        _ => format!("({params}) -> ({})", list(results)),
    }
}
