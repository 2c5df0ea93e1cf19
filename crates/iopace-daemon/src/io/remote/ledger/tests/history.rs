//! Histories at random: connections that are lost at any moment, and a server that forgets.

use super::*;
use iopace_suites::random::Random;

/// A server in memory, which may forget what was not flushed.
#[derive(Default)]
struct Memory {
    stable: Vec<u8>,
    volatile: Vec<u8>,
}

impl Memory {
    fn carry_out(&mut self, wired: &Wired) {
        let range = wired.offset as usize..wired.offset as usize + wired.len as usize;
        match wired.kind {
            wire::CMD_WRITE => self.volatile[range.clone()].copy_from_slice(&wired.data),
            wire::CMD_WRITE_ZEROES => self.volatile[range.clone()].fill(0),
            wire::CMD_FLUSH => self.stable.clone_from(&self.volatile),
            _ => {}
        }
        if wired.flags & wire::CMD_FLAG_FUA != 0 {
            self.stable[range.clone()].copy_from_slice(&self.volatile[range]);
        }
    }
}

const SIZE: u64 = 64 << 10;

/// A request at random, already in the model: changes are done in the order of their arrival.
fn draw(random: &mut Random, fill: u8, model: &mut [u8]) -> IoRequest {
    let (offset, len) = (random.below(SIZE - 20_000), 1 + random.below(20_000));
    let range = offset as usize..(offset + len) as usize;
    match random.below(4) {
        0 => request(Op::Flush, 0, 0, 0),
        1 => {
            model[range].fill(0);
            request(Op::WriteZeroes, offset, len, 0)
        }
        _ => {
            model[range].fill(fill);
            IoRequest { fua: random.below(4) == 0, ..request(Op::Write, offset, len, fill) }
        }
    }
}

/// One history: requests that come in any order with connections that are lost, answers in any
/// order, and a server that may forget; at the end a flush.
fn history(seed: u64) {
    let mut random = Random(seed);
    let flags = if random.below(3) == 0 { ALL & !wire::SEND_FUA } else { ALL };
    let mut ledger = ledger(flags, 4096 << random.below(4));
    let zeroes = vec![0; SIZE as usize];
    let mut server = Memory { stable: zeroes.clone(), volatile: zeroes.clone() };
    let (mut model, mut in_flight) = (zeroes, Vec::<Wired>::new());
    let (mut submitted, mut ended) = (0, 0);
    for round in 0..400 {
        in_flight.extend(sent(&mut ledger));
        match random.below(12) {
            0..5 => {
                ledger.submit(draw(&mut random, round as u8 | 1, &mut model));
                submitted += 1;
            }
            5..11 if !in_flight.is_empty() => {
                let wired = in_flight.remove(random.below(in_flight.len() as u64) as usize);
                server.carry_out(&wired);
                answer(&mut ledger, &wired);
            }
            11 if random.below(4) == 0 => {
                for wired in in_flight.drain(..) {
                    if random.below(2) == 0 {
                        server.carry_out(&wired);
                    }
                }
                if random.below(2) == 0 {
                    server.volatile.clone_from(&server.stable);
                }
                ledger.lost();
            }
            _ => {}
        }
        ended += ledger.take_finished().len();
    }
    ledger.submit(request(Op::Flush, 0, 0, 0));
    while ended < submitted + 1 {
        let more = sent(&mut ledger);
        assert!(!more.is_empty() || !in_flight.is_empty(), "seed {seed}: it stands still");
        in_flight.extend(more);
        let wired = in_flight.remove(0);
        server.carry_out(&wired);
        answer(&mut ledger, &wired);
        ended += ledger.take_finished().len();
    }
    assert_eq!(ended, submitted + 1, "seed {seed}: each once");
    assert!(server.stable == model, "seed {seed}: data are lost");
}

#[test]
fn no_history_loses_data_or_stands_still() {
    (0..500).for_each(history);
}
