//! What the model learns, and what follows from it.

use super::*;

#[test]
fn it_learns_flash_and_does_not_take_it_for_a_disk_with_a_head() {
    for (disk, window) in [(Disk::Flash, 1), (Disk::Flash, 32), (Disk::Shared, 32)] {
        let mut bench = Bench::new(disk, window, &[]);
        let mut clients = [
            client(1, 1).depth(32).sizes(&[4_096, 65_536, 262_144]),
            client(2, 2).depth(2).sequential(),
        ];
        bench.run(&mut clients, Instant(5_000_000_000));
        assert!(!bench.fair.model.has_head());
        assert_eq!(bench.fair.goes.count, 0);
    }
}

#[test]
fn it_finds_the_head_and_keeps_streams_going() {
    for window in [1, 4] {
        let mut bench = Bench::new(Disk::Head, window, &[]);
        let mut clients =
            [client(1, 1).sequential().think_us(100), client(2, 2).sequential().think_us(100)];
        bench.run(&mut clients, TEN_SECONDS);
        assert!(bench.fair.model.has_head());
        // 1.4 ms each in sequence, 9.3 ms with a seek.
        let served = bench.served(1) + bench.served(2);
        assert!(served >= 10_000 * 10 / 14 * 80 / 100, "window {window}: {served} requests");
        bench.assert_shares(&[(1, 1), (2, 1)], 30);
    }
}

#[test]
fn a_stream_beside_random_reads_has_its_share_of_time() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    let mut clients = [client(1, 1).sequential().think_us(100), client(2, 2).depth(8)];
    bench.run(&mut clients, TEN_SECONDS);
    bench.assert_shares(&[(1, 1), (2, 1)], 100);
}

#[test]
fn a_random_reader_that_thinks_has_its_share_beside_a_stream() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    let mut clients = [client(1, 1).sequential().depth(4), client(2, 2).think_us(1_000)];
    bench.run(&mut clients, TEN_SECONDS);
    // It is charged for the time it thinks: 8.2 of 9.2 ms are service.
    let (stream, reader) = (bench.service(1), bench.service(2));
    assert!(reader * 100 >= (stream + reader) * 44, "{stream} and {reader}");
}

#[test]
fn a_lost_command_teaches_nothing() {
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    bench.run(&mut [client(1, 1).depth(2)], Instant(1_000_000_000));
    let before = bench.fair.mean;
    bench.push(1, 1, false);
    let Pop::Ready(id) = bench.fair.pop(bench.now, &bench.table) else { panic!("held back") };
    let request = bench.table[id];
    bench.table.end(id);
    bench.now = bench.now + Nanos::from_secs(30);
    bench.fair.on_done(bench.now, id, &request, false);
    bench.push(1, 1, false);
    bench.run(&mut [], Instant(40_000_000_000));
    assert!(bench.fair.mean <= before * 2, "{before} to {}", bench.fair.mean);
}
