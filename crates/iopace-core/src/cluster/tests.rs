//! The properties, one host at a time; `iopace-suites` has histories of many.

use super::*;
use crate::time::{Instant, Nanos};

const SECOND: Nanos = Nanos::from_secs(1);
const LENGTH: Nanos = Nanos::from_secs(5);
const TERMS: Terms = Terms {
    limit: Allowance(1_000),
    each: Allowance(10),
    hosts_max: 10,
    cut: Cut { lowered_count: 0, kept: Allowance(0), of: Allowance(0) },
    set: Revision(0),
};

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
fn a_raise_that_was_refused_waits_for_a_newer_look() {
    let mut holder = granted();
    let (number, _) = write(holder.wish(at(10), Allowance(800), seen(3, 0)));
    let (changed, session, grant) = (Revision(3), SessionId(7), Allowance(500));
    let record = GrantRecord { changed, session, grant };
    holder.answered(number, Answer::Stands(Some(record)));
    assert_eq!(holder.wish(at(20), Allowance(800), seen(3, 0)), None, "it would be again");
    let (_, asked) = write(holder.wish(at(30), Allowance(800), seen(4, 100)));
    assert_eq!((asked.grant, asked.all), (Allowance(800), Some(Revision(4))));
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
fn a_limit_that_is_lowered_leaves_each_the_same_part_at_once() {
    assert_eq!(
        Terms::new(Allowance(2_000), 10, Revision(0)).map(|terms| terms.each),
        Some(Allowance(10))
    );
    assert_eq!(Terms::new(Allowance(9), 10, Revision(0)), None);
    assert_eq!(TERMS.changed(Allowance(99)), None, "the static parts are 100");
    let raised = TERMS.changed(Allowance(2_000)).expect("more");
    assert_eq!(raised.cut, TERMS.cut);
    // It has 500 of 900 that may be granted; of 450 it has 250, before the store knows.
    let mut holder = granted();
    let lower = TERMS.changed(Allowance(550)).expect("more than the static parts");
    holder.set_terms(lower);
    assert_eq!(holder.allowed(at(10)), Allowance(260));
    let (number, asked) = write(holder.wish(at(10), Allowance(400), seen(5, 40)));
    assert_eq!((asked.grant, asked.all), (Allowance(250), None));
    holder.answered(number, Answer::Done(Revision(6)));
    // Then it may have more again, as far as it is free.
    let (number, asked) = write(holder.wish(at(20), Allowance(400), seen(6, 40)));
    assert_eq!((asked.grant, asked.all), (Allowance(400), Some(Revision(6))));
    // A raise that was under way when the limit was lowered is used for its part only.
    holder.set_terms(lower.changed(Allowance(325)).expect("more than the static parts"));
    holder.answered(number, Answer::Done(Revision(7)));
    assert_eq!(holder.allowed(at(30)), Allowance(135));
    // A record that says less already is one that holds.
    let mut low = granted();
    let (number, _) = write(low.wish(at(10), Allowance(100), seen(3, 0)));
    low.answered(number, Answer::Done(Revision(4)));
    low.set_terms(lower);
    let raise = low.wish(at(20), Allowance(90), seen(5, 0));
    assert_eq!((write(raise).1.grant, low.allowed(at(20))), (Allowance(50), Allowance(60)));
    // A limit that was removed and set anew is another one.
    let mut anew = granted();
    anew.set_terms(Terms { set: Revision(9), ..TERMS });
    assert_eq!(anew.allowed(at(30)), Allowance(10));
    // A host that has missed a cut has nothing left.
    let twice = lower.changed(Allowance(300)).and_then(|terms| terms.changed(Allowance(200)));
    let mut late = granted();
    late.set_terms(twice.expect("more than the static parts"));
    assert_eq!(late.allowed(at(30)), Allowance(10));
}

#[test]
fn a_record_that_somebody_else_has_changed_is_not_used() {
    let own = GrantRecord { changed: Revision(3), session: SessionId(7), grant: Allowance(500) };
    let mut holder = granted();
    holder.noted(Revision(2), None);
    holder.noted(Revision(4), Some(own));
    assert_eq!(holder.allowed(at(10)).0, 510, "it is as it was, or what was seen is older");
    holder.noted(Revision(5), None);
    assert_eq!(holder.allowed(at(10)).0, 10);
}

#[test]
fn shares_are_by_weight_and_demand_and_add_up() {
    let demand = |wanted, weight| Demand { wanted: Allowance(wanted), weight, ..Demand::default() };
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
