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

/** Each reason's part of an activity, and their sum: of the time if any, else of the requests. */
export function parts(activity) {
  const times = REASONS.map(({ key }) => activity.waits[`${key}_ns`]);
  const sum = times.reduce((a, b) => a + b, 0);
  if (sum > 0) {
    return { values: times, sum, isTime: true };
  }
  const counts = REASONS.map(({ key }) => activity.now[`${key}_count`]);
  return { values: counts, sum: counts.reduce((a, b) => a + b, 0), isTime: false };
}
