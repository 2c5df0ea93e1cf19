//! The thread that asks the store, for all volumes of a host.

use super::etcd::Etcd;
use super::member::StoreContact;
use super::news::ClusterNote;
use super::store::{Store, StoreError};
use super::volume::Volume;
use crate::api::{ClusterEvent, ClusterState, VolumeState};
use crate::clock;
use crate::config::ClusterConfig;
use crate::config::DaemonConfig;
use crate::groups::Groups;
use crate::start_error::StartError;
use iopace_core::time::Instant;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Events that are kept.
const EVENTS_KEPT: usize = 64;

/// Why nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The daemon has no part in a cluster.
    #[error(
        "there is no part in a cluster: give the configuration of the daemon a [cluster] table \
         with the members of `etcd`, and a device a `volume`"
    )]
    NoCluster,
    /// There are several volumes.
    #[error("which volume is meant is not said: say --volume with one of {}", .0.join(", "))]
    WhichVolume(Vec<String>),
    /// There is none of that name.
    #[error("there is no volume '{0}'; there are: {list}", list = .1.join(", "))]
    NoVolume(String, Vec<String>),
    /// The store, or what was asked of it.
    #[error("{0}")]
    Refused(String),
}

/// A host's part in its cluster.
pub struct Cluster {
    shared: Arc<ClusterNews>,
    config: ClusterConfig,
    volumes: Vec<String>,
    orders: Mutex<Sender<ClusterOrder>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_ending: Arc<AtomicBool>,
}

/// What the thread tells.
#[derive(Default)]
struct ClusterNews {
    volumes: Mutex<Vec<VolumeState>>,
    events: Mutex<VecDeque<(Instant, String, String)>>,
}

/// A change that somebody waits for.
type Work = Box<dyn FnOnce(&mut Volume, &mut dyn Store) -> Result<(), String> + Send>;

enum ClusterOrder {
    Change(String, Work, Sender<Result<(), String>>),
    End,
}

struct Agent {
    store: Box<dyn Store>,
    volumes: Vec<Volume>,
    groups: Arc<Groups>,
    told: Arc<ClusterNews>,
    is_ending: Arc<AtomicBool>,
}

impl Cluster {
    /// Joins, if it is configured. What is known from before holds from here on; a host that knows
    /// nothing has to reach the store once.
    ///
    /// # Errors
    /// Nothing is known and the store does not answer, or there is no thread.
    pub(crate) fn start(
        config: &DaemonConfig,
        groups: &Arc<Groups>,
    ) -> Result<Option<Cluster>, StartError> {
        let Some(cluster) = &config.cluster else { return Ok(None) };
        let is_ending = Arc::default();
        let store = Box::new(Etcd::new(cluster, Arc::clone(&is_ending)));
        let parts = config.all_devices();
        let parts = parts.filter_map(|device| Some((device.volume.as_ref()?, &device.name)));
        let all = parts.map(|(volume, device)| Volume::new(cluster, volume, device)).collect();
        Cluster::with_store(cluster, all, groups, (store, is_ending)).map(Some)
    }

    fn with_store(
        config: &ClusterConfig,
        volumes: Vec<Volume>,
        groups: &Arc<Groups>,
        (store, is_ending): (Box<dyn Store>, Arc<AtomicBool>),
    ) -> Result<Cluster, StartError> {
        let told = Arc::new(ClusterNews::default());
        let names = volumes.iter().map(|volume| volume.name.clone()).collect();
        let (groups, shared) = (Arc::clone(groups), Arc::clone(&told));
        let ending = Arc::clone(&is_ending);
        let mut agent = Agent { store, volumes, groups, told, is_ending: ending };
        for volume in &mut agent.volumes {
            volume.tell(&agent.groups);
        }
        agent.turn();
        for volume in &agent.volumes {
            if let (StoreContact::Dark(error, _), false) =
                (&volume.member.standing, volume.is_kept())
            {
                return Err(StartError::Setting(no_start(error, &volume.name)));
            }
        }
        let (orders, come) = channel();
        let thread = std::thread::Builder::new()
            .name("cluster".into())
            .spawn(move || agent.run(&come))
            .map_err(StartError::Threads)?;
        Ok(Cluster {
            shared,
            config: config.clone(),
            volumes: names,
            orders: Mutex::new(orders),
            thread: Mutex::new(Some(thread)),
            is_ending,
        })
    }

    /// How it stands.
    pub fn state(&self) -> ClusterState {
        let now = clock::now();
        let events = lock(&self.shared.events);
        let event = |(at, volume, text): &(Instant, String, String)| ClusterEvent {
            ago_ms: now.since(*at).0 / 1_000_000,
            volume: volume.clone(),
            text: text.clone(),
        };
        ClusterState {
            host: self.config.host.clone(),
            etcd: self.config.etcd.clone(),
            volumes: lock(&self.shared.volumes).clone(),
            events: events.iter().map(event).collect(),
        }
    }

    /// Sets lines for a file of a group on all hosts of a volume. Takes as long as the store does:
    /// seconds, if it does not answer.
    ///
    /// # Errors
    /// See [`ClusterError`]; nothing is changed then.
    pub fn set(
        &self,
        volume: Option<&str>,
        (group, file, lines): (&str, &str, &str),
    ) -> Result<(), ClusterError> {
        let [group, file, lines] = [group, file, lines].map(str::to_owned);
        let set: Work = Box::new(move |volume, store| volume.set(store, &group, (&file, &lines)));
        self.order(volume, set)
    }

    /// Frees the slot of a host that is not there any more.
    ///
    /// # Errors
    /// See [`ClusterError`]; nothing is changed then.
    pub fn forget(&self, volume: Option<&str>, host: &str) -> Result<(), ClusterError> {
        let host = host.to_owned();
        self.order(volume, Box::new(move |volume, store| volume.forget(store, &host)))
    }

    fn order(&self, volume: Option<&str>, work: Work) -> Result<(), ClusterError> {
        let volume = match (volume, &*self.volumes) {
            (None, [only]) => only.clone(),
            (Some(name), all) if all.iter().any(|known| known == name) => name.to_owned(),
            (None, all) => return Err(ClusterError::WhichVolume(all.to_vec())),
            (Some(name), all) => return Err(ClusterError::NoVolume(name.into(), all.to_vec())),
        };
        let (done, answer) = channel();
        let sent = lock(&self.orders).send(ClusterOrder::Change(volume, work, done));
        let ended = || ClusterError::Refused("the daemon ends".into());
        sent.map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?.map_err(ClusterError::Refused)
    }

    /// Ends its sessions, so that others have its grants at once. Takes as long as one question if
    /// the store does not answer: a second, four with a password.
    pub(crate) fn stop(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // A thread that is gone has ended them.
        _ = lock(&self.orders).send(ClusterOrder::End);
        if let Some(thread) = lock(&self.thread).take() {
            _ = thread.join();
        }
    }
}

impl Agent {
    fn run(mut self, orders: &Receiver<ClusterOrder>) {
        let mut next = clock::now() + self.period();
        loop {
            let wait = clock::until(next).unwrap_or(Duration::ZERO);
            match orders.recv_timeout(wait) {
                Ok(ClusterOrder::Change(volume, work, done)) => {
                    let found = self.volumes.iter_mut().find(|known| known.name == volume);
                    let found = found.expect("orders are for volumes that there are");
                    let result = work(found, &mut *self.store);
                    // It holds here before the one who said it hears so.
                    if result.is_ok() {
                        self.turn();
                    }
                    // Who asked may have gone away.
                    _ = done.send(result);
                }
                Ok(ClusterOrder::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.turn();
                    next = clock::now() + self.period();
                }
            }
        }
        for volume in &mut self.volumes {
            // One that is not reached ends them by itself.
            if volume.member.standing == StoreContact::Joined {
                volume.member.leave(&mut *self.store);
            }
        }
    }

    fn turn(&mut self) {
        for volume in &mut self.volumes {
            if self.is_ending.load(Ordering::Relaxed) {
                return;
            }
            let news = volume.turn(&mut *self.store, &self.groups);
            let is_reached = volume.member.standing == StoreContact::Joined;
            let flaw = if is_reached { self.store.flaw() } else { None };
            let flaw = flaw.map(|text| ClusterNote { text, is_warning: true });
            for ClusterNote { text, is_warning } in news.into_iter().chain(flaw) {
                match is_warning {
                    true => tracing::warn!(volume = %volume.name, "{text}"),
                    false => tracing::info!(volume = %volume.name, "{text}"),
                }
                let mut events = lock(&self.told.events);
                events.push_back((clock::now(), volume.name.clone(), text));
                while events.len() > EVENTS_KEPT {
                    events.pop_front();
                }
            }
        }
        *lock(&self.told.volumes) = self.volumes.iter().map(Volume::state).collect();
    }

    fn period(&self) -> iopace_core::time::Nanos {
        let all = self.volumes.iter().map(Volume::period);
        all.max().unwrap_or(iopace_core::time::Nanos::from_secs(1))
    }
}

/// Why a host of which nothing is known from before does not start.
fn no_start(error: &StoreError, volume: &str) -> String {
    let told = error.told();
    match error {
        StoreError::Unreachable(_) => format!(
            "cluster: {told}; nothing is known of the volume '{volume}' from before, so none of \
             its limits would hold here: start etcd first, or leave `volume` out"
        ),
        StoreError::Refused(_) | StoreError::NoSession => format!(
            "cluster: {told}; nothing is known of the volume '{volume}' from before, so none of \
             its limits would hold here"
        ),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
