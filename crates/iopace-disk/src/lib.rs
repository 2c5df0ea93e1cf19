//! Disk models without I/O and without a clock.
