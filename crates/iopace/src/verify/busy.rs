//! Whether the processors were free, as the kernel says (pressure stall information).

use std::fs;
use std::time::Instant;

/// Where the kernel says for how long somebody waited for a processor, since it was started.
const PRESSURE: &str = "/proc/pressure/cpu";

/// A look at the beginning.
#[derive(Debug)]
pub struct Busy {
    begun: Instant,
    waited_us: Option<u64>,
}

impl Busy {
    /// From now on.
    pub fn begin() -> Busy {
        Busy { begun: Instant::now(), waited_us: waited_us() }
    }

    /// The part of the time since then in which somebody waited for a processor, in percent; none
    /// if the kernel does not say.
    pub fn end(&self) -> Option<f64> {
        let waited = waited_us()?.saturating_sub(self.waited_us?);
        Some(waited as f64 / self.begun.elapsed().as_micros().max(1) as f64 * 100.0)
    }
}

fn waited_us() -> Option<u64> {
    total_us(&fs::read_to_string(PRESSURE).ok()?)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, the total in microseconds.
fn total_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        let text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=4711\nfull avg10=0.00 total=3\n";
        assert_eq!(total_us(text), Some(4711));
        assert_eq!(total_us("full avg10=0.00 total=3"), None);
    }
}
