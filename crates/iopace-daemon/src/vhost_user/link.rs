//! The conversation with a machine's process: where its memory is and its queues are.
//!
//! The library `vhost` reads the messages, checks their sizes, and answers; here is what they do.

use super::blk::{F_EVENT_IDX, F_FLUSH, F_PROTOCOL};
use super::chain::Broken;
use super::inflight::Inflight;
use super::machine::Machine;
use super::regions::{REGIONS_MAX, Regions};
use super::ring::{Addresses, Ring};
use super::trust::check_event;
use super::{QUEUE_SIZE_MAX, QUEUES_MAX};
use rustix::event::epoll;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

/// Between two looks whether the requests of a queue that ends are answered, or the daemon ends.
const IDLE_STEP: Duration = Duration::from_millis(20);

/// The conversation with one machine's process, and the features agreed on.
pub(super) struct Link {
    machine: Arc<Machine>,
    /// Told of kicks.
    events: Arc<OwnedFd>,
    /// The queues that have begun, a bit for each.
    started: Arc<AtomicU64>,
    features: u64,
    regions: Arc<Regions>,
    inflight: Option<Inflight>,
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

fn unasked<T>() -> Result<T> {
    Err(Error::InvalidOperation("the disk has not offered that"))
}

impl Link {
    pub(super) fn new(
        machine: Arc<Machine>,
        events: Arc<OwnedFd>,
        started: Arc<AtomicU64>,
    ) -> Link {
        let (features, regions, inflight) = (0, Arc::default(), None);
        Link { machine, events, started, features, regions, inflight }
    }

    fn ring(&self, index: u32) -> Result<&Ring> {
        self.machine.rings.get(index as usize).ok_or(Error::InvalidParam)
    }

    /// A descriptor for events, if it may be used.
    fn event(&self, file: Option<File>) -> Result<Option<OwnedFd>> {
        if let Some(file) = &file {
            check_event(file.as_fd(), self.machine.is_trusted).map_err(failed)?;
        }
        Ok(file.map(OwnedFd::from))
    }

    /// The memory is this from now on; requests that were taken keep that which they have.
    fn share(&mut self, regions: Regions) {
        self.regions = Arc::new(regions);
        for ring in &self.machine.rings {
            ring.lock().share(&self.regions);
        }
    }

    /// Nothing more is taken from a queue; waits for the answers to what was.
    fn end(&self, index: u32) -> Result<u16> {
        let ring = self.ring(index)?;
        let was_enabled = std::mem::take(&mut ring.lock().is_enabled);
        // The driver may use its memory for something else afterwards, however long this takes.
        while ring.wait(IDLE_STEP) > 0 {
            if self.machine.is_stopping() {
                return Err(failed("the daemon ends"));
            }
        }
        self.machine.call();
        self.started.fetch_and(!(1 << index), Ordering::AcqRel);
        let mut state = ring.lock();
        if let Some(kick) = &state.kick {
            let _ = epoll::delete(&*self.events, kick);
        }
        state.is_enabled = was_enabled;
        Ok(state.stop())
    }

    fn begin(&self, index: u8, kick: OwnedFd) -> Result<()> {
        let ring = self.ring(u32::from(index))?;
        let mut state = ring.lock();
        state.has_event_index = self.features & F_EVENT_IDX != 0;
        if self.features & F_PROTOCOL == 0 {
            state.is_enabled = true;
        }
        let size = state.size();
        state.tracked =
            self.inflight.as_ref().and_then(|inflight| inflight.queue(usize::from(index), size));
        if let Err(Broken::Wrong(why)) = state.start() {
            return Err(failed(why));
        }
        // Edge-triggered: each kick is told of, and its counter need not be read.
        let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        epoll::add(&*self.events, &kick, data, flags | epoll::EventFlags::ET)
            .map_err(|error| failed(io::Error::from(error)))?;
        state.kick = Some(kick);
        self.started.fetch_or(1 << index, Ordering::AcqRel);
        drop(state);
        // A daemon that was killed may have answered without telling.
        ring.call_anyway();
        Ok(())
    }
}

impl VhostUserBackendReqHandlerMut for Link {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    /// Outdated; nothing is to be done.
    fn reset_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        for index in 0..QUEUES_MAX as u32 {
            self.end(index)?;
            self.ring(index)?.lock().is_enabled = false;
        }
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.machine.disk.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.machine.disk.features() != 0 {
            return Err(Error::FeatureMismatch);
        }
        self.features = features;
        self.machine.is_write_through.store(features & F_FLUSH == 0, Ordering::Release);
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let regions = Regions::new(regions, files, self.machine.is_trusted).map_err(failed)?;
        self.share(regions);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        let mut state = self.ring(index)?.lock();
        if state.is_started() {
            return Err(Error::InvalidOperation("the size of a queue that is in use"));
        }
        state.set_size(size).map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.ring(index)?.lock().addresses = Some(Addresses { descriptors, available, used });
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.lock().base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        Ok(VhostUserVringState::new(index, u32::from(self.end(index)?)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        // Without one it would have to be looked after all the time, which is not offered.
        let kick = self.event(file)?.ok_or(Error::IncorrectFds)?;
        if self.ring(u32::from(index))?.lock().is_started() {
            self.end(u32::from(index))?;
        }
        self.begin(index, kick)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = self.event(file)?.map(Arc::new);
        let ring = self.ring(u32::from(index))?;
        ring.lock().call = call;
        // A call on the descriptor before may be lost: QEMU looks at it before it sends this.
        ring.call_anyway();
        Ok(())
    }

    /// Nobody is told there: what is wrong with a queue stands in the log.
    fn set_vring_err(&mut self, index: u8, _file: Option<File>) -> Result<()> {
        self.ring(u32::from(index)).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.lock().is_enabled = enable;
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        let (from, size) = (offset as usize, size as usize);
        let mut config = self.machine.disk.config();
        // A driver of a newer version may ask for more: that is zero.
        config.resize(config.len().max(256), 0);
        let end = from.checked_add(size).ok_or(Error::InvalidParam)?;
        config.get(from..end).map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _buf: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        unasked()
    }

    fn set_gpu_socket(&mut self, _gpu_backend: GpuBackend) -> Result<()> {
        unasked()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        unasked()
    }

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (asked.num_queues, asked.queue_size);
        if queues == 0 || usize::from(queues) > QUEUES_MAX || size == 0 || size > QUEUE_SIZE_MAX {
            return Err(Error::InvalidParam);
        }
        let (file, bytes) = Inflight::create(queues, size).map_err(failed)?;
        let kept = file.try_clone().map_err(failed)?;
        self.inflight =
            Some(Inflight::open(kept, (0, bytes), (queues, size), true).map_err(failed)?);
        Ok((VhostUserInflight::new(bytes, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, inflight: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = *inflight;
        let (place, sizes) = ((mmap_offset, mmap_size), (num_queues, queue_size));
        let opened = Inflight::open(file, place, sizes, self.machine.is_trusted);
        self.inflight = Some(opened.map_err(failed)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        let regions = self.regions.with(region, file, self.machine.is_trusted).map_err(failed)?;
        self.share(regions);
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let regions = self.regions.without(region).map_err(failed)?;
        self.share(regions);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        unasked()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unasked()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unasked()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        unasked()
    }
}
