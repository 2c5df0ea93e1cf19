//! Who waits for room is told of it, whoever makes it.

use super::super::receive::{End, Waits, receive_payload};
use super::*;
use crate::clock;
use crate::limits::{CONNECTION_BYTES_MAX, CONNECTION_OWN_BYTES};
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
        // It has looked after each answer, and found no room: the replies are not sent.
        wait_until_it_waits(&connection);
        assert!(!waiting.is_finished());
        connection.send();
        assert!(waiting.join().expect("woken"));
    });
    assert_eq!(connection.memory.used_bytes(), half - CONNECTION_OWN_BYTES);
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
