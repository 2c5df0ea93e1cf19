//! The properties, one host at a time; `iopace-suites` has histories of many.

use super::*;
use crate::time::{Instant, Nanos};

const SECOND: Nanos = Nanos::from_secs(1);
const LENGTH: Nanos = Nanos::from_secs(5);
const TERMS: Terms = Terms { limit: Allowance(1_000), static_permille: 100, hosts_max: 10 };

/// So many ms after the start.
fn at(ms: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(ms)
}

/// A host with a session since the start, and nothing in the store.
fn begun() -> Holder {
    let mut holder = Holder::new(TERMS);
    holder.begin(Session::begun(SessionId(7), at(0), LENGTH));
    let (number, ask) =
        holder.wish(at(0), Allowance(0), SeenGrants::default()).expect("it does not know");
    assert_eq!(ask, Question::Look);
    holder.answered(number, Answer::Stands(None));
    holder
}

fn seen(at: u64, others: u64) -> SeenGrants {
    SeenGrants { at: Revision(at), others: Allowance(others) }
}

/// The write that is asked for, with its number.
fn write(asked: Option<(u64, Question)>) -> (u64, GrantWrite) {
    match asked {
        Some((number, Question::Write(write))) => (number, write),
        other => panic!("{other:?}"),
    }
}

/// A host that is granted 500 by revision 3.
fn granted() -> Holder {
    let mut holder = begun();
    let (number, asked) = write(holder.wish(at(0), Allowance(500), seen(2, 0)));
    let first = GrantWrite {
        grant: Allowance(500),
        session: SessionId(7),
        own: None,
        all: Some(Revision(2)),
    };
    assert_eq!((asked, holder.allowed(at(0)).0), (first, 10), "not before the store says so");
    holder.answered(number, Answer::Done(Revision(3)));
    assert_eq!(holder.allowed(at(0)).0, 510);
    holder
}

#[test]
fn a_grant_is_used_until_the_session_ends_by_its_own_clock() {
    let mut holder = granted();
    let end = LENGTH.0 - LENGTH.0.div_ceil(32);
    assert_eq!(holder.until(), Some(Instant(end)));
    assert_eq!([end - 1, end].map(|now| holder.allowed(Instant(now)).0), [510, 10]);
    // Counted from when it was sent, and never shorter than before.
    holder.renewed(at(2_000), LENGTH);
    holder.renewed(at(1_000), LENGTH);
    let later = Instant(end + 2 * SECOND.0);
    assert_eq!([Instant(later.0 - 1), later].map(|now| holder.allowed(now).0), [510, 10]);
    // A session that has ended is not renewed: the store may have removed the grant.
    holder.renewed(later, LENGTH);
    assert_eq!(holder.allowed(later).0, 10);
    assert_eq!(holder.wish(later, Allowance(500), seen(9, 0)), None);
}

#[test]
fn less_is_used_before_the_store_hears_of_it() {
    let mut holder = granted();
    let (number, asked) = write(holder.wish(at(10), Allowance(100), seen(3, 0)));
    let lower = GrantWrite {
        grant: Allowance(100),
        session: SessionId(7),
        own: Some(Revision(3)),
        all: None,
    };
    assert_eq!((asked, holder.allowed(at(10)).0), (lower, 110));
    holder.answered(number, Answer::Done(Revision(4)));
    assert_eq!(holder.wish(at(20), Allowance(103), seen(4, 0)), None, "a small change is none");
}

#[test]
fn no_more_is_asked_for_than_is_free() {
    let mut holder = begun();
    let (_, asked) = write(holder.wish(at(0), Allowance(800), seen(2, 300)));
    assert_eq!(asked.grant, Allowance(600), "900 are granted in all");
    let mut holder = granted();
    assert_eq!(
        holder.wish(at(0), Allowance(800), seen(2, 0)),
        None,
        "its own change was not seen yet"
    );
}

#[test]
fn a_write_that_was_lost_fails_before_more_is_used() {
    let mut holder = granted();
    let (number, _) = write(holder.wish(at(10), Allowance(100), seen(3, 0)));
    holder.answered(number, Answer::Nothing);
    let (number, ask) = holder.wish(at(20), Allowance(500), seen(3, 0)).expect("it looks");
    assert_eq!(ask, Question::Look);
    let record = GrantRecord { changed: Revision(3), session: SessionId(7), grant: Allowance(500) };
    holder.answered(number, Answer::Stands(Some(record)));
    // The lost one may still come, and lower it.
    let (number, fence) = write(holder.wish(at(30), Allowance(500), seen(3, 0)));
    let same = GrantWrite {
        grant: Allowance(100),
        session: SessionId(7),
        own: Some(Revision(3)),
        all: None,
    };
    assert_eq!((fence, holder.allowed(at(30)).0), (same, 110));
    holder.answered(number, Answer::Done(Revision(4)));
    assert_eq!(write(holder.wish(at(40), Allowance(500), seen(4, 0))).1.grant, Allowance(500));
    // A late answer to what was asked long ago is nobody's.
    holder.answered(number, Answer::Done(Revision(5)));
    assert_eq!(holder.allowed(at(40)).0, 110);
}

#[test]
fn a_record_of_a_former_session_is_taken_over_and_not_used() {
    let mut holder = granted();
    holder.begin(Session::begun(SessionId(8), at(6_000), LENGTH));
    assert_eq!(holder.allowed(at(6_000)).0, 10);
    let (number, _) = holder.wish(at(6_000), Allowance(500), seen(3, 0)).expect("it looks");
    let record = GrantRecord { changed: Revision(3), session: SessionId(7), grant: Allowance(500) };
    holder.answered(number, Answer::Stands(Some(record)));
    let (_, asked) = write(holder.wish(at(6_010), Allowance(500), seen(3, 0)));
    let anew = GrantWrite {
        grant: Allowance(500),
        session: SessionId(8),
        own: Some(Revision(3)),
        all: Some(Revision(3)),
    };
    assert_eq!((asked, holder.allowed(at(6_010)).0), (anew, 10));
}

#[test]
fn shares_are_by_weight_and_demand_and_add_up() {
    let demand = |wanted, weight| Demand { wanted: Allowance(wanted), weight };
    let of = |demands: &[(u64, u32)]| {
        let demands: Vec<Demand> = demands.iter().map(|(wanted, w)| demand(*wanted, *w)).collect();
        shares(Allowance(1_200), &demands).into_iter().map(|share| share.0).collect::<Vec<u64>>()
    };
    assert_eq!(of(&[]), Vec::<u64>::new());
    assert_eq!(of(&[(0, 1), (0, 1), (0, 1)]), [400, 400, 400], "nobody wants it: all may begin");
    assert_eq!(of(&[(5_000, 1), (5_000, 2), (0, 9)]), [400, 800, 0]);
    assert_eq!(of(&[(100, 1), (5_000, 1), (5_000, 1)]), [100, 550, 550]);
    assert_eq!(of(&[(100, 5), (200, 1)]), [550, 650], "what is left goes to all alike");
    for wanted in [1, 7, 333, 5_000, u64::MAX] {
        let found = of(&[(wanted, 3), (wanted / 2, 1), (90, u32::MAX), (wanted, 0)]);
        assert!(found.iter().sum::<u64>() <= 1_200, "{found:?}");
    }
}
