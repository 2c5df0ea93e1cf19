// What the page knows: the latest report, and for each device the points of the last two minutes.
// All of it is bounded, however long the page stays open and however many groups there are.

/** Length of the charts in seconds, and so the points that are kept. */
export const SPAN_S = 120;

/** Groups whose bandwidth is kept for each point; the others go together. */
const GROUPS_PER_POINT = 32;

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

/**
 * Bytes per second of each group without those below it: groups are reported with what is below
 * them, and what is stacked must not count twice. `null` takes what has no group of its own.
 */
function ownBandwidth(device) {
  const own = new Map();
  for (const { group, activity } of device.groups) {
    own.set(group, activity.read.bytes_s + activity.write.bytes_s);
  }
  const whole = new Map(own);
  for (const { group } of device.groups) {
    let above = parentOf(group);
    while (above !== null && !own.has(above)) {
      above = parentOf(above);
    }
    if (above !== null) {
      own.set(above, own.get(above) - whole.get(group));
    }
  }
  const busy = [...own].filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]);
  const kept = new Map(busy.slice(0, GROUPS_PER_POINT));
  const { read, write } = device.activity;
  const sum = [...kept.values()].reduce((a, b) => a + b, 0);
  kept.set(null, Math.max(0, read.bytes_s + write.bytes_s - sum));
  return kept;
}

function pointOf(at, device) {
  const { activity, queue, window, pace } = device;
  const root = device.groups.find(({ group }) => group === "/");
  return {
    at,
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
  }
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
