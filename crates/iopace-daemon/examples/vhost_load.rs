//! A load without a machine: random reads or writes of one size over vhost-user, at one depth.
//! `vhost_load SOCKET read|write BYTES DEPTH SECONDS told|polled`; prints requests per second.
//! `told` sleeps until the disk calls, as a guest's kernel does; `polled` looks all the time.

#[path = "../tests/support/machine.rs"]
mod machine;

use machine::Machine;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, op, bytes, depth, seconds, how] = &words[..] else {
        eprintln!("vhost_load SOCKET read|write BYTES DEPTH SECONDS told|polled");
        std::process::exit(2);
    };
    let number = |word: &String| word.parse::<u64>().expect("a number");
    let (bytes, depth, is_write) = (number(bytes), number(depth), op == "write");
    let is_told = how == "told";
    let room = (bytes * depth) as usize;
    let mut machine = Machine::connect(Path::new(socket), (1, 256), room);
    machine.queues[0].set_used_notif_enabled(is_told);
    let places = u64::from(machine.config().capacity) * 512 / bytes;
    let mut random = 1u64;
    let mut ask = |machine: &mut Machine, slot: u64| {
        // A 64-bit linear congruence with Knuth's MMIX constants.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (random >> 33) % places * bytes;
        let at = machine.memory.at((slot * bytes) as usize);
        // SAFETY: each slot is one request's at a time.
        let asked = unsafe {
            match is_write {
                true => machine.queues[0].write_raw(offset, at, bytes as usize, slot),
                false => machine.queues[0].read_raw(offset, at, bytes as usize, slot),
            }
        };
        asked.expect("room in the queue");
    };
    let (begin, limit) = (Instant::now(), Duration::from_secs(number(seconds)));
    (0..depth).for_each(|slot| ask(&mut machine, slot));
    machine.kick(0);
    let mut count = 0u64;
    while begin.elapsed() < limit {
        let ended = if is_told { machine.wait(0) } else { machine.ended(0) };
        for &(slot, ret) in &ended {
            assert_eq!(ret, 0, "the disk fails");
            ask(&mut machine, slot);
        }
        count += ended.len() as u64;
        if ended.is_empty() {
            std::hint::spin_loop();
        } else {
            machine.kick(0);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{:.0}", count as f64 / seconds);
}
