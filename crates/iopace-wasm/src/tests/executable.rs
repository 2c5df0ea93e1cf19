//! Where memory may not be made executable (`MemoryDenyWriteExecute=yes`), the error says so.

use super::modules::module;
use crate::error::Problem;
use crate::module::Module;
use std::process::Command;

/// Set in the child that gives the right up.
const CHILD: &str = "IOPACE_WASM_TEST_DENIED";
/// The child says so if the kernel knows no such thing (before Linux 6.3).
const UNKNOWN: &str = "no PR_SET_MDWE";
/// The child says so after it has seen the error.
const SEEN: &str = "the error was seen";

#[test]
fn the_error_names_the_setting() {
    if std::env::var_os(CHILD).is_some() {
        return println!("{}", denied());
    }
    let own = std::env::current_exe().expect("this program");
    let name = "tests::executable::the_error_names_the_setting";
    let child = Command::new(own).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
    let output = child.expect("it starts").stdout;
    let output = String::from_utf8_lossy(&output);
    if output.contains(UNKNOWN) {
        return println!("skipped: this kernel has {UNKNOWN}");
    }
    assert!(output.contains(SEEN), "{output}");
}

/// Gives up the right of this process to make memory executable, and loads a module.
fn denied() -> &'static str {
    /// `PR_SET_MDWE` with `PR_MDWE_REFUSE_EXEC_GAIN` (prctl.h).
    const DENY: (libc::c_int, libc::c_ulong) = (65, 1);
    // SAFETY: it takes five numbers, and takes away a right of this process only.
    if unsafe { libc::prctl(DENY.0, DENY.1, 0, 0, 0) } != 0 {
        return UNKNOWN;
    }
    let problem = Module::new(&module(&[]), None).expect_err("its code cannot be run");
    assert!(matches!(problem, Problem::NotExecutable), "{problem}");
    assert!(problem.to_string().contains("MemoryDenyWriteExecute=no"), "{problem}");
    SEEN
}
