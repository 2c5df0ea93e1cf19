//! What a holder asks, in the words of the store.

use super::records::{GrantValue, Keys, LimitKey};
use super::store::{Condition, Store, StoreChange, StoreEntry, StoreError, StoreOutcome, StorePut};
use super::view::read;
use iopace_core::cluster::{
    Allowance, Answer, GrantRecord, GrantWrite, Question, Revision, SessionId,
};

/// Asks the store about the host's record of a limit.
pub(super) fn put_question(
    store: &mut dyn Store,
    (keys, limit, host, set): (&Keys, &LimitKey, &str, Revision),
    question: Question,
) -> Result<Answer, StoreError> {
    let key = keys.grant(limit, host);
    let Question::Write(GrantWrite { grant, session, own, all }) = question else {
        let found = store.read(&key)?.entries.into_iter().find(|entry| entry.key == key);
        return Ok(Answer::Stands(found.as_ref().map(|entry| record(entry, set))));
    };
    let own = own.map_or_else(
        || Condition::Absent(key.clone()),
        |changed| Condition::Unchanged(key.clone(), changed),
    );
    let all = all.map(|at| Condition::NoneAfter(keys.limit(limit), at));
    let value =
        serde_json::to_vec(&GrantValue { grant: grant.0, set: set.0 }).expect("a number is JSON");
    let change = StoreChange {
        conditions: [own].into_iter().chain(all).collect(),
        puts: vec![StorePut { key: key.clone(), value, session: Some(session) }],
        removes: Vec::new(),
        look: Some(key),
    };
    Ok(match store.change(&change)? {
        StoreOutcome::Done(revision) => Answer::Done(revision),
        StoreOutcome::Refused(found) => {
            Answer::Stands(found.as_ref().map(|entry| record(entry, set)))
        }
    })
}

/// The host's record of a limit. One that cannot be read, is of another limit, or goes with no
/// session, grants nothing.
fn record(entry: &StoreEntry, set: Revision) -> GrantRecord {
    let value = read::<GrantValue>(&entry.value).filter(|value| value.set == set.0);
    let grant = Allowance(value.map_or(0, |value| value.grant));
    let session = entry.session.unwrap_or(SessionId(0));
    GrantRecord { changed: entry.changed, session, grant }
}
