//! The policies that are loaded, and those that ever were.

use crate::cache::CodeCache;
use crate::error::{LoadError, Problem, UnloadError};
use crate::limits::{COMPILER_STACK_BYTES, MODULE_BYTES_MAX};
use crate::module::{Module, SEED};
use crate::policy::{self, Policy};
use crate::text::hexadecimal;
use crate::{instance::Fresh, read};
use iopace_core::sched::{
    self, Algorithm, CounterSpec, Load, ParamSpec, Params, Profile, REGISTRY, Scheduler,
    profile::WaitMax,
};
use iopace_core::time::Nanos;
use sha2::{Digest, Sha256};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A policy that is, or was, loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Its line in the registry of schedulers.
    pub algorithm: &'static Algorithm,
    /// Its version, as it says.
    pub version: &'static str,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// The file that it is from.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: usize,
    /// Whether its compiled code was there from an earlier time.
    pub was_cached: bool,
}

/// All of them. A device may run one that was unloaded, so that none ever goes.
struct Known {
    /// Each distinct module and place that it was loaded from.
    all: Vec<&'static Loaded>,
    /// Those that are in the registry.
    current: Vec<&'static Loaded>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { all: Vec::new(), current: Vec::new() });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads a file as a policy: from now on it is a scheduler of the registry. Compiling takes up to
/// some hundred milliseconds; compiled code is kept in a cache. The same contents again are the
/// same policy.
///
/// # Errors
/// The file, the place in it and the remedy; nothing is changed then.
pub fn load(path: &Path) -> Result<&'static Loaded, LoadError> {
    let bytes = read::module(path).map_err(|problem| error(path, problem))?;
    load_from(path, &bytes, CodeCache::open().as_ref())
}

/// Whether compiled code is looked for, and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// In the cache of this user.
    OfUser,
    /// It is compiled each time.
    Off,
}

/// The same with the contents of a file; `path` is the name of their place.
///
/// # Errors
/// As [`load`].
pub fn load_bytes(
    path: &Path,
    bytes: &[u8],
    caching: Caching,
) -> Result<&'static Loaded, LoadError> {
    let cache = if caching == Caching::OfUser { CodeCache::open() } else { None };
    load_from(path, bytes, cache.as_ref())
}

fn load_from(
    path: &Path,
    bytes: &[u8],
    cache: Option<&CodeCache>,
) -> Result<&'static Loaded, LoadError> {
    if bytes.len() > MODULE_BYTES_MAX {
        return Err(error(path, Problem::TooLarge(bytes.len() as u64)));
    }
    let digest = hexadecimal(&Sha256::digest(bytes));
    let again = known().again(path, &digest);
    if let Some(again) = again {
        return again.map_err(|problem| error(path, problem));
    }
    let (module, was_cached) = compile(bytes, cache).map_err(|problem| error(path, problem))?;
    let mut known = known();
    // Another thread may have loaded it meanwhile.
    if let Some(again) = known.again(path, &digest) {
        return again.map_err(|problem| error(path, problem));
    }
    known.is_free(&module.description.name).map_err(|problem| error(path, problem))?;
    let version = leak(&module.description.version);
    let algorithm = algorithm(Arc::new(module));
    let (path, size) = (path.to_owned(), bytes.len());
    let loaded = Loaded { algorithm, version, digest, path, size, was_cached };
    known.enter(loaded).map_err(|(path, problem)| LoadError { path, problem })
}

/// Compiles it on a thread of its own, as that of the caller may have a small stack.
fn compile(bytes: &[u8], cache: Option<&CodeCache>) -> Result<(Module, bool), Problem> {
    let compiler = thread::Builder::new().name("compiler".into()).stack_size(COMPILER_STACK_BYTES);
    thread::scope(|scope| {
        let compiling = compiler.spawn_scoped(scope, || Module::new(bytes, cache));
        let compiling = compiling.map_err(|error| {
            Problem::Unreadable(format!("no thread can be started to compile it: {error}"))
        })?;
        let panicked = || Problem::Invalid("the compiler panicked".into());
        compiling.join().unwrap_or_else(|_| Err(panicked()))
    })
}

fn error(path: &Path, problem: Problem) -> LoadError {
    LoadError { path: path.to_owned(), problem }
}

/// Takes a policy out of the registry. Devices that run it keep it.
///
/// # Errors
/// No policy of that name is loaded.
pub fn unload(name: &str) -> Result<(), UnloadError> {
    let mut known = known();
    let Some(place) = known.current.iter().position(|loaded| loaded.algorithm.name == name) else {
        let built_in = REGISTRY.iter().any(|algorithm| algorithm.name == name);
        return Err(match built_in {
            true => UnloadError::BuiltIn(name.into()),
            false => {
                let names = known.current.iter().map(|loaded| loaded.algorithm.name);
                UnloadError::NotLoaded(name.into(), names.collect())
            }
        });
    };
    sched::remove(name);
    known.current.remove(place);
    Ok(())
}

/// The policies that are loaded, in the order in which they were.
pub fn loaded() -> Vec<&'static Loaded> {
    known().current.clone()
}

impl Known {
    /// The same module once more, if it was loaded before.
    fn again(&mut self, path: &Path, digest: &str) -> Option<Result<&'static Loaded, Problem>> {
        if let Some(loaded) = self.current.iter().find(|loaded| loaded.digest == digest) {
            return Some(Ok(loaded));
        }
        let mut before = self.all.iter().filter(|loaded| loaded.digest == digest);
        let any = *before.next()?;
        let same_place = [any].into_iter().chain(before.copied()).find(|of| of.path == path);
        if let Err(problem) = self.is_free(any.algorithm.name) {
            return Some(Err(problem));
        }
        let Some(loaded) = same_place else {
            let Loaded { algorithm, version, size, was_cached, .. } = *any;
            let (digest, path) = (digest.to_owned(), path.to_owned());
            let loaded = Loaded { algorithm, version, digest, path, size, was_cached };
            return Some(self.enter(loaded).map_err(|(_, problem)| problem));
        };
        match sched::add(loaded.algorithm) {
            Ok(()) => self.current.push(loaded),
            Err(_) => return Some(Err(Problem::Taken(loaded.algorithm.name.into()))),
        }
        Some(Ok(loaded))
    }

    /// Whether no other policy is loaded under the name.
    fn is_free(&self, name: &str) -> Result<(), Problem> {
        match self.current.iter().find(|loaded| loaded.algorithm.name == name) {
            Some(other) => Err(Problem::Loaded(name.into(), other.path.clone())),
            None => Ok(()),
        }
    }

    /// Adds one to the registry.
    fn enter(&mut self, loaded: Loaded) -> Result<&'static Loaded, (PathBuf, Problem)> {
        if sched::add(loaded.algorithm).is_err() {
            let name = loaded.algorithm.name.into();
            return Err((loaded.path, Problem::Taken(name)));
        }
        let loaded = Box::leak(Box::new(loaded));
        self.all.push(loaded);
        self.current.push(loaded);
        Ok(loaded)
    }
}

/// The line of a module in the registry.
fn algorithm(module: Arc<Module>) -> &'static Algorithm {
    let description = &module.description;
    let params = description.parameters.iter().map(|of| ParamSpec {
        name: leak(&of.name),
        unit: leak(&of.unit),
        min: of.min,
        default: of.default,
        max: of.max,
        doc: leak(&of.doc),
    });
    let counters = description.counters.iter();
    let counters = counters.map(|of| CounterSpec { name: leak(&of.name), doc: leak(&of.doc) });
    let profile = Profile {
        closed_loop_wait: wait_max(&module, 0, &Load::CLOSED_LOOP),
        stream_wait: wait_max(&module, 1, &Load::STREAM),
        divides: description.divides,
        is_compared: false,
    };
    let (name, summary) = (leak(&description.name), leak(&description.summary));
    let (params, counters) = (Vec::leak(params.collect()), Vec::leak(counters.collect()));
    let build = move |params: &Params| -> Box<dyn Scheduler> {
        match Policy::new(&module, policy::values(params)) {
            Ok(policy) => Box::new(policy),
            // A device that cannot have it stays with the one it has.
            Err(failure) => resume_unwind(Box::new(failure.fault)),
        }
    };
    let build = Box::leak(Box::new(build));
    Box::leak(Box::new(Algorithm { name, summary, params, counters, profile, build }))
}

/// The promise of a module beside a kind of load, if it makes one there with its defaults.
fn wait_max(module: &Arc<Module>, kind: u32, load: &Load) -> Option<WaitMax> {
    let asked = move |module: &Module, values: &[u64], load: &Load| {
        let fresh = Fresh::new(&module.ready, &module.description.name)?;
        fresh.make(SEED, None, values)?.wait_max(kind, load)
    };
    let bound = asked(module, &module.defaults(), load).unwrap_or_default();
    if bound == Nanos::ZERO {
        return None;
    }
    let module = Arc::clone(module);
    Some(Box::leak(Box::new(move |params: &Params, load: &Load| {
        asked(&module, &policy::values(params), load).unwrap_or_default()
    })))
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
