// The charts of a device: bandwidth per group, latency, slots and window, and the control picture.

import { byId, el, lineSwatch, show } from "./dom.js";
import { Chart, RIGHT } from "./charts.js";
import { OTHER, colour, lineColour, pattern } from "./palette.js";
import { count, exactRate, exactSize, exactTime, rate, size, time } from "./format.js";
import { markersOf, pointsOf, store } from "./store.js";

/** Groups with a colour of their own. */
const GROUPS_MAX = OTHER;

/** Groups with less than this part of all have no colour of their own. */
const SHARE_MIN = 0.002;

/** A gap in the line, where nothing came for longer than this, in ms. */
const GAP = 3500;

const panels = {};

/** Group by place in the stack; a group keeps its place, and its colour, while it is busy. */
let places = new Array(GROUPS_MAX).fill(null);
let placesOf = null;

const marks = () => markersOf(store.device);

function lineSeries(label, name, { dash = [], format, scale = "y", width = 1.75 }) {
  const swatch = () => lineSwatch(name, dash);
  const stroke = () => lineColour(name);
  return { label, stroke, dash, format, scale, width, swatch, points: { show: false } };
}

function areaSeries(label, index) {
  return {
    label,
    format: rate,
    scale: "y",
    stroke: colour(index),
    width: 1,
    fill: () => pattern(index),
    swatch: () => el("span", { class: `swatch k${index}`, "aria-hidden": "true" }),
    points: { show: false },
  };
}

/** From 0 to a little above the largest. */
const fromZero = (least) => (_, __, max) => [0, Math.max(least, (max ?? 0) * 1.08)];

/** Powers of ten around the data, never less than two of them. */
function decades(_, min, max) {
  const low = Math.floor(Math.log10(Math.max(1000, min ?? 1e5)));
  const high = Math.ceil(Math.log10(Math.max(10000, max ?? 1e7)));
  return [10 ** low, 10 ** Math.max(high, low + 2)];
}

/** Makes the charts. */
export function buildPanels() {
  panels.bandwidth = new Chart(byId("chart-bandwidth"), {
    title: "Bandwidth by group",
    note: "stacked, read and write together",
    series: [areaSeries("all", OTHER)],
    axes: [{ scale: "y", side: 3, steps: "binary", format: exactRate }],
    scales: { y: { range: fromZero(1024) } },
    values: (series, index) => stackValue(series, index),
    isNeeded: (series) => series > 0 || hasRest,
    marks,
  });
  panels.latency = new Chart(byId("chart-latency"), {
    title: "Latency",
    note: "arrival to finish, logarithmic",
    series: [
      lineSeries("p99", "vermilion", { format: time }),
      lineSeries("p50", "blue", { format: time, dash: [6, 3] }),
    ],
    axes: [{ scale: "y", side: 3, format: exactTime, extra: DECADES }],
    scales: { y: { distr: 3, range: decades } },
    marks,
  });
  panels.slots = new Chart(byId("chart-slots"), {
    title: "Slots and window",
    note: "requests",
    series: [
      lineSeries("waiting for a slot", "vermilion", { format: count }),
      lineSeries("slots taken", "orange", { format: count, dash: [8, 3] }),
      lineSeries("at the disk", "blue", { format: count, dash: [3, 2] }),
      lineSeries("window depth", "grey", { format: count, dash: [1, 3], width: 2.5 }),
    ],
    axes: [{ scale: "y", side: 3, steps: "whole", format: count }],
    scales: { y: { range: fromZero(8) } },
    marks,
  });
  buildPace();
}

/** Only powers of ten get a mark. */
const decadesOnly = (_, all) =>
  all.map((value) => (Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null));

/** Marks and lines of a logarithmic axis. */
const DECADES = { space: 22, filter: decadesOnly, grid: { filter: decadesOnly } };

function buildPace() {
  panels.dirty = new Chart(byId("chart-dirty"), {
    title: "Dirty memory",
    note: "writers are paced above freerun",
    series: [
      lineSeries("limit", "vermilion", { format: size, dash: [10, 4] }),
      lineSeries("setpoint", "green", { format: size, dash: [5, 3] }),
      lineSeries("freerun", "grey", { format: size, dash: [1, 3], width: 2.5 }),
      { ...lineSeries("dirty", "blue", { format: size }), fill: "rgb(0 114 178 / 20%)" },
    ],
    axes: [{ scale: "y", side: 3, steps: "binary", format: exactSize }],
    scales: { y: { range: fromZero(4096) } },
    marks,
  });
  panels.rates = new Chart(byId("chart-rates"), {
    title: "Write pacing",
    note: "rates left, pauses right",
    series: [
      lineSeries("write bandwidth", "blue", { format: rate, width: 2.5 }),
      lineSeries("balanced", "green", { format: rate, dash: [8, 3] }),
      lineSeries("base", "orange", { format: rate, dash: [4, 3] }),
      lineSeries("task", "pink", { format: rate }),
      {
        ...lineSeries("pause p99", "grey", { format: time, scale: "pause", width: 1 }),
        paths: uPlot.paths.bars({ size: [0.5, 6] }),
        fill: "rgb(138 138 138 / 40%)",
        swatch: () => el("span", { class: "swatch bars", "aria-hidden": "true" }),
      },
    ],
    axes: [
      { scale: "y", side: 3, steps: "binary", format: exactRate },
      { scale: "pause", side: 1, format: exactTime, width: RIGHT },
    ],
    scales: { y: { range: fromZero(1024) }, pause: { range: fromZero(1e6) } },
    marks,
  });
}

/** The busiest groups over the time shown; those that have a place keep it. */
function chooseGroups(points) {
  const sums = new Map();
  for (const { groups } of points) {
    for (const [group, bytes] of groups) {
      if (group !== null && bytes > 0) {
        sums.set(group, (sums.get(group) || 0) + bytes);
      }
    }
  }
  const least = SHARE_MIN * points.reduce((sum, { total }) => sum + (total || 0), 0);
  const busy = [...sums].filter(([, bytes]) => bytes >= least);
  const busiest = busy.sort((a, b) => b[1] - a[1]).slice(0, GROUPS_MAX);
  const chosen = new Set(busiest.map(([group]) => group));
  const isOther = placesOf !== store.device;
  const next = places.map((group) => (!isOther && chosen.has(group) ? group : null));
  for (const group of [...chosen].filter((group) => !next.includes(group))) {
    next[next.indexOf(null)] = group;
  }
  placesOf = store.device;
  return next;
}

/** Whether there is something to see of the groups without a colour of their own. */
let hasRest = false;

/** What each series adds to the stack, at each point, lowest first; the rest of all is on top. */
let layers = [];

function stackValue(series, index) {
  const layer = layers[layers.length - 1 - series];
  return layer ? layer[index] : null;
}

function drawBandwidth(points, xs, end) {
  const next = chooseGroups(points);
  const named = next.map((group, place) => [group, place]).filter(([group]) => group !== null);
  if (next.join("\n") !== places.join("\n") || panels.bandwidth.options.series.length === 1) {
    places = next;
    // Drawn from the top of the stack down: each covers what is below it of the one before.
    const series = [areaSeries("other", OTHER)];
    named.reverse().forEach(([group, place]) => series.push(areaSeries(group, place)));
    named.reverse();
    panels.bandwidth.setSeries(series);
  }
  layers = named.map(([group]) => points.map((p) => (p.gap ? null : p.groups.get(group) || 0)));
  const rest = points.map((p, i) => p.gap ? null : layers.reduce((r, l) => r - l[i], p.total));
  layers.push(rest);
  hasRest = rest.some((bytes, i) => bytes > SHARE_MIN * points[i].total);
  const stacked = [];
  let below = points.map(() => 0);
  for (const layer of layers) {
    below = layer.map((bytes, i) => (bytes === null ? null : below[i] + bytes));
    stacked.unshift(below);
  }
  panels.bandwidth.setData([xs, ...stacked], end);
}

/** The points with an empty one in each gap, so that no line goes across it. */
function withGaps(points) {
  const all = [];
  for (const point of points) {
    const before = all[all.length - 1];
    if (before && point.at - before.at > GAP) {
      all.push({ at: before.at + 1000, gap: true, groups: new Map(), pace: null });
    }
    all.push(point);
  }
  return all;
}

/** Draws the device that is shown. */
export function drawPanels(device) {
  const points = withGaps(pointsOf(device.device));
  if (points.length === 0) {
    return;
  }
  const xs = points.map(({ at }) => at / 1000);
  const end = xs[xs.length - 1];
  const of = (read) => points.map((point) => (point.gap ? null : read(point)));
  drawBandwidth(points, xs, end);
  panels.latency.setData([xs, of((p) => p.p99), of((p) => p.p50)], end);
  const slots = [of((p) => p.waiting), of((p) => p.taken), of((p) => p.inFlight)];
  panels.slots.setData([xs, ...slots, of((p) => p.depth)], end);
  const isPaced = device.pace !== null;
  show(byId("chart-dirty"), isPaced);
  show(byId("chart-rates"), isPaced);
  show(byId("unpaced"), !isPaced);
  if (isPaced) {
    const all = (key) => points.map(({ pace }) => (pace ? pace[key] : null));
    const marks = ["limit_bytes", "setpoint_bytes", "freerun_bytes", "dirty_bytes"];
    panels.dirty.setData([xs, ...marks.map(all)], end);
    const rates = ["write_bandwidth", "balanced_rate", "base_rate", "task_rate"];
    const series = rates.map((key) => all(`${key}_bytes_s`));
    panels.rates.setData([xs, ...series, all("pauses")], end);
  }
}
