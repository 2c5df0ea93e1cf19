//! Loadable policies: schedulers that come as WebAssembly modules while the process runs
//! (`docs/policy-abi.md`). A build without the feature `policies` has none, and says so.

#[cfg(feature = "policies")]
mod lines;

use crate::api::LoadedPolicy;
use crate::runtime_files::read_module;
use iopace_core::sched::Algorithm;
use std::path::Path;

/// Largest module, in bytes: `docs/policy-abi.md` has the reason.
pub const MODULE_BYTES_MAX: u64 = 4 << 20;

/// Why a policy was not loaded, or not unloaded; nothing was changed. Each message says what would
/// be right.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// This program cannot load any.
    #[error(
        "this build of iopace has no loadable policies; build it with the feature 'policies' \
         (cargo build --features policies)"
    )]
    NotBuilt,
    /// It is no policy, or none that can be loaded here.
    #[error("{0}")]
    Refused(String),
    /// Its name belongs to another scheduler.
    #[error("{0}")]
    Taken(String),
    /// There is none of that name.
    #[error("{0}")]
    Unknown(String),
}

/// Whether a word that stands where a scheduler is named is the path of a module.
pub fn is_file(word: &str) -> bool {
    word.contains('/') || word.ends_with(".wasm")
}

/// Reads and compiles a module; its scheduler is found by its name from then on. The same module
/// again is no mistake.
///
/// # Errors
/// See [`PolicyError`].
pub fn load(path: &Path) -> Result<LoadedPolicy, PolicyError> {
    // It is told to others, who are elsewhere.
    host::load(&std::path::absolute(path).unwrap_or(path.to_owned()))
}

/// Reads a module without a look into it.
///
/// # Errors
/// It cannot be read, is no plain file, or is larger than [`MODULE_BYTES_MAX`].
pub fn read(path: &Path) -> Result<Vec<u8>, PolicyError> {
    read_module(path, MODULE_BYTES_MAX)
        .map_err(|error| PolicyError::Refused(format!("{}: {error}", path.display())))
}

#[cfg(feature = "policies")]
mod host {
    use super::{Algorithm, CompiledPolicy, LoadedPolicy, Path, PolicyError, Replacement, lines};
    use iopace_wasm::{Caching, Compiled, LoadError, Loaded, Problem, UnloadError};

    pub(super) fn load(path: &Path) -> Result<LoadedPolicy, PolicyError> {
        iopace_wasm::on_log(lines::write);
        iopace_wasm::load(path).map(taken_over).map_err(refused)
    }

    /// Compiles a module that was read already; `path` is its name in messages. Nothing finds it
    /// yet.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn compile(path: &Path, module: &[u8]) -> Result<CompiledPolicy, PolicyError> {
        iopace_wasm::on_log(lines::write);
        let compiled = Compiled::new(path, module, Caching::OfUser).map_err(refused)?;
        Ok(CompiledPolicy { compiled })
    }

    impl CompiledPolicy {
        /// Has its scheduler found by its name.
        ///
        /// # Errors
        /// The name is taken.
        pub fn load(self) -> Result<LoadedPolicy, PolicyError> {
            self.compiled.load().map(taken_over).map_err(refused)
        }

        /// The same in the place of the policy of its name, if one is loaded.
        ///
        /// # Errors
        /// The name is that of a scheduler that is built in.
        pub fn replace(self) -> Result<Replacement, PolicyError> {
            let replaced = self.compiled.replace().map_err(refused)?;
            Ok(Replacement { policy: taken_over(replaced.loaded), replaced })
        }
    }

    impl Replacement {
        /// Its scheduler, which is found by its name now.
        pub fn algorithm(&self) -> &'static Algorithm {
            self.replaced.loaded.algorithm
        }

        /// All is found as it was before.
        pub fn undo(self) {
            self.replaced.undo();
        }
    }

    fn refused(error: LoadError) -> PolicyError {
        let text = error.to_string();
        match error.problem {
            Problem::Taken(_) | Problem::Loaded(..) => PolicyError::Taken(text),
            _ => PolicyError::Refused(text),
        }
    }

    fn taken_over(loaded: &Loaded) -> LoadedPolicy {
        tracing::info!(
            policy = loaded.algorithm.name,
            version = loaded.version,
            digest = loaded.digest,
            compiled = !loaded.was_cached,
            "policy loaded"
        );
        told(loaded)
    }

    /// Takes a policy out again: its scheduler is not found any more. Devices that have it keep it.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn unload(name: &str) -> Result<(), PolicyError> {
        iopace_wasm::unload(name).map_err(|error| {
            let text = error.to_string();
            match error {
                UnloadError::BuiltIn(_) => PolicyError::Taken(text),
                UnloadError::NotLoaded(..) => PolicyError::Unknown(text),
            }
        })?;
        tracing::info!(policy = name, "policy unloaded");
        Ok(())
    }

    /// The policies that are loaded.
    pub fn loaded() -> Vec<LoadedPolicy> {
        iopace_wasm::loaded().into_iter().map(told).collect()
    }

    fn told(loaded: &Loaded) -> LoadedPolicy {
        LoadedPolicy {
            name: loaded.algorithm.name.into(),
            version: loaded.version.to_string(),
            summary: loaded.algorithm.summary.into(),
            digest: loaded.digest.clone(),
            size_bytes: loaded.size as u64,
            path: loaded.path.display().to_string(),
        }
    }
}

#[cfg(not(feature = "policies"))]
mod host {
    use super::{Algorithm, CompiledPolicy, LoadedPolicy, Path, PolicyError, Replacement};

    pub(super) fn load(_path: &Path) -> Result<LoadedPolicy, PolicyError> {
        Err(PolicyError::NotBuilt)
    }

    /// Refuses: this build has no loadable policies.
    ///
    /// # Errors
    /// [`PolicyError::NotBuilt`].
    pub fn compile(_path: &Path, _module: &[u8]) -> Result<CompiledPolicy, PolicyError> {
        Err(PolicyError::NotBuilt)
    }

    impl CompiledPolicy {
        /// There is none of this type.
        ///
        /// # Errors
        /// None.
        pub fn load(self) -> Result<LoadedPolicy, PolicyError> {
            match self.never {}
        }

        /// There is none of this type.
        ///
        /// # Errors
        /// None.
        pub fn replace(self) -> Result<Replacement, PolicyError> {
            match self.never {}
        }
    }

    impl Replacement {
        /// There is none of this type.
        pub fn algorithm(&self) -> &'static Algorithm {
            match self.never {}
        }

        /// There is none of this type.
        pub fn undo(self) {
            match self.never {}
        }
    }

    /// Refuses: this build has no loadable policies.
    ///
    /// # Errors
    /// [`PolicyError::NotBuilt`].
    pub fn unload(_name: &str) -> Result<(), PolicyError> {
        Err(PolicyError::NotBuilt)
    }

    /// None: this build has no loadable policies.
    pub fn loaded() -> Vec<LoadedPolicy> {
        Vec::new()
    }
}

/// A policy that is compiled, and not found by its name yet.
#[derive(Debug)]
pub struct CompiledPolicy {
    #[cfg(feature = "policies")]
    compiled: iopace_wasm::Compiled,
    #[cfg(not(feature = "policies"))]
    never: std::convert::Infallible,
}

/// A policy that was loaded, maybe in the place of another one.
#[derive(Debug)]
pub struct Replacement {
    /// The policy.
    pub policy: LoadedPolicy,
    #[cfg(feature = "policies")]
    replaced: iopace_wasm::Replacement,
    #[cfg(not(feature = "policies"))]
    never: std::convert::Infallible,
}

pub use host::{compile, loaded, unload};

/// The loaded policy of that name.
pub fn find(name: &str) -> Option<LoadedPolicy> {
    loaded().into_iter().find(|policy| policy.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_a_name() {
        for file in ["./fifo", "/x/mine", "mine.wasm", "dir/mine"] {
            assert!(is_file(file), "{file}");
        }
        for name in ["fifo", "mine", "auto", "wasm", "none"] {
            assert!(!is_file(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_not_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let refused = |name: &str| read(&path(name)).expect_err(name).to_string();
        assert!(refused("missing").contains("No such file"), "{}", refused("missing"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .expect("a pipe");
        assert!(refused("pipe").ends_with("not a regular file"), "{}", refused("pipe"));
        assert!(refused("").ends_with("not a regular file"), "{}", refused(""));
        let large = std::fs::File::create(path("large")).expect("made");
        large.set_len(MODULE_BYTES_MAX + 1).expect("long");
        assert!(refused("large").contains("longer than 4194304 bytes"), "{}", refused("large"));
    }
}
