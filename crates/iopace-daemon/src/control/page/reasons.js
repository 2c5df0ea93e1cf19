// Why requests wait: the reasons, in the order in which a request meets them.

/** `key` as in the reports, the word for it, what it means, and what would change it. */
export const REASONS = [
  {
    key: "dirty",
    word: "dirty rate",
    means: "Memory is dirtied faster than the disk cleans it, so each writer has its rate.",
    change: "the pacing policy, or a larger cache for the device",
  },
  {
    key: "memory",
    word: "dirty limit",
    means: "As much memory is dirty as may be; writers wait until some is clean.",
    change: "a pacing policy that holds writers earlier, or a larger cache for the device",
  },
  {
    key: "slot",
    word: "slot",
    means: "No request slot was free for it.",
    change: "io.nr_group_requests or io.weight of the group, or nr-requests of the device",
  },
  {
    key: "budget",
    word: "limit",
    means: "A limit of the group, or of one above it, was used up.",
    change: "io.max of the group or of a group above it",
  },
  {
    key: "turn",
    word: "turn",
    means: "In the scheduler: others had their turn.",
    change: "io.weight or io.ioprio_class of the group, or the scheduler",
  },
  {
    key: "anticipation",
    word: "anticipation",
    means: "The disk was kept idle for the next request of the task in service.",
    change: "the scheduler's parameters (wait_ms), or a scheduler that does not anticipate",
  },
  {
    key: "window",
    word: "window",
    means: "The disk held as many requests as it may.",
    change: "the window policy or its depth",
  },
  {
    key: "disk",
    word: "disk",
    means: "At the disk: this is work, not waiting.",
    change: "only other requests or a faster disk; iopace adds nothing here",
  },
];

/** Time by reason of what nobody waited for, which is left out of reports if there is none. */
const unawaited = (activity) =>
  REASONS.map(({ key }) => (activity.unawaited ? activity.unawaited[`${key}_ns`] : 0));

/** Time by reason of what tasks waited for: of requests, and of buffered writes in stage pace. */
function awaited(activity) {
  const off = unawaited(activity);
  return REASONS.map(({ key }, i) => activity.waits[`${key}_ns`] - off[i]);
}

/** The part of that in stage pace, which is that of buffered writes. */
function paced({ waits }) {
  const known = { dirty: waits.dirty_ns, memory: waits.memory_ns, budget: waits.budget_pace_ns };
  return REASONS.map(({ key }) => known[key] || 0);
}

/**
 * Each reason's part of an activity, their sum, and what they are of: `tasks`, the time that tasks
 * waited; `writeBack`, that of write-back alone, for which nobody waits; `now`, requests that are
 * there, if nothing finished.
 */
export function parts(activity) {
  const counts = () => REASONS.map(({ key }) => activity.now[`${key}_count`]);
  const all = { tasks: awaited, writeBack: unawaited, now: counts };
  for (const [of, valuesOf] of Object.entries(all)) {
    const values = valuesOf(activity);
    const sum = values.reduce((a, b) => a + b, 0);
    if (sum > 0 || of === "now") {
      return { values, sum, of };
    }
  }
}

/**
 * Each reason's time of one request that a task waited for, and of one buffered write; null if none
 * finished in the interval.
 */
export function eachTime(activity, intervalNs) {
  const { latency, buffered } = activity;
  const inPace = paced(activity);
  const own = awaited(activity).map((time, i) => time - inPace[i]);
  const writes = (buffered.ops_milli_s / 1000) * (intervalNs / 1e9);
  const each = (times, count) => times.map((time) => (count > 0 ? time / count : null));
  return { request: each(own, latency.count), write: each(inPace, writes) };
}
