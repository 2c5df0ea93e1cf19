//! Several runs at once, results in the order of the jobs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most threads that are started: runs are bound by the processor, and the tables have a few dozen.
const THREADS_MAX: usize = 16;

/// Carries out `work` for every job, on as many threads as there are processors.
///
/// Each run is single-threaded and depends on its job alone, so the result does not depend on the
/// number of threads.
pub fn map<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = processors.min(jobs.len()).clamp(1, THREADS_MAX);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    let result = work(job);
                    *results[index].lock().expect("each is locked once") = Some(result);
                }
            });
        }
    });
    let done = results.into_iter().map(|slot| slot.into_inner().expect("no holder panicked"));
    done.map(|result| result.expect("every job was carried out")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..1_000).collect();
        let squares = super::map(&jobs, |n| n * n);
        assert!(squares.iter().enumerate().all(|(i, s)| *s == (i * i) as u64));
        assert!(super::map(&[] as &[u64], |n| *n).is_empty());
    }
}
