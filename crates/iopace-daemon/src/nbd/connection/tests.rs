//! Threads that wait for room are told of it, replies in flight stay counted, and stuck clients are
//! closed.

use super::super::drainer::Slow;
use super::super::drainer::Taking;
use super::super::receive::{End, Waits, receive_payload};
use super::super::reply::Ticket;
use super::*;
use crate::answer::Answer;
use crate::clock;
use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_OWN_BYTES, CONNECTION_REQUESTS_MAX, REPLIES_BYTES_MIN,
    SLOW_CLIENT, STUCK_CLIENT,
};
use iopace_core::request::Extent;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

fn connection() -> (Arc<Connection>, UnixStream) {
    let memory = Arc::new(Memory::new(1 << 30));
    let drainer = Drainer::start(Arc::clone(&memory)).expect("a thread");
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    (Connection::new(1, ours.into(), memory, drainer), theirs)
}

fn wait_until_it_waits(connection: &Connection) {
    while !connection.lock().waiting {
        thread::yield_now();
    }
}

fn reply(head: &mut Vec<u8>) -> bool {
    head.push(0);
    false
}

#[test]
fn answers_that_are_sent_together_make_room() {
    let half = CONNECTION_BYTES_MAX / 2;
    let (connection, _client) = connection();
    assert!(connection.try_open(half) && connection.try_open(half));
    assert!(!connection.try_open(half));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.open(half));
        wait_until_it_waits(&connection);
        connection.answer(half, Buffer::default(), reply);
        connection.answer(half, Buffer::default(), reply);
        // Nobody woke it for them: the replies are not sent, so there is no room.
        assert!(connection.lock().waiting && !waiting.is_finished());
        connection.send();
        assert!(waiting.join().expect("woken"));
    });
    assert_eq!(connection.memory.used_bytes(), half - CONNECTION_OWN_BYTES);
}

#[test]
fn who_waits_for_room_is_woken_once_for_all_answers() {
    let (connection, _client) = connection();
    assert!((0..CONNECTION_REQUESTS_MAX).all(|_| connection.try_open(0)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.wait_for_room());
        wait_until_it_waits(&connection);
        for _ in 0..32 {
            connection.answer(0, Buffer::default(), reply);
            assert!(connection.lock().waiting, "not woken for one of them");
        }
        connection.send();
        assert_eq!(waiting.join().expect("woken"), Some(CONNECTION_REQUESTS_MAX - 32));
    });
}

#[test]
fn answers_of_a_closed_or_full_connection_wake_who_waits() {
    for socket in [Socket::Watched, Socket::Closed] {
        let (connection, _client) = connection();
        assert!(connection.try_open(100));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| connection.wait_until_idle(Duration::from_secs(3_600)));
            wait_until_it_waits(&connection);
            connection.lock().socket = socket;
            connection.answer(100, Buffer::default(), reply);
            connection.send();
            // It is woken, and waits on for a reply that is not sent.
            if socket == Socket::Watched {
                wait_until_it_waits(&connection);
                assert!(connection.drain().1);
            }
            assert_eq!(waiting.join().expect("woken"), 0);
        });
    }
}

#[test]
fn the_end_of_a_session_does_not_wait_longer_than_for_the_last_reply() {
    let (connection, _client) = connection();
    assert!(connection.try_open(100));
    thread::scope(|scope| {
        // If nobody told it, this would hang.
        let waiting = scope.spawn(|| connection.wait_until_idle(Duration::from_secs(3_600)));
        wait_until_it_waits(&connection);
        connection.answer(100, Buffer::default(), reply);
        connection.send();
        assert_eq!(waiting.join().expect("woken"), 0);
    });
}

#[test]
fn a_reply_that_comes_when_a_full_socket_was_just_drained_is_sent() {
    let (connection, mut client) = connection();
    connection.append_raw(b"one");
    connection.lock().socket = Socket::Watched;
    assert!(connection.drain().1);
    // Another thread's, before the drainer has done anything else.
    connection.append_raw(b"two");
    connection.send();
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut all = [0; 6];
    client.read_exact(&mut all).expect("both come");
    assert_eq!(&all, b"onetwo");
}

#[test]
fn a_write_whose_data_is_late_goes_on_until_others_wait_for_its_memory() {
    let (connection, mut client) = connection();
    let memory = Arc::clone(&connection.memory);
    let (long_ago, all) = (clock::now(), memory.free_bytes());
    let (mut waits, mut space) = (Waits::Handshake, [0; 16]);
    waits.data(&connection);
    client.write_all(b"some").expect("room");
    let have = receive_payload(&connection, &mut space, long_ago).expect("nobody minds");
    assert_eq!(&space[..have], b"some");
    memory.take(all);
    thread::scope(|scope| {
        scope.spawn(|| memory.take(1));
        while !memory.is_wanted() {
            thread::yield_now();
        }
        client.write_all(b"more").expect("room");
        let end = receive_payload(&connection, &mut space[have..], long_ago);
        assert!(matches!(end, Err(End::Refused(_))), "{end:?}");
        memory.give(all);
    });
    // The next requests are waited for without an end, whatever the socket was told before.
    waits.requests(&connection);
    assert_eq!(waits.receive(&connection, &mut space).expect("what was left"), 4);
}

/// More than any socket takes at once.
const LARGE: usize = 8 << 20;

fn answer_large(connection: &Connection) {
    assert!(connection.try_open(100));
    let mut data = Buffer::new(LARGE);
    (0..).zip(data.as_mut_slice()).for_each(|(at, byte): (usize, _)| *byte = (at / 1000) as u8);
    connection.answer(100, data, |_| true);
}

/// The client gets the large answer, and one that comes after it.
fn read_large(client: &mut UnixStream) {
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut all = vec![0; LARGE + 3];
    client.read_exact(&mut all).expect("all comes");
    let is_right = |(at, byte): (usize, &u8)| *byte == (at / 1000) as u8;
    assert!(all[..LARGE].iter().enumerate().all(is_right));
    assert_eq!(&all[LARGE..], b"end");
}

#[test]
fn a_thread_that_may_wait_sends_the_rest_itself() {
    let (connection, mut client) = connection();
    connection.may_wait_here();
    assert!(connection.is_patient());
    answer_large(&connection);
    connection.send_some();
    assert_eq!(connection.lock().socket, Socket::Full, "it is left to this thread");
    thread::scope(|scope| {
        scope.spawn(|| {
            // Meanwhile somebody else answers: behind the rest.
            while connection.lock().socket != Socket::Owned {
                thread::yield_now();
            }
            connection.append_raw(b"end");
            read_large(&mut client);
        });
        connection.send_and_wait();
    });
    let state = connection.lock();
    assert!(state.socket == Socket::Open && state.out.is_empty() && !connection.is_patient());
}

#[test]
fn a_client_that_takes_nothing_is_left_to_the_drainer() {
    let (connection, mut client) = connection();
    let kind = rustix::net::sockopt::Timeout::Send;
    let soon = Some(Duration::from_millis(1));
    rustix::net::sockopt::set_socket_timeout(connection.socket(), kind, soon).expect("a socket");
    connection.may_wait_here();
    answer_large(&connection);
    connection.send_some();
    connection.send_and_wait();
    assert_eq!(connection.lock().socket, Socket::Watched);
    connection.append_raw(b"end");
    read_large(&mut client);
}

#[test]
fn a_thread_that_reads_on_leaves_the_rest_to_the_drainer() {
    let (connection, mut client) = connection();
    answer_large(&connection);
    connection.send_some();
    assert_eq!(connection.lock().socket, Socket::Watched);
    connection.append_raw(b"end");
    read_large(&mut client);
}

#[test]
fn memory_of_replies_in_flight_stays_counted() {
    let (connection, mut client) = connection();
    let memory = Arc::clone(&connection.memory);
    connection.may_wait_here();
    let held = LARGE as u64;
    assert!(connection.try_open(held) && connection.try_open(100));
    connection.answer(held, Buffer::new(LARGE), |_| true);
    connection.send_some();
    thread::scope(|scope| {
        scope.spawn(|| {
            while connection.lock().in_flight_bytes == 0 {
                thread::yield_now();
            }
            let before = memory.used_bytes();
            assert!(before >= held - CONNECTION_OWN_BYTES);
            // All replies are in flight, so the outbox is empty.
            assert!(connection.lock().out.is_empty());
            connection.forget(100);
            assert_eq!(memory.used_bytes(), before);
            client.read_exact(&mut vec![0; LARGE]).expect("all comes");
        });
        connection.send_and_wait();
    });
    assert_eq!(memory.used_bytes(), 0);
}

#[test]
fn memory_of_replies_in_flight_is_given_back_when_the_connection_is_closed() {
    let (connection, _client) = connection();
    connection.may_wait_here();
    assert!(connection.try_open(LARGE as u64));
    connection.answer(LARGE as u64, Buffer::new(LARGE), |_| true);
    connection.send_some();
    thread::scope(|scope| {
        scope.spawn(|| {
            while connection.lock().in_flight_bytes == 0 {
                thread::yield_now();
            }
            connection.close();
        });
        connection.send_and_wait();
    });
    let state = connection.lock();
    assert!(state.out.is_empty() && state.in_flight_bytes == 0);
    assert_eq!(connection.memory.used_bytes(), 0);
}

/// Runs `work` while another thread waits for memory.
fn while_memory_is_wanted(memory: &Memory, work: impl FnOnce()) {
    let all = memory.free_bytes();
    memory.take(all);
    thread::scope(|scope| {
        scope.spawn(|| memory.take(1));
        while !memory.is_wanted() {
            thread::yield_now();
        }
        work();
        memory.give(all);
    });
    memory.give(1);
}

#[test]
fn a_client_that_takes_little_is_given_up_only_while_memory_is_wanted() {
    let (connection, _client) = connection();
    let after = |time: Duration| Instant(time.as_nanos() as u64 + 1);
    let (stuck, slow) = (after(STUCK_CLIENT), after(SLOW_CLIENT));
    let goes_on = |count, now| connection.goes_on(&mut Taking::new(Instant(0)), count, now);
    assert!(goes_on(100, slow) && goes_on(0, slow) && goes_on(0, stuck));
    while_memory_is_wanted(&connection.memory, || {
        assert!(!goes_on(100, slow) && goes_on(REPLIES_BYTES_MIN, slow));
        assert!(!goes_on(0, stuck) && goes_on(1, stuck));
    });
}

#[test]
fn a_client_that_takes_nothing_of_a_file_is_closed_while_memory_is_wanted() {
    let (connection, client) = connection();
    let file = tempfile::tempfile().expect("a file");
    file.set_len(LARGE as u64).expect("sparse");
    assert!(connection.try_open(100));
    while_memory_is_wanted(&connection.memory, || {
        let begin = clock::now();
        let data = Data::File(file.as_fd(), 0, LARGE as u64);
        connection.answer_and_wait(Held::from(100), data, |head| head.push(0));
        assert!(clock::now().since(begin).0 >= STUCK_CLIENT.as_nanos() as u64);
    });
    assert_eq!(connection.lock().socket, Socket::Closed);
    drop(client);
}

#[test]
fn the_drainer_is_told_since_when_a_client_takes_nothing() {
    let (connection, _client) = connection();
    let kind = rustix::net::sockopt::Timeout::Send;
    let soon = Some(Duration::from_millis(1));
    rustix::net::sockopt::set_socket_timeout(connection.socket(), kind, soon).expect("a socket");
    answer_large(&connection);
    let mut out = std::mem::take(&mut connection.lock().out);
    let mut taking = Taking::new(clock::now());
    assert_eq!(connection.send_out(&mut out, &mut taking), Err(Errno::AGAIN));
    // The socket is full: the next wait takes nothing, and the time goes on.
    let before = format!("{taking:?}");
    assert_eq!(connection.send_out(&mut out, &mut taking), Err(Errno::AGAIN));
    assert_eq!(format!("{taking:?}"), before);
}

#[test]
fn a_group_is_not_in_use_while_a_client_takes_a_reply() {
    let (connection, mut client) = connection();
    let file = tempfile::tempfile().expect("a file");
    file.set_len(LARGE as u64).expect("sparse");
    connection.may_wait_here();
    connection.payer.begin();
    let held = Held::from(100);
    assert!(connection.try_open(held));
    let own = Arc::clone(&connection);
    let ticket = Ticket::new(own, 1, iopace_nbd::Replies::default(), held, true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while connection.lock().socket != Socket::Owned {
                thread::yield_now();
            }
            let in_use = connection.payer.in_use();
            client.read_exact(&mut vec![0; LARGE + 16]).expect("a header and all data");
            assert_eq!(in_use, None);
        });
        let extent = Extent::new(Bytes(0), Bytes(LARGE as u64)).expect("small");
        Box::new(ticket).answer_from_file(file.as_fd(), extent);
    });
}
