//! The thread that sends requests, and ends those for which there is nothing to send.

use super::ledger::Payload;
use super::link::RemoteLink;
use super::{RemoteListener, RemoteNews, Shared, State, deliver, tell};
use crate::clock;
use crate::io::IoDone;
use std::sync::{Arc, PoisonError, Weak};

/// Work for one turn of the thread.
#[derive(Debug)]
struct Turn {
    done: Vec<IoDone>,
    /// To be sent by that connection, behind what was gathered.
    payload: Option<(Arc<RemoteLink>, Payload)>,
    /// The server has been waited for long enough.
    gave_up: bool,
}

/// Works until the device is gone.
pub(super) fn run(shared: &Shared, to: &Weak<dyn RemoteListener>) {
    let mut out = Vec::new();
    while let Some(Turn { done, payload, gave_up }) = next(shared, &mut out) {
        deliver(to, done);
        if gave_up {
            let text = format!("{}: requests fail from now on, until it is back", shared.uri);
            tell(to, RemoteNews::Lost(text));
        }
        if let Some((link, payload)) = payload {
            let sent = link.send(&out).and_then(|()| link.send(payload.bytes()));
            if sent.is_err() {
                // The receiving thread learns of it, and connects again.
                link.shut_down();
            }
            shared.lock().ledger.give_back(payload);
            shared.changed.notify_all();
        }
    }
}

/// Waits for something to do; `None` at the end.
fn next(shared: &Shared, out: &mut Vec<u8>) -> Option<Turn> {
    let mut state = shared.lock();
    out.clear();
    loop {
        if state.is_closed {
            return None;
        }
        let gave_up = give_up(&mut state);
        let State { ledger, link, .. } = &mut *state;
        let payload = link.as_ref().and_then(|link| {
            let payload = ledger.gather(out);
            (!out.is_empty()).then(|| (Arc::clone(link), payload))
        });
        let done = ledger.take_finished();
        if payload.is_some() || !done.is_empty() || gave_up {
            return Some(Turn { done, payload, gave_up });
        }
        let left = state.give_up_at.and_then(clock::until);
        state = match left {
            Some(left) => {
                let waited = shared.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// Has requests fail if the time for that has come.
fn give_up(state: &mut State) -> bool {
    let is_due = state.give_up_at.is_some_and(|at| at <= clock::now());
    if is_due {
        state.give_up_at = None;
        state.ledger.refuse();
    }
    is_due
}
