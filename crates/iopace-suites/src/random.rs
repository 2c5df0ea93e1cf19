//! Chance from a seed.

/// A 64-bit linear congruence with Knuth's MMIX constants; the upper half is used.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below the bound, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
