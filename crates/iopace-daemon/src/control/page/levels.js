// What is an alarm and what a warning. Their colours mean nothing else on the page.

/** A p99 from here on is an alarm, in ns: somebody sits and waits. */
const ALARM_NS = 1e9;

/** A p99 from here on is a warning, in ns: it is felt. */
const WARN_NS = 250e6;

/** Kinds of events that are an alarm; those that are neither this nor the next are news. */
const ALARMS = [
  "failed",
  "no_space",
  "request_failed",
  "disk_lost",
  "guarantee_missed",
  "latency_missed",
  "promise_broken",
  "device_slow",
  "drift",
];
const WARNINGS = ["limit_inert", "limit_unreachable", "recommend_ended"];

/** `alarm`, `warn` or nothing for a latency. */
export function levelOfTime(nanos) {
  if (nanos >= ALARM_NS) {
    return "alarm";
  }
  return nanos >= WARN_NS ? "warn" : "";
}

/** The same for an event. */
export function levelOfEvent(kind) {
  if (ALARMS.includes(kind)) {
    return "alarm";
  }
  return WARNINGS.includes(kind) ? "warn" : "";
}

/** Has a node show a level. */
export function setLevel(node, level) {
  node.classList.toggle("alarm", level === "alarm");
  node.classList.toggle("warn", level === "warn");
}
