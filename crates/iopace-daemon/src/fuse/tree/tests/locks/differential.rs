//! Random locks of several processes, on a mount and on a plain directory: the same answers.

use super::process::Process;
use super::{ALL, OFD, POSIX, both, past};
use libc::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use std::path::PathBuf;

const PROCESSES: usize = 4;

/// Descriptors of each process; the last is for reading only.
const FILES: usize = 3;

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        // The multiplier and addend of Knuth's MMIX generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The same processes once more, on other files.
struct Side {
    processes: Vec<(Process, Vec<i32>)>,
    paths: Vec<PathBuf>,
}

fn flags(file: usize) -> i32 {
    if file + 1 == FILES { libc::O_RDONLY } else { libc::O_RDWR }
}

impl Side {
    /// Each process has a path of its own to the same file.
    fn new(paths: Vec<PathBuf>) -> Side {
        std::fs::write(&paths[0], "text").unwrap();
        let open = |path: &PathBuf| {
            let process = Process::new();
            let fds = (0..FILES).map(|file| process.open_as(path, flags(file))).collect();
            (process, fds)
        };
        Side { processes: paths.iter().map(open).collect(), paths }
    }

    /// One step, and what it gives.
    fn step(&mut self, numbers: &mut Numbers) -> String {
        let (who, file) = (numbers.below(PROCESSES as u64) as usize, numbers.below(FILES as u64));
        let (file, what) = (file as usize, numbers.below(20));
        let (start, len) = (numbers.below(12) as i64, numbers.below(5) as i64);
        let (kind, how) = (numbers.below(3) as usize, numbers.below(3));
        let (process, fds) = &mut self.processes[who];
        let fd = fds[file];
        let text = if what == 0 {
            process.close(fd);
            fds[file] = process.open_as(&self.paths[who], flags(file));
            "closed".to_owned()
        } else if what <= 4 {
            let kind = if kind == 0 { F_RDLCK } else { F_WRLCK };
            let command = if how == 0 { libc::F_OFD_GETLK } else { libc::F_GETLK };
            let found = process.lock(fd, command, kind, (start, len));
            let found = (found.result, found.kind, found.start, found.len);
            // Which of several is told is up to the order of owners.
            format!("{:?}", (found.0, found.1 == F_UNLCK))
        } else if how == 0 {
            let kind = [LOCK_SH, LOCK_EX, LOCK_UN][kind] | LOCK_NB;
            format!("{:?}", process.lock(fd, 0, kind, ALL).result)
        } else {
            let command = if how == 1 { POSIX } else { OFD };
            let kind = [F_RDLCK, F_WRLCK, F_UNLCK][kind];
            format!("{:?}", process.lock(fd, command, kind, (start, len)).result)
        };
        format!("{who}.{file} {what} {how} {kind} {start}+{len}: {text}")
    }
}

#[test]
fn locks_are_as_those_of_a_plain_directory() {
    for (number, mounted) in both().enumerate() {
        let (above, below) = (mounted.mount.join("f"), past(&mounted, "f"));
        let mut mount = Side::new(vec![above.clone(), above.clone(), above, below]);
        let mut plain = Side::new(vec![mounted.plain.join("f"); PROCESSES]);
        let seed = 7 + number as u64;
        let (mut numbers, mut same) = (Numbers(seed), Numbers(seed));
        let mut log = Vec::new();
        for _ in 0..1500 {
            let (seen, expected) = (mount.step(&mut numbers), plain.step(&mut same));
            log.push(expected.clone());
            assert_eq!(
                seen,
                expected,
                "mount, plain; before: {:#?}",
                &log[log.len().saturating_sub(30)..]
            );
        }
        drop(mount);
        super::super::until("all is let go", || mounted.tree.files_open() == 0);
    }
}
