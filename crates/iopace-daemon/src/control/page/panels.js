// The charts of a device: bandwidth per group, latency, slots and window, and the control picture.

import { byId, el, lineSwatch, show } from "./dom.js";
import { Chart, RIGHT } from "./charts.js";
import { colourOf } from "./colours.js";
import { DASHES, OTHER, colour, lineColour, pattern } from "./palette.js";
import { count, exactRate, exactSize, exactTime, rate, size, time } from "./format.js";
import { markersOf, pointsOf, store } from "./store.js";

/** What has less than this part of all is not in the legend. */
const SHARE_MIN = 0.002;

/** What groups have in a gap. */
const NONE = new Map();

/** A gap in the line, where nothing came for longer than this, in ms. */
const GAP = 3500;

const panels = {};

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
    title: "Latency by group",
    note: "p99 of each second, logarithmic",
    series: [lineSeries("all", "ink", { format: time })],
    axes: [{ scale: "y", side: 3, format: exactTime, extra: DECADES }],
    scales: { y: { distr: 3, range: decades } },
    marks,
  });
  panels.slots = new Chart(byId("chart-slots"), {
    title: "Slots and window",
    note: "requests",
    series: [
      lineSeries("waiting for a slot", "slot", { format: count }),
      lineSeries("slots taken", "ink", { format: count, dash: [8, 3] }),
      lineSeries("at the disk", "disk", { format: count, dash: [3, 2] }),
      lineSeries("window depth", "window", { format: count, dash: [1, 3], width: 2.5 }),
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
      lineSeries("limit", "memory", { format: size, dash: [10, 4] }),
      lineSeries("setpoint", "ink", { format: size, dash: [5, 3] }),
      lineSeries("freerun", "grey", { format: size, dash: [1, 3], width: 2.5 }),
      { ...lineSeries("dirty", "ink", { format: size }), fill: "rgb(128 128 128 / 25%)" },
    ],
    axes: [{ scale: "y", side: 3, steps: "binary", format: exactSize }],
    scales: { y: { range: fromZero(4096) } },
    marks,
  });
  panels.rates = new Chart(byId("chart-rates"), {
    title: "Write pacing",
    note: "rates left, pauses right",
    series: [
      lineSeries("write bandwidth", "ink", { format: rate, width: 2.5 }),
      lineSeries("balanced", "ink", { format: rate, dash: [8, 3] }),
      lineSeries("base", "grey", { format: rate, dash: [4, 3] }),
      lineSeries("task", "dirty", { format: rate }),
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

/** Groups with a colour and a figure in these points, by colour: `[group, colour]`. */
function drawnGroups(points, read) {
  const colours = new Map();
  for (const point of points) {
    for (const [group, value] of read(point)) {
      if (group !== null && value > 0 && colourOf(group) !== OTHER) {
        colours.set(group, colourOf(group));
      }
    }
  }
  return [...colours].sort((a, b) => a[1] - b[1]);
}

/** Whether a chart shows other groups than `named`; it shows them from now on. */
function isOther(panel, named) {
  const key = JSON.stringify(named);
  const is = panel.named !== key;
  panel.named = key;
  return is;
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
  const named = drawnGroups(points, ({ groups }) => groups);
  if (isOther(panels.bandwidth, named)) {
    // Drawn from the top of the stack down: each covers what is below it of the one before.
    const areas = named.map(([group, index]) => areaSeries(group, index)).reverse();
    panels.bandwidth.setSeries([areaSeries("other", OTHER), ...areas]);
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

/** The p99 of each group; the legend has the worst first. */
function drawLatency(points, xs, end) {
  const named = drawnGroups(points, ({ p99s }) => p99s);
  const last = new Map(points.flatMap(({ p99s }) => [...p99s]));
  named.sort((a, b) => last.get(b[0]) - last.get(a[0]) || a[1] - b[1]);
  const worst = named.length > 0 ? [named[0], ...named.slice(1).sort((a, b) => a[1] - b[1])] : [];
  if (isOther(panels.latency, worst)) {
    const line = ([group, index]) =>
      lineSeries(group, `g${index}`, { format: time, dash: DASHES[index] });
    const none = lineSeries("nobody waits", "grey", { format: time });
    panels.latency.setSeries(worst.length > 0 ? worst.map(line) : [none]);
  }
  const lines = worst.map(([group]) => points.map(({ p99s }) => p99s.get(group) ?? null));
  panels.latency.setData([xs, ...(lines.length > 0 ? lines : [points.map(() => null)])], end);
}

/** The points with an empty one in each gap, so that no line goes across it. */
function withGaps(points) {
  const all = [];
  for (const point of points) {
    const before = all[all.length - 1];
    if (before && point.at - before.at > GAP) {
      all.push({ at: before.at + 1000, gap: true, groups: NONE, p99s: NONE, pace: null });
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
  drawLatency(points, xs, end);
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
