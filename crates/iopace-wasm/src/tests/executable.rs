//! Where memory may not be made executable (`MemoryDenyWriteExecute=yes`), the error says so.

use super::modules::module;
use crate::error::Problem;
use crate::module::Module;
use std::process::Command;

/// Set in the child that gives the right up.
const CHILD: &str = "IOPACE_WASM_TEST_DENIED";
/// The kernel knows no such thing (before Linux 6.3).
const UNKNOWN: i32 = 77;

#[test]
fn the_error_names_the_setting() {
    let own = std::env::current_exe().expect("this program");
    let name = "tests::executable::in_a_process_that_may_not";
    let child = Command::new(own).args(["--exact", name, "--ignored"]).env(CHILD, "1").status();
    match child.expect("it starts").code() {
        Some(UNKNOWN) => println!("skipped: this kernel has no PR_SET_MDWE"),
        code => assert_eq!(code, Some(0)),
    }
}

#[test]
#[expect(clippy::exit, reason = "it is a process of its own, which has no more to tell")]
#[ignore = "it gives up a right of its whole process"]
fn in_a_process_that_may_not() {
    /// `PR_SET_MDWE` with `PR_MDWE_REFUSE_EXEC_GAIN` (prctl.h).
    const DENY: (libc::c_int, libc::c_ulong) = (65, 1);
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // SAFETY: it takes five numbers, and takes away a right of this process only.
    if unsafe { libc::prctl(DENY.0, DENY.1, 0, 0, 0) } != 0 {
        std::process::exit(UNKNOWN);
    }
    let problem = Module::new(&module(&[]), None).expect_err("its code cannot be run");
    assert!(matches!(problem, Problem::NotExecutable), "{problem}");
    assert!(problem.to_string().contains("MemoryDenyWriteExecute=no"), "{problem}");
}
