//! The thread that receives replies, and connects again when the connection is lost.

use super::abilities::Abilities;
use super::opening::{LinkReader, OpenedExport};
use super::{RemoteListener, RemoteNews, Shared, State, deliver, tell};
use crate::clock;
use crate::limits::{RECONNECT_PAUSE_MAX, RECONNECT_PAUSE_MIN};
use iopace_nbd::client::{self, Failure, Session};
use std::io::{BufReader, ErrorKind};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// Bytes received at once: some hundred replies without data, or the beginning of one with data.
const RECEIVE_BYTES: usize = 64 << 10;

/// The shortest reply in bytes.
const REPLY_BYTES_MIN: usize = 16;

/// Works until the device is gone.
pub(super) fn run(shared: &Shared, to: &Weak<dyn RemoteListener>, opened: OpenedExport) {
    let first = opened.session;
    let mut keeper = Keeper { shared, to, first, pause: RECONNECT_PAUSE_MIN, is_told: false };
    let mut opened = Some(opened);
    while let Some(OpenedExport { link, .. }) = opened.take() {
        let why = keeper.receive(&link);
        link.shut_down();
        if keeper.lose(&why) {
            opened = keeper.reconnect();
        }
    }
}

struct Keeper<'a> {
    shared: &'a Shared,
    to: &'a Weak<dyn RemoteListener>,
    /// The terms of the first connection, which clients above rely on.
    first: Session,
    /// The pause before the next attempt to connect.
    pause: Duration,
    /// The loss of the connection was told, and not that it is back: a server that takes
    /// connections and answers nothing is told of once.
    is_told: bool,
}

impl Keeper<'_> {
    /// Receives replies until the connection fails; the reason.
    fn receive(&mut self, link: &super::RemoteLink) -> String {
        let shared = self.shared;
        let is_over = || shared.is_closed();
        let reader = LinkReader { link, until: None, is_over: &is_over };
        let mut reader = BufReader::with_capacity(RECEIVE_BYTES, reader);
        loop {
            let mut room = None;
            let place = &mut room;
            let received = client::receive(&mut reader, move |cookie| {
                *place = shared.lock().ledger.room(cookie);
                place.as_mut().map(|room| room.room())
            });
            let mut state = shared.lock();
            if let Some(room) = room {
                state.ledger.give_back_room(room);
            }
            let replied = match &received {
                Err(Failure::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return "the server has ended it".into();
                }
                Err(Failure::Io(error)) => return error.to_string(),
                Err(failure) => return failure.to_string(),
                Ok(reply) => state.ledger.replied(reply),
            };
            if let Err(what) = replied {
                return format!("it is left: {what}");
            }
            let may_send = state.ledger.has_unsent();
            // Replies that came together are delivered together.
            let has_more = reader.buffer().len() >= REPLY_BYTES_MIN;
            let done = if has_more { Vec::new() } else { state.ledger.take_finished() };
            drop(state);
            if may_send {
                shared.changed.notify_all();
            }
            deliver(self.to, done);
            self.served();
        }
    }

    /// The server has answered something.
    fn served(&mut self) {
        self.pause = RECONNECT_PAUSE_MIN;
        if self.is_told {
            self.shared.lock().give_up_at = None;
        }
        if std::mem::take(&mut self.is_told) {
            tell(self.to, RemoteNews::Back(format!("{}: it answers again", self.shared.uri)));
        }
    }

    /// Everything that is not answered is to be sent again. False if the device is gone.
    fn lose(&mut self, why: &str) -> bool {
        let Shared { patience, changed, .. } = self.shared;
        let mut state = self.shared.lock();
        // The sending thread finds the connection shut down, and gives the data back.
        state.link = None;
        while state.ledger.is_sending() {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return false;
        }
        let now = clock::now();
        state.ledger.lost();
        state.since = now;
        state.trouble = why.to_owned();
        // A server that takes connections and answers nothing does not begin it anew.
        state.give_up_at = state.give_up_at.or(patience.map(|patience| now + patience));
        drop(state);
        // With something finished before, and for the patience.
        changed.notify_all();
        if !std::mem::replace(&mut self.is_told, true) {
            let text = format!("{}: the connection is lost: {why}", self.shared.uri);
            tell(self.to, RemoteNews::Lost(text));
        }
        true
    }

    /// Connects again, however long that takes; `None` if the device is gone.
    fn reconnect(&mut self) -> Option<OpenedExport> {
        let mut is_refused = false;
        loop {
            if self.wait() {
                return None;
            }
            let opened = OpenedExport::open(&self.shared.uri, &|| self.shared.is_closed());
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    self.shared.lock().trouble = error.to_string();
                    continue;
                }
            };
            let Some(what) = Abilities::difference(&self.first, &opened.session) else {
                self.connected(&opened);
                return Some(opened);
            };
            let mut state = self.shared.lock();
            state.trouble = format!("the export is another one: {what}");
            state.give_up_at = None;
            state.ledger.refuse();
            drop(state);
            self.shared.changed.notify_all();
            if !std::mem::replace(&mut is_refused, true) {
                let text =
                    format!("{}: {what}: requests fail until it is as before", self.shared.uri);
                tell(self.to, RemoteNews::Lost(text));
            }
        }
    }

    /// Has requests sent by the new connection.
    fn connected(&mut self, opened: &OpenedExport) {
        let mut state = self.shared.lock();
        let State { ledger, link, since, reconnects_count, .. } = &mut *state;
        ledger.connected(opened.abilities);
        *link = Some(Arc::clone(&opened.link));
        *since = clock::now();
        *reconnects_count += 1;
        let waits = ledger.has_unsent();
        drop(state);
        self.shared.changed.notify_all();
        // Where nothing is asked, nothing is answered.
        if !waits {
            self.served();
        }
    }

    /// Pauses before the next attempt; true if the device is gone.
    fn wait(&mut self) -> bool {
        let until = clock::now() + iopace_core::time::Nanos(self.pause.as_nanos() as u64);
        self.pause = (self.pause * 2).min(RECONNECT_PAUSE_MAX);
        let mut state = self.shared.lock();
        while !state.is_closed {
            let left = clock::until(until).unwrap_or_default();
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
