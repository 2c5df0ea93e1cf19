//! The metrics that there are: names, units, labels and what they say. Stable: a name is never
//! given another meaning.

/// Most labels of a family.
pub(super) const LABELS_MAX: usize = 5;

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from zero at the start of the daemon.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Times in buckets.
    Histogram,
}

/// Samples of one name.
#[derive(Debug)]
pub struct Family {
    /// Without the unit and `_total`, which the format adds.
    pub name: &'static str,
    /// What kind it is.
    pub kind: Kind,
    /// The unit, if it has one.
    pub unit: Option<&'static str>,
    /// Its labels, in their order.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

macro_rules! families {
    (
        $($name:ident: $kind:ident $metric:literal $unit:expr, [$($label:literal),*],
            $help:literal;)*
    ) => {
        $(pub(super) static $name: Family = Family {
            name: $metric,
            kind: Kind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All of them, in the order of the text.
        pub static FAMILIES: &[&Family] = &[$(&$name),*];
    };
}

const BYTES: Option<&str> = Some("bytes");
const SECONDS: Option<&str> = Some("seconds");

families! {
    BUILD: Gauge "iopace_build" None, ["version", "profile", "arch"],
        "Always 1; version of the daemon, how it was built (release, debug) and for what processor";
    UPTIME: Gauge "iopace_uptime" SECONDS, [],
        "Since the daemon was started";
    CONNECTIONS: Gauge "iopace_connections" None, [],
        "NBD clients that are connected";
    MEMORY: Gauge "iopace_client_memory" BYTES, [],
        "Held for requests and replies beyond what each client may hold by itself";
    GROUPS: Gauge "iopace_groups" None, [],
        "Groups that there are, the root included";
    GROUPS_LEFT_OUT: Gauge "iopace_groups_left_out" None, [],
        "Groups without metrics of their own because there are too many";

    DEVICE: Gauge "iopace_device" None, ["device", "kind", "scheduler", "pace", "window"],
        "Always 1; what the device is, and the policies at work";
    DEVICE_REQUESTS: Counter "iopace_device_requests" None, ["device", "op"],
        "Requests finished, also with an error; op is read, write (trims, zeroes too) or flush";
    DEVICE_FAILURES: Counter "iopace_device_failures" None, ["device", "op"],
        "Requests that ended with an error";
    DEVICE_BYTES: Counter "iopace_device_moved" BYTES, ["device", "op"],
        "Bytes of requests that were carried out";
    DEVICE_LATENCY: Histogram "iopace_device_latency" SECONDS, ["device", "op"],
        "From arrival to completion";
    DEVICE_STAGE: Counter "iopace_device_stage" SECONDS, ["device", "stage"],
        "Time of finished requests in each stage: pace, admit, sched, window, disk";
    DEVICE_STAGE_LATENCY: Histogram "iopace_device_stage_latency" SECONDS, ["device", "stage"],
        "Time of each finished request in each stage; those that spent none there count as 0";
    DEVICE_WAIT: Counter "iopace_device_wait" SECONDS, ["device", "reason"],
        "Time of finished requests by reason: dirty (rate), memory (dirty limit), slot, budget \
         (limit), turn, anticipation, window, disk; the sum is their latency and, for buffered \
         writes, their pauses";
    DEVICE_NOW: Gauge "iopace_device_requests_now" None, ["device", "state"],
        "Requests at this moment: paced, waiting for a slot, queued in the scheduler, at the disk";
    DEVICE_WAITING: Gauge "iopace_device_requests_waiting" None, ["device", "reason"],
        "Requests and buffered writes at this moment by what they wait for; disk: at the disk";
    DEVICE_OLDEST: Gauge "iopace_device_oldest_request" SECONDS, ["device"],
        "Age of the oldest request that is not finished";
    DEVICE_OLDEST_AT_DISK: Gauge "iopace_device_oldest_at_disk" SECONDS, ["device"],
        "How long the request that is at the disk for longest has been there";
    DEVICE_SLOTS: Gauge "iopace_device_slots" None, ["device"],
        "Request slots (nr_requests)";
    DEVICE_WINDOW: Gauge "iopace_device_window" None, ["device"],
        "Most requests at the disk, as stage window decides now";
    DEVICE_REFUSED: Counter "iopace_device_refused" None, ["device"],
        "Requests refused because the table was full";
    DEVICE_CACHED: Counter "iopace_device_cached_reads" None, ["device"],
        "Reads answered from the page cache without a request";
    DEVICE_BUFFERED: Counter "iopace_device_buffered_writes" None, ["device"],
        "Writes taken by the page cache";
    DEVICE_PACED: Counter "iopace_device_paced_writes" None, ["device"],
        "Buffered writes that went through stage pace, paused or not";
    DEVICE_INTO_CACHE: Counter "iopace_device_buffered" BYTES, ["device"],
        "Bytes of buffered writes that went into the page cache, as they go; what of them is \
         written back is in iopace_device_moved";
    DEVICE_EXCHANGES: Counter "iopace_device_scheduler_exchanges" None, ["device"],
        "Schedulers exchanged on purpose";
    DEVICE_FAIL_OVERS: Counter "iopace_device_scheduler_failures" None, ["device"],
        "Schedulers that failed and were replaced by fifo";
    DEVICE_EXCHANGE: Histogram "iopace_device_exchange" SECONDS, ["device"],
        "How long each exchange of schedulers held up dispatch";
    EVENTS: Counter "iopace_events" None, ["device", "kind"],
        "Events, by kind: those that 'iopace events' and the log tell in words";
    DEVICE_DIRTY: Gauge "iopace_device_dirty" BYTES, ["device"],
        "Dirty memory";
    DEVICE_WRITING_BACK: Gauge "iopace_device_writing_back" BYTES, ["device"],
        "The part of it that is on its way to the disk";
    DEVICE_DIRTY_LIMIT: Gauge "iopace_device_dirty_limit" BYTES, ["device"],
        "The most that may be dirty";
    DEVICE_SET_POINT: Gauge "iopace_device_dirty_setpoint" BYTES, ["device"],
        "Where dirty memory is held when writers are paced";
    DEVICE_FREE_RUN: Gauge "iopace_device_dirty_freerun" BYTES, ["device"],
        "Below this nobody is paced";
    DEVICE_WRITE_BACK: Gauge "iopace_device_write_back_rate" Some("bytes_per_second"), ["device"],
        "Measured bandwidth of write-back";
    DEVICE_BASE_RATE: Gauge "iopace_device_base_rate" Some("bytes_per_second"), ["device"],
        "What a task may dirty at the set point";
    DEVICE_TASK_RATE: Gauge "iopace_device_task_rate" Some("bytes_per_second"), ["device"],
        "What a task may dirty now: the base rate times the position";
    DEVICE_PAUSES: Histogram "iopace_device_pause" SECONDS, ["device"],
        "Pauses of buffered writes";

    GROUP_REQUESTS: Counter "iopace_group_requests" None, ["group", "device", "op"],
        "Requests finished of the group and all below it; op is read, write, trim or flush";
    GROUP_BYTES: Counter "iopace_group_moved" BYTES, ["group", "device", "op"],
        "Bytes of requests that were carried out, of the group and all below it";
    GROUP_FAILURES: Counter "iopace_group_failures" None, ["group", "device"],
        "Requests that ended with an error";
    GROUP_STAGE: Counter "iopace_group_stage" SECONDS, ["group", "device", "stage"],
        "Time of finished requests in each stage";
    GROUP_STAGE_LATENCY: Histogram "iopace_group_stage_latency" SECONDS,
        ["group", "device", "stage"],
        "As that of the device, with coarser buckets; of the first groups only, not of the root";
    GROUP_WAIT: Counter "iopace_group_wait" SECONDS, ["group", "device", "reason"],
        "Time of finished requests by reason, as that of the device";
    GROUP_NOW: Gauge "iopace_group_requests_now" None, ["group", "device"],
        "Requests and buffered writes at this moment, of the group and all below it";
    GROUP_PACED: Counter "iopace_group_paced_writes" None, ["group", "device"],
        "Buffered writes that went through stage pace, paused or not";
    GROUP_INTO_CACHE: Counter "iopace_group_buffered" BYTES, ["group", "device"],
        "Bytes of buffered writes that went into the page cache, of the group and all below it";
    GROUP_LATENCY: Histogram "iopace_group_latency" SECONDS, ["group", "device"],
        "From arrival to completion, of requests that a task waits for";
    GROUP_DIRTY: Gauge "iopace_group_dirty" BYTES, ["group", "device"],
        "Dirty memory of the group without those below it";

    CLUSTER_REACHED: Gauge "iopace_cluster_reached" None, ["volume"],
        "1 if the store of the cluster has answered the last time, else 0";
    CLUSTER_DARK: Gauge "iopace_cluster_dark" SECONDS, ["volume"],
        "For so long it has not; limits are the static parts when the session has ended";
    CLUSTER_HOSTS: Gauge "iopace_cluster_hosts" None, ["volume", "state"],
        "Hosts that have a session (there), and those that only have a place (away)";
    CLUSTER_LIMIT: Gauge "iopace_cluster_limit" None, ["volume", "group", "rate"],
        "A limit of all hosts together, in bytes or requests a second";
    CLUSTER_ALLOWED: Gauge "iopace_cluster_allowed" None, ["volume", "group", "rate"],
        "What this host may have of it now";
    CLUSTER_GRANTED: Gauge "iopace_cluster_granted" None, ["volume", "group", "rate", "host"],
        "What each host is granted of it, beside its static part; none while the store is lost";
    CLUSTER_USED: Gauge "iopace_cluster_used" None, ["volume", "group", "rate", "host"],
        "What each host says that it uses of it; none while the store is not reached";

    MOUNT_FILES: Gauge "iopace_mount_files" None, ["mountpoint", "device", "state"],
        "Files: known to the kernel, open, kept open for write-back";
    MOUNT_WAITING: Gauge "iopace_mount_waiting_requests" None, ["mountpoint", "device"],
        "Reads, writes and syncs that wait for their answer";
    MOUNT_PASSED: Counter "iopace_mount_passed_through" None, ["mountpoint", "device"],
        "Requests that went straight to the directory: names, attributes, locks, space";
}
