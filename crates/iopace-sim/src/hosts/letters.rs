//! Questions of hosts and answers of stores, on their way.

use super::agent::StoreKind;
use super::setup::Trouble;
use super::store::{StoreAnswer, StoreQuestion};
use super::{Hosts, HostsEvent};
use iopace_core::time::{Instant, Nanos};

/// The longest way of a message to a store or back.
const MESSAGE_MOST: Nanos = Nanos::from_millis(20);

/// One message in so many is lost, and TCP sends it again.
const LOST_PART: u64 = 100;

/// After so long, the least that Linux waits (`TCP_RTO_MIN`).
const SENT_AGAIN: Nanos = Nanos::from_millis(200);

/// An answer is waited for so long, as the daemon does (`cluster/etcd.rs` there).
const PATIENCE: Nanos = Nanos::from_secs(1);

/// A question is put so often: to each of three members of etcd, and to the first one again.
const TRIES: u32 = 4;

/// The question that a host waits for.
#[derive(Clone, Debug)]
pub(super) struct AskedQuestion {
    /// The number of the message; an answer to any other one finds nobody.
    number: u64,
    kind: StoreKind,
    question: StoreQuestion,
    tries_count: u32,
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    kind: StoreKind,
    pub(super) content: LetterContent,
}

#[derive(Clone, Debug)]
pub(super) enum LetterContent {
    Question(StoreQuestion),
    /// To the question of that number.
    Answer(u64, StoreAnswer),
}

impl Hosts<'_> {
    /// The host's next turn with its stores begins.
    pub(super) fn look(&mut self, host: usize, now: Instant) {
        match self.hosts[host].look(now) {
            Some(asked) => self.ask(host, asked, 1),
            None => self.look_again(host),
        }
    }

    fn look_again(&mut self, host: usize) {
        let period = self.hosts[host].period();
        self.add(period, HostsEvent::Look(host));
    }

    fn ask(&mut self, host: usize, (kind, question): (StoreKind, StoreQuestion), tries_count: u32) {
        let content = LetterContent::Question(question.clone());
        let number = self.send(host, Letter { kind, content });
        self.asked[host] = Some(AskedQuestion { number, kind, question, tries_count });
        self.add(PATIENCE, HostsEvent::Patience(host, number));
    }

    /// Sends a letter to a store, or back; returns its number.
    fn send(&mut self, host: usize, letter: Letter) -> u64 {
        let (now, number) = (self.passed(), self.number());
        if self.setup.is_in(now, Trouble::Cut(host)) || self.setup.is_in(now, Trouble::StoreLost) {
            return number;
        }
        let mut way = Nanos(self.random.between(1_000_000, MESSAGE_MOST.0));
        if self.random.below(LOST_PART) == 0 {
            way += SENT_AGAIN;
        }
        let is_answer = matches!(letter.content, LetterContent::Answer(..));
        way += self.setup.delay(now, host, is_answer);
        self.letters.insert(number, letter);
        self.add(way, HostsEvent::Message(host, number));
        number
    }

    /// A question arrives at its store.
    pub(super) fn question(&mut self, host: usize, number: u64) {
        let Some(Letter { kind, content }) = self.letters.remove(&number) else { return };
        let LetterContent::Question(question) = content else { return };
        let (store, name) = match (kind, self.setup.cell_of(host)) {
            (StoreKind::Upper, Some(cell)) => (self.setup.cells_count(), cell),
            (_, cell) => (cell.unwrap_or(0), host),
        };
        let now = self.store_clock.at(self.now);
        let answer = self.stores[store].answer(now, name, question);
        self.send(host, Letter { kind, content: LetterContent::Answer(number, answer) });
    }

    /// An answer arrives at its host.
    pub(super) fn answer(&mut self, host: usize, number: u64, now: Instant) {
        let Some(letter) = self.letters.remove(&number) else { return };
        let LetterContent::Answer(asked, answer) = letter.content else { return };
        if self.asked[host].as_ref().is_none_or(|waits| waits.number != asked) {
            return;
        }
        self.asked[host] = None;
        match self.hosts[host].heard(now, answer) {
            Some(next) => self.ask(host, next, 1),
            None => self.look_again(host),
        }
    }

    /// The host has waited long enough for the answer to a question.
    pub(super) fn patience(&mut self, host: usize, number: u64, now: Instant) {
        let Some(AskedQuestion { kind, question, tries_count, .. }) =
            self.asked[host].take_if(|asked| asked.number == number)
        else {
            return;
        };
        if tries_count < TRIES {
            return self.ask(host, (kind, question), tries_count + 1);
        }
        self.hosts[host].gave_up(now);
        self.look_again(host);
    }
}
