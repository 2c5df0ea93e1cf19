// What the page knows: the latest report, and for each device the points of the last two minutes.
// All of it is bounded, however long the page stays open and however many groups there are.

/** Length of the charts in seconds, and so the points that are kept. */
export const SPAN_S = 120;

/** Groups whose bandwidth is kept for each point; the others go together. */
const GROUPS_PER_POINT = 32;

/** A group with less, in bytes per second, is not told apart: differences of rounded figures. */
const OWN_MIN = 1024;

/** Markers that are kept per device. */
const MARKERS_MAX = 50;

/** The clocks of page and daemon may come apart by so much, as when the machine slept. In ms. */
const CLOCK_DRIFT = 1500;

/** Two markers of one change: the page's own and the daemon's event of it. In ms. */
const SAME_CHANGE = 2500;

/** The state; read by all, written through the functions below. */
export const store = {
  /** The latest report, or null. */
  latest: null,
  /** What `GET /v1/status` said, or null. */
  status: null,
  /** Name of the device that is shown. */
  device: null,
  /** Whether reports are coming in. */
  isLive: false,
  /** Whether the display stands still. */
  isPaused: false,
  /** Points by device. */
  points: new Map(),
  /** Markers by device: `{at, text}`. */
  markers: new Map(),
};

/** The device that is shown as it is in the latest report, or null. */
export function shown() {
  const devices = store.latest ? store.latest.devices : [];
  return devices.find(({ device }) => device === store.device) || devices[0] || null;
}

/** Points of a device, oldest first. */
export const pointsOf = (device) => store.points.get(device) || [];

/** Markers of a device, oldest first. */
export const markersOf = (device) => store.markers.get(device) || [];

/** The path above this one. */
export function parentOf(group) {
  return group === "/" ? null : group.slice(0, group.lastIndexOf("/")) || "/";
}

/**
 * Dirty memory by group, with what is below it: it is reported of each group alone, unlike all else.
 * The root has all of the device, also of groups that are left out.
 */
export function dirtyOf(device) {
  const dirty = new Map();
  for (const { group, dirty_bytes: own } of device.groups) {
    for (let at = group; at !== null; at = parentOf(at)) {
      dirty.set(at, (dirty.get(at) || 0) + own);
    }
  }
  if (device.pace) {
    dirty.set("/", device.pace.dirty_bytes);
  }
  return dirty;
}

/** The nearest group above that is in `known`, or null. */
function knownParent(group, known) {
  let above = parentOf(group);
  while (above !== null && !known.has(above)) {
    above = parentOf(above);
  }
  return above;
}

/** Of each group a figure without that of the groups below it, which is in its own. */
function withoutBelow(groups, read) {
  const whole = new Map(groups.map((live) => [live.group, read(live.activity)]));
  const own = new Map(whole);
  for (const [group, value] of whole) {
    const above = knownParent(group, whole);
    if (above !== null) {
      own.set(above, own.get(above) - value);
    }
  }
  return own;
}

/** How many requests are here. */
const counts = ({ now }) =>
  Object.entries(now).reduce((sum, [key, n]) => sum + (key === "oldest_ns" ? 0 : n), 0);

/** The p99 of a group; the age of its oldest request, if that is more: nothing else tells of one
 * that stands. Not where it may be write-back, for which nobody waits. */
function longest({ activity, dirty_bytes: dirty }) {
  const { latency, buffered, now } = activity;
  const mayBeWriteBack = buffered.ops_milli_s > 0 || dirty > 0;
  return Math.max(latency.p99_ns, mayBeWriteBack ? 0 : now.oldest_ns);
}

/** How long the requests of groups take that have any of their own, the longest first, up to a
 * bound: `[group, time, time at the disk]`. */
function latenciesOf({ groups }) {
  const own = withoutBelow(groups, (activity) => activity.latency.count + counts(activity));
  const theirs = groups.filter((live) => own.get(live.group) > 0 && longest(live) > 0);
  const all = theirs.map((live) => [live.group, longest(live), diskTime(live.activity)]);
  return all.sort((a, b) => b[1] - a[1]).slice(0, GROUPS_PER_POINT);
}

/** The time at the disk of each request of an activity that somebody waited for; 0 if none ended. */
function diskTime({ waits, unawaited, latency }) {
  const sum = waits.disk_ns - (unawaited ? unawaited.disk_ns : 0);
  return latency.count > 0 ? sum / latency.count : 0;
}

/** The group that has the device for itself, or null. */
function onlyOne(device) {
  const asked = (activity) =>
    activity.read.ops_milli_s +
    activity.write.ops_milli_s +
    activity.buffered.ops_milli_s +
    counts(activity);
  const own = [...withoutBelow(device.groups, asked)].filter(([, value]) => value > 0);
  return own.length === 1 && device.groups_left_out_count === 0 ? own[0][0] : null;
}

/**
 * Bytes per second of each group without those below it: groups are reported with what is below
 * them, and what is stacked must not count twice. `null` takes what has no group of its own.
 */
function ownBandwidth(device) {
  const own = withoutBelow(device.groups, ({ read, write }) => read.bytes_s + write.bytes_s);
  const busy = [...own].filter(([, bytes]) => bytes >= OWN_MIN).sort((a, b) => b[1] - a[1]);
  const kept = new Map(busy.slice(0, GROUPS_PER_POINT));
  const { read, write } = device.activity;
  const sum = [...kept.values()].reduce((a, b) => a + b, 0);
  kept.set(null, Math.max(0, read.bytes_s + write.bytes_s - sum));
  return kept;
}

function pointOf(at, device) {
  const { activity, queue, window, pace } = device;
  const root = device.groups.find(({ group }) => group === "/");
  const slowest = latenciesOf(device);
  return {
    at,
    p99s: new Map(slowest.map(([group, time]) => [group, time])),
    disks: new Map(slowest.map(([group, , disk]) => [group, disk])),
    groups: ownBandwidth(device),
    total: activity.read.bytes_s + activity.write.bytes_s,
    cached: activity.buffered.bytes_s,
    p50: activity.latency.count > 0 ? activity.latency.p50_ns : null,
    p99: activity.latency.count > 0 ? activity.latency.p99_ns : null,
    taken: root ? root.slots_taken_count : queue.queued_count + queue.in_flight_count,
    waiting: queue.waiting_count,
    inFlight: queue.in_flight_count,
    depth: window.depth,
    pace: pace && { ...pace, pauses: pace.pauses.count > 0 ? pace.pauses.p99_ns : null },
  };
}

/** Groups and devices carry their activity flattened; here it is put together again. */
function unflatten(part) {
  const { read, write, buffered, latency, waits, unawaited, now } = part;
  part.activity = { read, write, buffered, latency, waits, unawaited, now };
}

function prepare(report) {
  for (const device of report.devices) {
    unflatten(device);
    device.groups.forEach(unflatten);
    device.tasks.forEach(unflatten);
  }
}

function addPoints(report, at) {
  for (const device of report.devices) {
    const points = pointsOf(device.device);
    const last = points[points.length - 1];
    if (last && at <= last.at) {
      continue; // It came with the history already.
    }
    noteAlone(device);
    points.push(pointOf(at, device));
    const oldest = at - SPAN_S * 1000 - 2000;
    while (points.length > 0 && points[0].at < oldest) {
      points.shift();
    }
    store.points.set(device.device, points);
  }
  const names = new Set(report.devices.map(({ device }) => device));
  for (const name of [...store.points.keys()].filter((name) => !names.has(name))) {
    store.points.delete(name);
    store.markers.delete(name);
    alone.delete(name);
  }
}

/** By device and group, the p99 of the latest seconds in which it had the device for itself. */
const alone = new Map();

/** Seconds that are remembered of a group alone, and the groups of a device. */
const ALONE_S = 15;
const ALONE_GROUPS = 64;

/** Remembers what a group has while nobody else asks for anything. */
function noteAlone(device) {
  const group = onlyOne(device);
  const live = device.groups.find((live) => live.group === group);
  if (!live || live.activity.latency.count === 0) {
    return;
  }
  const groups = alone.get(device.device) || new Map();
  const seconds = [...(groups.get(group) || []), live.activity.latency.p99_ns].slice(-ALONE_S);
  groups.delete(group); // The one that was seen last goes last.
  groups.set(group, seconds);
  if (groups.size > ALONE_GROUPS) {
    groups.delete(groups.keys().next().value);
  }
  alone.set(device.device, groups);
}

/** What a group had alone: the middle of its p99s then, or null if it was not seen alone. */
export function aloneOf(device, group) {
  const seconds = alone.get(device) ? alone.get(device).get(group) : null;
  return seconds ? [...seconds].sort((a, b) => a - b)[Math.floor(seconds.length / 2)] : null;
}

/** When the daemon was started by the clock of the page, in ms; null if that is not known. */
let started = null;

/** Forgets the daemon: another one answers now. What it showed stays in the charts. */
export function forgetDaemon() {
  store.latest = null;
  started = null;
}

/** Takes a list of reports, oldest first, whose last one is of this moment. */
export function takeReports(reports) {
  const known = store.latest ? store.latest.sequence : -1;
  // A stream that is taken up again repeats what came with the history.
  const unknown = reports.filter(({ sequence }) => sequence > known);
  if (unknown.length === 0) {
    return;
  }
  const last = unknown[unknown.length - 1];
  const now = Date.now();
  const off = now - started - last.uptime_ns / 1e6;
  if (started === null || Math.abs(off) > CLOCK_DRIFT) {
    started = now - last.uptime_ns / 1e6;
  }
  for (const report of unknown) {
    prepare(report);
    addPoints(report, started + report.uptime_ns / 1e6);
  }
  store.latest = last;
}

/** Marks a moment of a device in its charts; the page's own marks win over the daemon's events. */
export function mark(device, text, { at = Date.now(), isOwn = true } = {}) {
  const markers = markersOf(device);
  const near = markers.find((marker) => Math.abs(marker.at - at) < SAME_CHANGE);
  if (near && !isOwn) {
    return;
  }
  markers.push({ at, text });
  markers.sort((a, b) => a.at - b.at);
  const oldest = Date.now() - SPAN_S * 1000;
  store.markers.set(
    device,
    markers.filter((marker) => marker.at >= oldest).slice(-MARKERS_MAX),
  );
}
