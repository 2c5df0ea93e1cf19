mod history;

use super::super::abilities::Abilities;
use super::*;
use iopace_core::group::Class;
use iopace_core::request::RequestId;
use iopace_core::units::Bytes;
use iopace_nbd::client::{Received, Session};

const ALL: u16 = wire::HAS_FLAGS
    | wire::SEND_FLUSH
    | wire::SEND_FUA
    | wire::SEND_TRIM
    | wire::SEND_WRITE_ZEROES
    | wire::SEND_CACHE;

fn ledger(flags: u16, payload_max: u32) -> Ledger {
    let block_sizes = Some([1, 4096, payload_max]);
    let session = Session { size_bytes: 1 << 30, flags, block_sizes, ..Session::default() };
    Ledger::new(Abilities::of(&session).expect("they make sense"))
}

fn request(op: Op, offset: u64, len: u64, fill: u8) -> IoRequest {
    let mut buffer = Buffer::new(if matches!(op, Op::Read | Op::Write) { len as usize } else { 0 });
    buffer.as_mut_slice().fill(fill);
    IoRequest {
        id: RequestId::forge(offset + 1),
        key: offset as usize,
        op,
        extent: Extent::new(Bytes(offset), Bytes(len)).expect("an extent"),
        fua: false,
        class: Class::default(),
        write_back: false,
        target: None,
        buffer,
    }
}

/// A request as it went over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wired {
    kind: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
    data: Vec<u8>,
}

/// All that may be sent now.
fn sent(ledger: &mut Ledger) -> Vec<Wired> {
    let mut all = Vec::new();
    loop {
        let mut out = Vec::new();
        let payload = ledger.gather(&mut out);
        if out.is_empty() {
            return all;
        }
        out.extend_from_slice(payload.bytes());
        ledger.give_back(payload);
        let mut rest = &*out;
        while !rest.is_empty() {
            let u16_at = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
            let u64_at = |at: usize| u64::from_be_bytes(rest[at..at + 8].try_into().expect("8"));
            let len = u32::from_be_bytes(rest[24..28].try_into().expect("4"));
            let (flags, kind, cookie, offset) = (u16_at(4), u16_at(6), u64_at(8), u64_at(16));
            let data_len = if kind == wire::CMD_WRITE { len as usize } else { 0 };
            let data = rest[28..28 + data_len].to_vec();
            all.push(Wired { kind, flags, cookie, offset, len, data });
            rest = &rest[28 + data_len..];
        }
    }
}

/// Answers the one request that is sent now.
fn answer_next(ledger: &mut Ledger) {
    let wired = sent(ledger).remove(0);
    answer(ledger, &wired);
}

fn answer(ledger: &mut Ledger, wired: &Wired) {
    reply(ledger, wired, Ok(())).expect("a right answer");
}

fn reply(
    ledger: &mut Ledger,
    wired: &Wired,
    result: Result<(), Error>,
) -> Result<(), &'static str> {
    let is_read = wired.kind == wire::CMD_READ && result.is_ok();
    let (offset, len) = if is_read { (wired.offset, wired.len) } else { (0, 0) };
    ledger.replied(&Received { cookie: wired.cookie, offset, len, result, is_last: true })
}

/// The keys of what is finished, with the errno of what has failed.
fn finished(ledger: &mut Ledger) -> Vec<(usize, Option<i32>)> {
    let errno = |done: &IoDone| done.result.as_ref().err().and_then(io::Error::raw_os_error);
    ledger.take_finished().iter().map(|done| (done.request.key, errno(done))).collect()
}

fn kinds(all: &[Wired]) -> Vec<(u16, u64)> {
    all.iter().map(|wired| (wired.kind, wired.offset)).collect()
}

const FLUSH: (u16, u64) = (wire::CMD_FLUSH, 0);

#[test]
fn large_requests_are_split_and_finished_once() {
    let mut ledger = ledger(ALL, 8192);
    ledger.submit(request(Op::Write, 4096, 20_000, 7));
    ledger.submit(request(Op::Read, 100, 10_000, 0));
    let all = sent(&mut ledger);
    let pieces: Vec<_> = all.iter().map(|wired| (wired.kind, wired.offset, wired.len)).collect();
    let (write, read) = (wire::CMD_WRITE, wire::CMD_READ);
    let wanted =
        [(write, 4096, 8192), (write, 12_288, 8192), (write, 20_480, 3616), (read, 100, 8192)];
    assert_eq!(pieces[..4], wanted);
    assert_eq!(pieces[4], (read, 8292, 1808));
    assert!(all.iter().all(|wired| wired.data.iter().all(|&byte| byte == 7)));
    for wired in all.iter().rev() {
        answer(&mut ledger, wired);
    }
    assert_eq!(finished(&mut ledger), [(100, None), (4096, None)]);
    assert_eq!(ledger.waiting_count(), 0);
}

#[test]
fn p2_overlapping_changes_wait_for_each_other_and_reads_do_not() {
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Write, 0, 8192, 1));
    ledger.submit(request(Op::Read, 4096, 4096, 0));
    ledger.submit(request(Op::Write, 4096, 8192, 2));
    let first = sent(&mut ledger);
    assert_eq!(kinds(&first), [(wire::CMD_WRITE, 0), (wire::CMD_READ, 4096)]);
    answer(&mut ledger, &first[0]);
    assert_eq!(kinds(&sent(&mut ledger)), [(wire::CMD_WRITE, 4096)]);
}

#[test]
fn p2_a_change_waits_for_all_of_another_one_also_if_its_part_is_done() {
    let mut ledger = ledger(ALL, 4096);
    ledger.submit(request(Op::Write, 0, 8192, 1));
    ledger.submit(request(Op::Write, 0, 4096, 2));
    let first = sent(&mut ledger);
    assert_eq!(kinds(&first), [(wire::CMD_WRITE, 0), (wire::CMD_WRITE, 4096)]);
    answer(&mut ledger, &first[0]);
    // If the connection is lost now, the first one is sent again and would lie over the second.
    assert_eq!(sent(&mut ledger), []);
    answer(&mut ledger, &first[1]);
    assert_eq!(sent(&mut ledger)[0].data, [2; 4096]);
}

#[test]
fn p3_unflushed_changes_are_repeated_first_and_then_what_had_no_answer() {
    let mut ledger = ledger(ALL, 8192);
    ledger.submit(request(Op::Write, 0, 4096, 1));
    answer_next(&mut ledger);
    ledger.submit(request(Op::Flush, 0, 0, 0));
    answer_next(&mut ledger);
    // Flushed until here. Two overlapping writes and a trim are not.
    for (op, offset, len, fill) in
        [(Op::Write, 8192, 4096, 2), (Op::Write, 8192, 20_000, 3), (Op::Trim, 1 << 20, 4096, 0)]
    {
        ledger.submit(request(op, offset, len, fill));
        for wired in sent(&mut ledger) {
            answer(&mut ledger, &wired);
        }
    }
    assert_eq!(finished(&mut ledger).len(), 5);
    // And these have no answer: of the second one a piece has.
    ledger.submit(request(Op::Read, 5, 10, 0));
    ledger.submit(request(Op::Write, 1 << 21, 10_000, 4));
    ledger.submit(request(Op::Flush, 0, 0, 0));
    let waiting = sent(&mut ledger);
    answer(&mut ledger, &waiting[1]);
    ledger.lost();
    assert_eq!(finished(&mut ledger), []);

    let again = sent(&mut ledger);
    assert_eq!(kinds(&again), [(wire::CMD_WRITE, 8192)], "the second one lies over it");
    assert_eq!(again[0].data, [2; 4096]);
    answer(&mut ledger, &again[0]);
    let again = sent(&mut ledger);
    let write = wire::CMD_WRITE;
    let wanted = [(write, 8192), (write, 16_384), (write, 24_576)];
    assert_eq!(kinds(&again), wanted, "nobody misses what was trimmed");
    assert!(again.iter().flat_map(|wired| &wired.data).all(|&byte| byte == 3));
    for wired in &again {
        assert_eq!(sent(&mut ledger), [], "nothing else before all are answered");
        answer(&mut ledger, wired);
    }
    let rest = sent(&mut ledger);
    assert_eq!(kinds(&rest), kinds(&waiting), "all of each");
    rest.iter().for_each(|wired| answer(&mut ledger, wired));
    assert_eq!(finished(&mut ledger), [(5, None), (1 << 21, None), (0, None)]);
    assert_eq!(ledger.unflushed_bytes(), 10_000, "the flush was sent before that was answered");
}

#[test]
fn p4_a_flush_covers_what_was_answered_before_it_was_sent() {
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Write, 0, 4096, 1));
    answer_next(&mut ledger);
    ledger.submit(request(Op::Flush, 0, 0, 0));
    ledger.submit(request(Op::Write, 8192, 4096, 2));
    let both = sent(&mut ledger);
    answer(&mut ledger, &both[1]);
    assert_eq!(ledger.unflushed_bytes(), 8192);
    answer(&mut ledger, &both[0]);
    assert_eq!(ledger.unflushed_bytes(), 4096);
    ledger.lost();
    assert_eq!(kinds(&sent(&mut ledger)), [(wire::CMD_WRITE, 8192)]);
}

#[test]
fn p4_a_change_that_cannot_be_repeated_fails_the_next_flush_only() {
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Write, 0, 4096, 1));
    answer_next(&mut ledger);
    ledger.lost();
    let again = sent(&mut ledger).remove(0);
    reply(&mut ledger, &again, Err(Error::NoSpace)).expect("a right answer");
    assert_eq!(finished(&mut ledger), [(0, None)], "the write was acknowledged long ago");
    for errno in [Some(libc::EIO), None] {
        ledger.submit(request(Op::Flush, 0, 0, 0));
        answer_next(&mut ledger);
        assert_eq!(finished(&mut ledger), [(0, errno)]);
    }
}

#[test]
fn unflushed_data_are_bounded_by_flushes_of_its_own() {
    let mut ledger = ledger(ALL, 1 << 20);
    let (mut own, mut offset) = (None, 0);
    loop {
        ledger.submit(request(Op::Write, offset, 1 << 20, 1));
        offset += 1 << 20;
        let all = sent(&mut ledger);
        let Some(wired) = all.iter().find(|wired| wired.kind == wire::CMD_WRITE) else { break };
        answer(&mut ledger, wired);
        own = own.or(all.iter().find(|wired| wired.kind == wire::CMD_FLUSH).cloned());
    }
    assert_eq!(ledger.unflushed_bytes(), 64 << 20, "no write is sent beyond");
    let flush = own.expect("sent at the half");
    reply(&mut ledger, &flush, Err(Error::Io)).expect("a right answer");
    assert_eq!(ledger.unflushed_bytes(), 32 << 20);
    let all = sent(&mut ledger);
    assert_eq!(kinds(&all), [FLUSH, (wire::CMD_WRITE, 64 << 20)]);
    ledger.take_finished();
    // What the failed flush was to cover may be lost, and somebody has to know.
    ledger.submit(request(Op::Flush, 0, 0, 0));
    answer_next(&mut ledger);
    assert_eq!(finished(&mut ledger), [(0, Some(libc::EIO))]);
}

#[test]
fn a_server_that_knows_little_is_asked_for_little() {
    let mut ledger = ledger(wire::HAS_FLAGS, 1 << 20);
    let durable = IoRequest { fua: true, ..request(Op::Write, 0, 4096, 1) };
    ledger.submit(durable);
    ledger.submit(request(Op::Flush, 1, 0, 0));
    ledger.submit(request(Op::Trim, 2, 4096, 0));
    ledger.submit(request(Op::Cache, 3, 4096, 0));
    ledger.submit(request(Op::WriteZeroes, 1 << 20, 300 << 10, 0));
    assert_eq!(finished(&mut ledger), [(1, None), (2, None), (3, None)]);
    let all = sent(&mut ledger);
    let write = wire::CMD_WRITE;
    assert_eq!(kinds(&all), [(write, 0), (write, 1 << 20), (write, (1 << 20) + (256 << 10))]);
    assert!(all[1..].iter().flat_map(|wired| &wired.data).all(|&byte| byte == 0));
    all.iter().for_each(|wired| answer(&mut ledger, wired));
    assert_eq!(finished(&mut ledger), [(0, None), (1 << 20, None)]);
    assert_eq!(ledger.unflushed_bytes(), 0, "durable by its word");
}

#[test]
fn a_durable_write_is_flushed_where_the_server_knows_no_such_flag() {
    let mut ledger = ledger(wire::HAS_FLAGS | wire::SEND_FLUSH, 4096);
    ledger.submit(IoRequest { fua: true, ..request(Op::Write, 0, 8192, 1) });
    let all = sent(&mut ledger);
    assert_eq!(kinds(&all), [(wire::CMD_WRITE, 0), (wire::CMD_WRITE, 4096)]);
    assert!(all.iter().all(|wired| wired.flags == 0));
    all.iter().for_each(|wired| answer(&mut ledger, wired));
    assert_eq!(finished(&mut ledger), []);
    let flush = sent(&mut ledger);
    assert_eq!(kinds(&flush), [FLUSH]);
    ledger.lost();
    assert_eq!(kinds(&sent(&mut ledger)), kinds(&all), "the whole request again");
}

#[test]
fn nothing_below_a_durable_write_is_repeated() {
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Write, 0, 4096, 1));
    answer_next(&mut ledger);
    ledger.submit(IoRequest { fua: true, ..request(Op::Write, 0, 4096, 2) });
    let durable = sent(&mut ledger).remove(0);
    assert_eq!(durable.flags, wire::CMD_FLAG_FUA);
    answer(&mut ledger, &durable);
    let flush = sent(&mut ledger).remove(0);
    assert_eq!(flush.kind, wire::CMD_FLUSH, "before it is acknowledged");
    answer(&mut ledger, &flush);
    ledger.lost();
    assert!(sent(&mut ledger).is_empty(), "all of it is durable");
}

#[test]
fn answers_that_break_the_protocol_are_refused() {
    let received =
        |cookie, offset, len| Received { cookie, offset, len, result: Ok(()), is_last: true };
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Read, 4096, 4096, 0));
    let read = sent(&mut ledger).remove(0);
    assert!(ledger.room(read.cookie + 1).is_none());
    let wrong = [
        received(read.cookie + 1, 0, 0),
        received(read.cookie, 0, 0),
        received(read.cookie, 4096, 4095),
        received(read.cookie, 5000, 100),
    ];
    for reply in wrong {
        assert!(ledger.replied(&reply).is_err(), "{reply:?}");
        ledger.lost();
        let again = sent(&mut ledger).remove(0);
        assert_eq!((again.offset, again.len), (4096, 4096));
    }
    ledger.lost();
    let again = sent(&mut ledger).remove(0);
    assert!(reply(&mut ledger, &again, Err(Error::Shutdown)).is_err(), "it goes away");
    ledger.lost();
    let again = sent(&mut ledger).remove(0);
    let room = ledger.room(again.cookie).expect("a read");
    ledger.give_back_room(room);
    answer(&mut ledger, &again);
    let done = ledger.take_finished().remove(0);
    assert_eq!(done.request.buffer.len(), 4096);
}

#[test]
fn an_answer_before_the_data_are_given_back_waits_for_the_thread_that_sends() {
    for (result, errno) in [(Ok(()), None), (Err(Error::NotPermitted), Some(libc::EPERM))] {
        let mut ledger = ledger(ALL, 1 << 20);
        ledger.submit(request(Op::Write, 0, 1 << 20, 1));
        let mut out = Vec::new();
        let payload = ledger.gather(&mut out);
        let cookie = u64::from_be_bytes(out[8..16].try_into().expect("8 bytes"));
        let early = Received { cookie, offset: 0, len: 0, result, is_last: true };
        ledger.replied(&early).expect("a right answer");
        assert_eq!(finished(&mut ledger), []);
        assert!(ledger.is_sending());
        ledger.give_back(payload);
        assert_eq!(finished(&mut ledger), [(0, errno)]);
    }
}

#[test]
fn p1_a_server_that_is_given_up_fails_everything_until_it_is_back() {
    let mut ledger = ledger(ALL, 1 << 20);
    ledger.submit(request(Op::Write, 0, 4096, 1));
    answer_next(&mut ledger);
    ledger.submit(request(Op::Read, 4096, 4096, 0));
    sent(&mut ledger);
    ledger.lost();
    ledger.refuse();
    ledger.submit(request(Op::Read, 8192, 4096, 0));
    let failed = Some(libc::EIO);
    assert_eq!(finished(&mut ledger), [(0, None), (4096, failed), (8192, failed)]);
    ledger.connected(ledger.abilities);
    assert_eq!(kinds(&sent(&mut ledger)), [(wire::CMD_WRITE, 0)], "what was acknowledged is kept");
}
