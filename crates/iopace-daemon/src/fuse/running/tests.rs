//! Who is given up, when, and what waits for what then.

use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Says what it was given.
struct Said(Sender<Option<i32>>);

impl Refuse for Said {
    fn refuse(self, errno: Errno) {
        let _ = self.0.send(Some(errno.code()));
    }
}

fn reply() -> (Said, Receiver<Option<i32>>) {
    let (sender, said) = channel();
    (Said(sender), said)
}

const DYING: u32 = 7;

fn is_dying(pid: u32) -> bool {
    pid == DYING
}

#[test]
fn who_is_being_killed_is_answered_at_the_second_look() {
    let running = Running::default();
    let ((dying, said), (living, unsaid)) = (reply(), reply());
    let given_up = running.begin(DYING, Touch::one(1), dying).expect("it begins");
    let kept = running.begin(8, Touch::one(2), living).expect("it begins");
    assert_eq!(running.look(is_dying), 0);
    assert!(said.try_recv().is_err(), "it may just have begun");
    assert_eq!(running.look(is_dying), 1);
    assert_eq!(said.recv(), Ok(Some(libc::EINTR)));
    assert_eq!(running.look(is_dying), 0, "once");
    assert!(given_up.is_given_up() && given_up.take().is_none());
    assert!(!kept.is_given_up() && kept.take().is_some());
    drop(kept);
    assert!(unsaid.try_recv().is_err());
}

#[test]
fn what_was_answered_is_not_given_up() {
    let running = Running::default();
    let (reply, said) = reply();
    let late = running.begin(DYING, Touch::one(1), reply).expect("it begins");
    assert!(late.take().is_some());
    running.look(is_dying);
    assert_eq!(running.look(is_dying), 0);
    drop(late);
    assert_eq!(running.look(is_dying), 0);
    assert!(said.try_recv().is_err());
    assert_eq!(running.given_up_count.load(SeqCst), 0);
}

#[test]
fn nothing_overtakes_what_was_given_up() {
    let running = Running::default();
    let late = running.begin(DYING, Touch::two(3, 4), reply().0).expect("it begins");
    running.look(is_dying);
    assert_eq!(running.look(is_dying), 1);
    let (begun, begins) = channel();
    thread::scope(|scope| {
        for touch in [Touch::one(4), Touch::two(6, 3)] {
            let (running, begun) = (&running, begun.clone());
            scope.spawn(move || {
                let late = running.begin(9, touch, reply().0).expect("it begins");
                begun.send(touch).expect("somebody listens");
                drop(late);
            });
        }
        // What has nothing to do with it goes on, and who only looks.
        for touch in [Touch::one(5), Touch::NOTHING] {
            drop(running.begin(9, touch, reply().0).expect("it begins"));
        }
        assert!(begins.recv_timeout(Duration::from_millis(100)).is_err(), "they wait");
        drop(late);
        assert!(begins.recv().is_ok() && begins.recv().is_ok());
    });
    assert_eq!(running.given_up_count.load(SeqCst), 0);
    assert!(running.rows.iter().all(|row| row.lock().expect("whole").is_empty()));
}

#[test]
fn who_waits_for_what_was_given_up_can_be_killed_too() {
    let running = Running::default();
    let late = running.begin(DYING, Touch::one(3), reply().0).expect("it begins");
    running.look(is_dying);
    assert_eq!(running.look(is_dying), 1);
    let (reply, said) = reply();
    thread::scope(|scope| {
        let waits = scope.spawn(|| running.begin(9, Touch::one(3), reply).is_none());
        while !waits.is_finished() {
            running.look(|pid| pid == 9);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(waits.join().expect("no panic"), "it never begins");
    });
    assert_eq!(said.recv(), Ok(Some(libc::EINTR)));
    assert_eq!(running.given_up_count.load(SeqCst), 1, "only what goes on");
    drop(late);
    assert_eq!(running.given_up_count.load(SeqCst), 0);
}
