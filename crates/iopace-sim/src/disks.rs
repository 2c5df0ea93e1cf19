//! Joins a scenario with the disk models.
use crate::report::DiskReport;
use crate::scenario::Scenario;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_disk::machine::Machine;
pub(crate) struct D;
impl D {
    pub(crate) fn capacity(&self) -> Bytes {
        Bytes(250_000_000_000)
    }
}
pub(crate) fn build(name: &str, _set: &[(String, u64)]) -> Result<D, String> {
    if name == "hdd-sata-250g" { Ok(D) } else { Err(format!("no disk '{name}'")) }
}
pub(crate) fn machine(s: &Scenario) -> Machine {
    Machine::new(iopace_core::engine::Config {
        base: s.base,
        nr_requests: s.nr_requests,
        window_depth: 1,
    })
}
pub(crate) fn report(_: &[Option<iopace_disk::Stats>; 2], _: Nanos) -> DiskReport {
    DiskReport::default()
}
