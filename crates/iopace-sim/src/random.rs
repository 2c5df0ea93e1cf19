//! Seeded randomness: one named generator per task, so that adding a task does not shift the
//! draws of the others.

use rand_pcg::Mcg128Xsl64;
use rand_pcg::rand_core::Rng as _;

/// A stream of numbers that depends on the seed and the name alone.
#[derive(Clone, Debug)]
pub struct Random(Mcg128Xsl64);

impl Random {
    /// The stream of the entity `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Random {
        // The name is folded in with FNV-1a, then both are spread over 128 bits by the finaliser
        // of SplitMix64 (Steele, Lea, Flood 2014), as close seeds must not give close streams.
        let folded = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let high = spread(seed ^ folded);
        let low = spread(high ^ seed.rotate_left(32));
        Random(Mcg128Xsl64::new((u128::from(high) << 64) | u128::from(low)))
    }

    /// A number from 0 to `bound - 1`; 0 when the bound is 0. The bias of the multiplication is
    /// below 2^-30 for every bound used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Puts the items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Spreads every bit of the input over all bits of the output.
fn spread(input: u64) -> u64 {
    let mut x = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_alone() {
        let draw = |seed, name| {
            let mut random = Random::new(seed, name);
            [random.below(1_000_000), random.below(1_000_000)]
        };
        assert_eq!(draw(1, "cvs"), draw(1, "cvs"));
        assert_ne!(draw(1, "cvs"), draw(2, "cvs"));
        assert_ne!(draw(1, "cvs"), draw(1, "dd"));
    }

    #[test]
    fn draws_are_even_and_within_their_bounds() {
        let mut random = Random::new(7, "even");
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
        assert!((0..1_000).all(|_| (5..=7).contains(&random.between(5, 7))));
        assert_eq!(random.below(0), 0);
        let mut items: Vec<u32> = (0..100).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
