//! Tests that look inside: modules that are not in the registry, through the real engine.

mod cache;
mod executable;
mod hostile;
mod layout;
mod longest;
#[path = "../../tests/support/modules.rs"]
mod modules;
mod mutants;
mod serving;

use crate::error::Problem;
use crate::module::Module;
use crate::policy::Policy;
use iopace_core::engine::Control;
use iopace_core::sched::{Algorithm, Params, Profile, REGISTRY, Scheduler};
use iopace_suites::world::{Setup, World};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// The module that `TRIED` runs, so that thousands of them need not stay.
    static TRIED_MODULE: RefCell<Option<Arc<Module>>> = const { RefCell::new(None) };
}

/// The module of this thread as a scheduler.
static TRIED: Algorithm = Algorithm {
    name: "tried",
    summary: "the module that is tried",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &build,
};

fn build(_params: &Params) -> Box<dyn Scheduler> {
    let module = TRIED_MODULE.with_borrow(Clone::clone).expect("it was set");
    match Policy::new(&module, module.defaults()) {
        Ok(policy) => Box::new(policy),
        Err(failure) => resume_unwind(Box::new(failure.fault)),
    }
}

/// The module of a file.
fn compiled(bytes: &[u8]) -> Result<Arc<Module>, Problem> {
    Module::new(bytes, None).map(|(module, _)| Arc::new(module))
}

/// Runs a world with the module until every request has ended. One that cannot be started leaves
/// the world with what it had.
fn run(bytes: &[u8], setup: Setup) -> Result<World, Problem> {
    compiled(bytes).map(|module| run_module(module, setup))
}

/// The same with a module that was compiled.
fn run_module(module: Arc<Module>, setup: Setup) -> World {
    TRIED_MODULE.set(Some(module));
    let mut world = World::new(REGISTRY[0], setup);
    let control = Control::Insert(&TRIED, TRIED.defaults());
    if world.engine.control(world.now, control).is_ok() {
        world.drain();
    }
    world.run(|_| {});
    assert_eq!(world.report.violations, [""; 0]);
    assert_eq!(world.report.finished, setup.requests);
    world
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
