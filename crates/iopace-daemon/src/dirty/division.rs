//! One amount of dirty memory, divided among devices that come and go.

use crate::config::DeviceConfig;
use crate::device::{MemoryUse, thresholds};
use iopace_core::pace::domain::Domain;
use iopace_core::pace::{Budget, Thresholds};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

/// Who gets how much.
#[derive(Debug)]
pub(super) struct Division {
    domain: Domain,
    /// `None` where a device is gone.
    configs: Vec<Option<DeviceConfig>>,
    /// What each had written back at the last look.
    written: Vec<Bytes>,
}

impl Division {
    pub(super) fn new(configs: Vec<DeviceConfig>) -> Division {
        // Made of nothing, so that the first look gives every device its floor and none all of it.
        let domain = Domain::new(Thresholds { background: Bytes::ZERO, limit: Bytes::ZERO });
        let mut division = Division { domain, configs: Vec::new(), written: Vec::new() };
        configs.into_iter().for_each(|config| _ = division.add(config));
        division
    }

    /// One more device; its place, which may be that of one that is gone.
    pub(super) fn add(&mut self, config: DeviceConfig) -> usize {
        let free = self.configs.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.configs.push(None);
            self.written.push(Bytes::ZERO);
            self.domain.add()
        });
        (self.configs[place], self.written[place]) = (Some(config), Bytes::ZERO);
        place
    }

    /// The device of that place is gone.
    pub(super) fn remove(&mut self, place: usize) {
        (self.configs[place], self.written[place]) = (None, Bytes::ZERO);
    }

    /// Divides `limit` among the devices by what each has written back lately, none more than its
    /// own limit.
    pub(super) fn divide(&mut self, now: Instant, limit: Bytes, uses: &[MemoryUse]) -> Vec<Budget> {
        self.domain.set_all(Thresholds { background: Bytes(limit.get() / 2), limit });
        for (index, used) in uses.iter().enumerate() {
            let most = match &self.configs[index] {
                Some(config) => config.dirty_limit.map_or(limit, |own| own.min(limit)),
                None => Bytes::ZERO,
            };
            let permille =
                (u128::from(most.get()) * 1_000).div_ceil(u128::from(limit.get().max(1)));
            self.domain.set_ratios(index, 0, u16::try_from(permille).unwrap_or(1_000));
            let before = std::mem::replace(&mut self.written[index], used.written_back);
            self.domain.report(now, index, used.dirty, used.written_back - before);
        }
        let told = self.domain.budgets().into_iter().zip(&self.configs);
        let own = |(budget, config): (Budget, &Option<DeviceConfig>)| match config {
            Some(config) => Budget { device: thresholds(config, budget.device.limit), ..budget },
            None => budget,
        };
        told.map(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Backend;
    use iopace_core::time::Nanos;

    const MIB: u64 = 1 << 20;

    fn division(limits: &[Option<u64>]) -> Division {
        let config = |limit: &Option<u64>| DeviceConfig {
            dirty_limit: limit.map(Bytes::from_mib),
            ..DeviceConfig::new("disk", Backend::Path("disk.img".into()))
        };
        Division::new(limits.iter().map(config).collect())
    }

    /// Looks for `count` times 200 ms at devices that always have all dirty that they may, and
    /// write back so many MiB each time. The limits in MiB at the end.
    fn run(division: &mut Division, rates: &[u64], count: u64) -> Vec<u64> {
        let mut uses = vec![MemoryUse::default(); rates.len()];
        let mut limits = Vec::new();
        for turn in 0..count {
            let now = Instant::ZERO + Nanos::from_millis(200 * turn);
            let budgets = division.divide(now, Bytes::from_mib(100), &uses);
            limits = budgets.iter().map(|budget| budget.device.limit.get() / MIB).collect();
            assert!(limits.iter().sum::<u64>() <= 100, "{limits:?}");
            for ((used, budget), rate) in uses.iter_mut().zip(budgets).zip(rates) {
                used.written_back += Bytes::from_mib(*rate);
                used.dirty = if *rate > 0 { budget.device.limit } else { Bytes::ZERO };
                let (background, limit) = (budget.device.background, budget.device.limit);
                assert!(background < limit || limit == Bytes::ZERO, "{budget:?}");
            }
        }
        limits
    }

    #[test]
    fn a_device_alone_gets_all_and_no_more_than_its_own_limit() {
        assert_eq!(run(&mut division(&[None]), &[10], 5), [100]);
        assert_eq!(run(&mut division(&[Some(30)]), &[10], 5), [30]);
        assert_eq!(run(&mut division(&[Some(3_000)]), &[10], 5), [100]);
        let capped = DeviceConfig {
            dirty_background: Some(Bytes::from_mib(7)),
            ..division(&[None]).configs.remove(0).expect("there")
        };
        let budgets = Division::new(vec![capped]).divide(
            Instant::ZERO,
            Bytes::from_mib(100),
            &[MemoryUse::default()],
        );
        assert_eq!(budgets[0].device.background, Bytes::from_mib(7));
    }

    #[test]
    fn every_device_has_its_floor_from_the_first_look_on() {
        // An eighth: nobody knows yet which of them is slow.
        let limits = run(&mut division(&[None, None, None]), &[0, 0, 0], 1);
        assert_eq!(limits, [12, 12, 12]);
        assert_eq!(run(&mut division(&[None, None, None]), &[0, 0, 0], 100), limits);
    }

    #[test]
    fn who_writes_more_gets_more_and_the_idle_keep_something() {
        let limits = run(&mut division(&[None, None, None]), &[30, 10, 0], 100);
        assert!(limits[0] > limits[1] && limits[1] > limits[2] && limits[2] >= 5, "{limits:?}");
        let limits = run(&mut division(&[Some(8), None]), &[20, 20], 100);
        assert!(limits[0] == 8 && limits[1] >= 91, "{limits:?}");
    }

    #[test]
    fn a_device_that_begins_alone_has_more_with_each_look() {
        let mut division = division(&[None, None, None]);
        let mut uses = vec![MemoryUse::default(); 3];
        let mut limits = Vec::new();
        for turn in 0..4 {
            let now = Instant::ZERO + Nanos::from_millis(turn);
            let budgets = division.divide(now, Bytes::from_mib(96), &uses);
            limits.push(budgets[1].device.limit.get() / MIB);
            uses[1].dirty = Bytes(budgets[1].device.limit.get() / 2);
        }
        assert_eq!(limits, [12, 24, 48, 72]);
    }

    #[test]
    fn a_device_that_is_gone_leaves_its_part_and_its_place() {
        let mut division = division(&[None, None]);
        run(&mut division, &[20, 20], 50);
        division.remove(0);
        let limits = run(&mut division, &[0, 20], 100);
        assert!(limits[0] == 0 && limits[1] >= 90, "{limits:?}");
        let config = DeviceConfig::new("new", Backend::Path("new.img".into()));
        assert_eq!(division.add(config), 0);
        let limits = run(&mut division, &[20, 20], 100);
        assert!(limits[0] >= 40 && limits[1] >= 40, "{limits:?}");
    }
}
