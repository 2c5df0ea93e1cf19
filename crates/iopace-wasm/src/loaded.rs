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
use std::fmt;
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
    load_bytes(path, &bytes, Caching::OfUser)
}

/// The fate of a policy that is loaded under the same name with other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfItsName {
    /// It stays, and the new one is refused.
    Stays,
    /// It goes.
    Goes,
}

/// A policy was loaded in the place of another one.
#[derive(Clone, Copy, Debug)]
pub struct Replacement {
    /// The new one.
    pub loaded: &'static Loaded,
    /// The one that was found by its name before; itself if it has the same contents.
    pub former: Option<&'static Loaded>,
}

impl Replacement {
    /// All is found as it was before; what was loaded or unloaded since then stays so.
    pub fn undo(self) {
        let Replacement { loaded, former } = self;
        let mut known = known();
        let place = known.current.iter().position(|current| std::ptr::eq(*current, loaded));
        let Some(place) = place else { return };
        match former {
            Some(former) => {
                if sched::replace(former.algorithm).is_ok() {
                    known.current[place] = former;
                }
            }
            None => {
                sched::remove(loaded.algorithm.name);
                known.current.remove(place);
            }
        }
    }
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
    Compiled::new(path, bytes, caching)?.load()
}

/// The same in the place of what is loaded under its name, if anything is. Devices that have the
/// former one keep it.
///
/// # Errors
/// As [`load`].
pub fn replace_bytes(
    path: &Path,
    bytes: &[u8],
    caching: Caching,
) -> Result<Replacement, LoadError> {
    Compiled::new(path, bytes, caching)?.replace()
}

/// A module that is compiled, and not found by its name yet: compiling takes long, the rest does
/// not.
pub struct Compiled {
    path: PathBuf,
    digest: String,
    /// Bytes of the file.
    size: usize,
    /// The module, and whether its code was in the cache; none if it was loaded before.
    module: Option<(Module, bool)>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiled { path, digest, size, .. } = self;
        write!(f, "Compiled({}, {size} bytes, {digest})", path.display())
    }
}

impl Compiled {
    /// Compiles the contents of a file; `path` is the name of their place.
    ///
    /// # Errors
    /// As [`load`], but for a name that is taken.
    pub fn new(path: &Path, bytes: &[u8], caching: Caching) -> Result<Compiled, LoadError> {
        let size = bytes.len();
        if size > MODULE_BYTES_MAX {
            return Err(error(path, Problem::TooLarge(size as u64)));
        }
        let digest = hexadecimal(&Sha256::digest(bytes));
        let is_known = known().all.iter().any(|loaded| loaded.digest == digest);
        let module = match is_known {
            true => None,
            false => {
                let cache = if caching == Caching::OfUser { CodeCache::open() } else { None };
                let compiled = compile(bytes, cache.as_ref());
                Some(compiled.map_err(|problem| error(path, problem))?)
            }
        };
        Ok(Compiled { path: path.to_owned(), digest, size, module })
    }

    /// Makes it a scheduler of the registry.
    ///
    /// # Errors
    /// Its name is taken; nothing is changed then.
    pub fn load(self) -> Result<&'static Loaded, LoadError> {
        self.enter(OfItsName::Stays).map(|done| done.loaded)
    }

    /// The same in the place of what is loaded under its name, as [`replace_bytes`].
    ///
    /// # Errors
    /// Its name is that of a scheduler that is built in; nothing is changed then.
    pub fn replace(self) -> Result<Replacement, LoadError> {
        self.enter(OfItsName::Goes)
    }

    fn enter(self, other: OfItsName) -> Result<Replacement, LoadError> {
        let Compiled { path, digest, size, module } = self;
        let mut known = known();
        // It was loaded before, maybe by another thread meanwhile.
        if let Some(again) = known.again(&path, &digest, other) {
            return again.map_err(|problem| error(&path, problem));
        }
        let (module, was_cached) = module.expect("what was ever loaded is known for good");
        known.may_have(&module.description.name, other).map_err(|problem| error(&path, problem))?;
        let version = leak(&module.description.version);
        let algorithm = algorithm(Arc::new(module));
        let loaded = Loaded { algorithm, version, digest, path, size, was_cached };
        known.enter(loaded, other).map_err(|(path, problem)| LoadError { path, problem })
    }
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
    fn again(
        &mut self,
        path: &Path,
        digest: &str,
        other: OfItsName,
    ) -> Option<Result<Replacement, Problem>> {
        if let Some(loaded) = self.current.iter().find(|loaded| loaded.digest == digest) {
            return Some(Ok(Replacement { loaded, former: Some(loaded) }));
        }
        let mut before = self.all.iter().filter(|loaded| loaded.digest == digest);
        let any = *before.next()?;
        let same_place = [any].into_iter().chain(before.copied()).find(|of| of.path == path);
        if let Err(problem) = self.may_have(any.algorithm.name, other) {
            return Some(Err(problem));
        }
        let Some(loaded) = same_place else {
            let Loaded { algorithm, version, size, was_cached, .. } = *any;
            let (digest, path) = (digest.to_owned(), path.to_owned());
            let loaded = Loaded { algorithm, version, digest, path, size, was_cached };
            return Some(self.enter(loaded, other).map_err(|(_, problem)| problem));
        };
        match register(loaded.algorithm, other) {
            Ok(()) => Some(Ok(Replacement { loaded, former: self.put(loaded) })),
            Err(_) => Some(Err(Problem::Taken(loaded.algorithm.name.into()))),
        }
    }

    /// Whether the name may be that of a new one.
    fn may_have(&self, name: &str, other: OfItsName) -> Result<(), Problem> {
        match self.current.iter().find(|loaded| loaded.algorithm.name == name) {
            Some(known) if other == OfItsName::Stays => {
                Err(Problem::Loaded(name.into(), known.path.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Adds one to the registry.
    fn enter(
        &mut self,
        loaded: Loaded,
        other: OfItsName,
    ) -> Result<Replacement, (PathBuf, Problem)> {
        if register(loaded.algorithm, other).is_err() {
            let name = loaded.algorithm.name.into();
            return Err((loaded.path, Problem::Taken(name)));
        }
        let loaded = Box::leak(Box::new(loaded));
        self.all.push(loaded);
        Ok(Replacement { loaded, former: self.put(loaded) })
    }

    /// Lists one as loaded, in the place of the one of its name, which it returns.
    fn put(&mut self, loaded: &'static Loaded) -> Option<&'static Loaded> {
        let is_same = |known: &&mut &'static Loaded| known.algorithm.name == loaded.algorithm.name;
        match self.current.iter_mut().find(is_same) {
            Some(place) => Some(std::mem::replace(place, loaded)),
            None => {
                self.current.push(loaded);
                None
            }
        }
    }
}

/// Has a scheduler found by its name.
fn register(algorithm: &'static Algorithm, other: OfItsName) -> Result<(), sched::Taken> {
    match other {
        OfItsName::Stays => sched::add(algorithm),
        OfItsName::Goes => sched::replace(algorithm).map(drop),
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
