use super::*;
use crate::group::Settings;

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

/// Sets the target of a group, in ms.
fn set(targets: &mut Targets, accounts: &mut Accounts, ms: u64, id: u32, target: Option<u64>) {
    let latency = target.map(Nanos::from_millis);
    let (id, settings) = (GroupId(id), Settings { latency, ..Settings::default() });
    accounts.table.set(id, accounts.table.parent(id), &settings);
    targets.set(at(ms), id, latency);
}

/// Groups 1 (target 5 ms), 2 (none), 3 (target 1 ms) and 4 (none, below 2); 2 has 64 requests.
fn world() -> (Targets, Accounts) {
    let (mut targets, mut accounts) = (Targets::default(), Accounts::default());
    for (id, parent) in [(1, 0), (2, 0), (3, 0), (4, 2)] {
        accounts.table.set(GroupId(id), GroupId(parent), &Settings::default());
    }
    set(&mut targets, &mut accounts, 0, 1, Some(5));
    set(&mut targets, &mut accounts, 0, 3, Some(1));
    for _ in 0..64 {
        accounts.arrived(at(0), GroupId(4), true);
    }
    (targets, accounts)
}

/// The change of group 2 by one missed window of group 1.
const NARROWED: Narrow = (GroupId(2), Some(32));

fn window(
    targets: &mut Targets,
    accounts: &Accounts,
    end_ms: u64,
    count: u32,
    ms: u64,
) -> Vec<Narrow> {
    for _ in 0..count {
        targets.finished(&accounts.table, GroupId(1), Nanos::from_millis(ms));
    }
    targets.judge(at(end_ms), accounts)
}

#[test]
fn p1_a_miss_narrows_who_has_no_target_or_a_looser_one() {
    let (mut targets, accounts) = world();
    assert_eq!(window(&mut targets, &accounts, 50, 20, 9), [], "the window has not ended");
    assert_eq!(window(&mut targets, &accounts, 100, 0, 0), [(GroupId(2), Some(32))]);
    let mut caps = Vec::new();
    for round in 2..12 {
        caps.extend(window(&mut targets, &accounts, round * 100, 20, 9));
    }
    let caps: Vec<Option<u32>> = caps.into_iter().map(|(_, cap)| cap).collect();
    assert_eq!(caps, [Some(16), Some(8), Some(4), Some(2), Some(1)]);
}

#[test]
fn p1_a_tenth_may_be_late() {
    let (mut targets, accounts) = world();
    targets.finished(&accounts.table, GroupId(1), Nanos::from_millis(9));
    assert_eq!(window(&mut targets, &accounts, 100, 9, 2), []);
}

#[test]
fn p2_a_quiet_group_holds_nobody_narrow() {
    let (mut targets, accounts) = world();
    window(&mut targets, &accounts, 100, 20, 9);
    assert_eq!(targets.next(), at(200));
    assert_eq!(targets.judge(at(200), &accounts), [(GroupId(2), None)]);
    assert_eq!(targets.next(), Instant::NEVER);
}

#[test]
fn p2_a_target_that_is_taken_away_lifts_at_once() {
    let (mut targets, mut accounts) = world();
    window(&mut targets, &accounts, 100, 20, 9);
    set(&mut targets, &mut accounts, 110, 1, None);
    set(&mut targets, &mut accounts, 110, 3, None);
    assert_eq!(targets.judge(at(110), &accounts), [(GroupId(2), None)]);
}

#[test]
fn p2_so_does_one_that_is_taken_away_beside_others_that_stay() {
    let (mut targets, mut accounts) = world();
    accounts.table.set(GroupId(5), GroupId(4), &Settings::default());
    set(&mut targets, &mut accounts, 0, 5, Some(5));
    set(&mut targets, &mut accounts, 0, 3, None);
    assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
    set(&mut targets, &mut accounts, 110, 1, None);
    // Nobody beside group 2 has a target any more; one elsewhere is no reason to go on.
    let lifted = targets.judge(at(200), &accounts);
    assert!(lifted.contains(&(GroupId(2), None)), "{lifted:?}");
    assert_eq!(targets.next(), Instant::NEVER, "and nothing is left to look at");
}

#[test]
fn p2_so_does_one_that_is_looser_than_that_of_the_narrowed() {
    let (mut targets, mut accounts) = world();
    set(&mut targets, &mut accounts, 0, 3, None);
    assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
    set(&mut targets, &mut accounts, 110, 2, Some(1));
    assert_eq!(window(&mut targets, &accounts, 200, 20, 9), [(GroupId(2), None)]);
}

#[test]
fn a_target_of_the_root_concerns_nobody() {
    let (mut targets, mut accounts) = world();
    set(&mut targets, &mut accounts, 0, 0, Some(0));
    assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
    assert_eq!(window(&mut targets, &accounts, 200, 20, 9), [(GroupId(2), Some(16))]);
}

#[test]
fn p3_a_met_target_widens() {
    let (mut targets, accounts) = world();
    window(&mut targets, &accounts, 100, 20, 9);
    window(&mut targets, &accounts, 200, 20, 9);
    assert_eq!(window(&mut targets, &accounts, 300, 20, 2), [(GroupId(2), Some(32))]);
    let mut last = Vec::new();
    for round in 4..20 {
        last.extend(window(&mut targets, &accounts, round * 100, 20, 2));
    }
    assert_eq!(last.last(), Some(&(GroupId(2), None)));
}
