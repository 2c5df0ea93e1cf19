//! Hosts that share a limit never exceed it together, in a few thousand histories; more with
//! `HISTORIES=1000000`.

use iopace_suites::hosts::{Planted, run};

#[test]
fn hosts_together_never_exceed_their_limit_and_have_their_shares_again() {
    let count = std::env::var("HISTORIES").ok().and_then(|count| count.parse().ok());
    let outcome = run(1, count.unwrap_or(2_000), None);
    assert!(outcome.holds(), "{:#?}", outcome.failures);
}

#[test]
fn a_planted_fault_is_found() {
    use Planted::{NoCondition, NoEnd, OldTerms, TrustedClock};
    for planted in [NoEnd, TrustedClock, NoCondition, OldTerms] {
        let outcome = run(1, 1_000, Some(planted));
        let found = outcome.failures.first().is_some_and(|failure| failure.contains("are used"));
        assert!(found, "{planted:?}: {outcome:?}");
    }
}
