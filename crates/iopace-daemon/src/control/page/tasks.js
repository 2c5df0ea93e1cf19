// The tasks that moved most or waited longest.

import { colourOf } from "./colours.js";
import { arrange, byId, el, setText, show } from "./dom.js";
import { ops, rate, time } from "./format.js";
import { levelOfTime, setLevel } from "./levels.js";
import { WhyBar } from "./why.js";

/** Rows at most; the daemon sends its top few anyway. */
const ROWS_MAX = 20;

let rows = new Map();

function make(task, group) {
  const cells = ["read", "write", "buffered", "ops", "p99"].map(() => el("td", { class: "num" }));
  const bar = new WhyBar(true);
  const name = el("th", { scope: "row" }, task);
  const swatch = el("span", { "aria-hidden": "true" });
  const payer = el("td", { class: "group" }, swatch, group);
  const row = el("tr", {}, name, payer, ...cells, el("td", {}, bar.node));
  return { row, swatch, cells, bar };
}

/** Shows the tasks of the device. */
export function drawTasks(device) {
  const kept = new Map();
  for (const { task, group, activity } of device.tasks.slice(0, ROWS_MAX)) {
    const key = JSON.stringify([device.device, task, group]);
    const made = rows.get(key) || make(task, group);
    const { read, write, buffered, latency } = activity;
    const texts = [
      rate(read.bytes_s),
      rate(write.bytes_s),
      device.pace ? rate(buffered.bytes_s) : "–",
      ops(read.ops_milli_s + write.ops_milli_s),
      latency.count > 0 ? time(latency.p99_ns) : "–",
    ];
    texts.forEach((text, i) => setText(made.cells[i], text));
    setLevel(made.cells[4], latency.count > 0 ? levelOfTime(latency.p99_ns) : "");
    made.swatch.className = `swatch k${colourOf(group)}`;
    made.bar.update(activity);
    kept.set(key, made);
  }
  rows = kept;
  arrange(byId("task-rows"), [...kept.values()].map(({ row }) => row));
  show(byId("task-none"), kept.size === 0);
}
