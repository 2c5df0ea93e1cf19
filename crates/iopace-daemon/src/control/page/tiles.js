// The numbers of a device at this moment.

import { byId, el, setText, show } from "./dom.js";
import { count, ops, rate, size, time } from "./format.js";
import { levelOfTime, setLevel } from "./levels.js";
import { store } from "./store.js";

const TILES = [
  ["read", "Read"],
  ["write", "Write"],
  ["ops", "Requests/s"],
  ["p99", "Latency p99"],
  ["flight", "At the disk"],
  ["waiting", "Waiting for a slot"],
  ["dirty", "Dirty memory"],
];

const tiles = {};

/** Makes the tiles. */
export function buildTiles() {
  for (const [key, label] of TILES) {
    const value = el("dd", { class: "big" });
    const note = el("dd", { class: "note" });
    byId("tiles").append(el("div", { class: "tile" }, el("dt", {}, label), value, note));
    tiles[key] = { value, note };
  }
}

function set(key, value, note) {
  setText(tiles[key].value, value);
  setText(tiles[key].note, note);
}

/** Shows the device. */
export function drawTiles({ activity, queue, window, pace }) {
  const { read, write, buffered, latency } = activity;
  set("read", rate(read.bytes_s), `${ops(read.ops_milli_s)} reads/s`);
  const writes = `${ops(write.ops_milli_s)} writes/s`;
  // Short, or it is cut off: what the disk writes is above it.
  set("write", rate(write.bytes_s), pace ? `${rate(buffered.bytes_s)} buffered` : writes);
  set("ops", ops(read.ops_milli_s + write.ops_milli_s), `${count(latency.count)} waited for`);
  const times = `p50 ${time(latency.p50_ns)}, max ${time(latency.max_ns)}`;
  const isAny = latency.count > 0;
  set("p99", isAny ? time(latency.p99_ns) : "–", isAny ? times : "nobody waited");
  setLevel(tiles.p99.value, isAny ? levelOfTime(latency.p99_ns) : "");
  set("flight", `${queue.in_flight_count} of ${window.depth}`, `window ${window.policy}`);
  const taken = queue.queued_count + queue.in_flight_count;
  set("waiting", count(queue.waiting_count), `${taken} of ${queue.nr_requests} slots taken`);
  if (pace) {
    const waiting = pace.waiting_count;
    const note = waiting ? `${waiting} paused` : `setpoint ${size(pace.setpoint_bytes)}`;
    set("dirty", size(pace.dirty_bytes), note);
  } else {
    set("dirty", "–", "no page cache");
  }
}

/** Says what to do while nothing has been done yet. */
export function drawEmpty(points, device) {
  const nothing = ({ total, cached, inFlight, taken }) => total + cached + inFlight + taken === 0;
  const isIdle = points.every(nothing);
  show(byId("empty"), isIdle);
  if (!isIdle || !store.status) {
    return;
  }
  const { exports, uris } = store.status;
  const at = exports.findIndex((one) => one.device === device.device);
  const uri = uris.find((uri) => at >= 0 && uri.includes(`/${exports[at].name}`)) || uris[0];
  const command =
    `fio --name=try --ioengine=nbd --uri='${uri}' --rw=randread --bs=4k --iodepth=16 ` +
    "--size=64m --time_based --runtime=30";
  show(byId("empty-command"), Boolean(uri));
  setText(byId("empty-code"), uri ? command : "");
}
