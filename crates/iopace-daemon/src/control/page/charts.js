// One chart: uPlot with the page's axes, markers of changes, a legend with values, and one common
// cursor. What it shows is in panels.js.

import { el, setAttribute, setText, show } from "./dom.js";
import { SPAN_S } from "./store.js";
import { clock } from "./format.js";

/** Charts that share a cursor. */
const cursors = uPlot.sync("time");

const charts = new Set();

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Redraws all charts, for the colours of another theme. */
export function recolour() {
  charts.forEach((chart) => chart.plot.redraw(false, true));
}

/** Distances of the marks of a scale: powers of two, so that 512 KiB are followed by 1 MiB. */
const binarySteps = () => Array.from({ length: 50 }, (_, exponent) => 2 ** exponent);

const STEPS = {
  binary: binarySteps(),
  // Of the common time: the same marks in wide charts and in narrow ones.
  time: [SPAN_S / 4],
  whole: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000],
};

/** Room at the right, of an axis or of nothing: the same moment stands at the same place in all. */
export const RIGHT = 52;

function axisOf({ scale, side, steps, format, width, extra = {} }) {
  return {
    scale,
    side,
    size: width || 68,
    stroke: () => css("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { show: side === 3, stroke: () => css("--grid"), width: 1, ...extra.grid },
    ticks: { show: false },
    gap: 6,
    incrs: STEPS[steps],
    values: (_, all) => all.map((value) => (value === null ? "" : format(value))),
    // Sizes are longer words than counts, and have marks twice as far or half as far only.
    space: extra.space ?? (steps === "binary" ? 36 : 28),
    filter: extra.filter,
  };
}

/** Vertical lines where something was changed, and above them what it was. */
function drawMarkers(plot, markers) {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  context.save();
  context.strokeStyle = css("--marker");
  context.fillStyle = css("--marker");
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.lineWidth = ratio;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.setLineDash([4 * ratio, 3 * ratio]);
  let free = Infinity; // To the left of it there is room for words; the latest have them first.
  for (const { at, text } of [...markers].reverse()) {
    const x = Math.round(plot.valToPos(at / 1000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) {
      continue;
    }
    context.beginPath();
    context.moveTo(x, bbox.top);
    context.lineTo(x, bbox.top + bbox.height);
    context.stroke();
    const width = context.measureText(text).width;
    const end = bbox.left + bbox.width + 20 * ratio;
    const from = Math.max(0, Math.min(x - 3 * ratio, end - width));
    if (from + width + 6 * ratio < free) {
      context.fillText(text, from, bbox.top - 4 * ratio);
      free = from;
    }
  }
  context.restore();
}

/**
 * A chart in `host`. `options`: `title`, `note`, `series` (of uPlot, without the x one,
 * each with `label`, `swatch` and `format`), `axes` (`scale`, `side`, `format`, `steps`), `scales`,
 * `marks()` (the markers), `values(series, index)` (what the legend says; default: the data),
 * `isNeeded(series)` (whether it is in the legend).
 */
export class Chart {
  constructor(host, options) {
    this.options = options;
    this.body = el("div", { class: "plot", role: "img" });
    this.legend = el("ul", { class: "legend" });
    const head = el("h3", {}, options.title);
    const note = options.note ? el("span", { class: "note" }, options.note) : null;
    host.append(el("div", { class: "chart-head" }, head, note), this.body, this.legend);
    this.data = [[]];
    this.index = null;
    this.build();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.body);
    charts.add(this);
  }

  build() {
    const { options } = this;
    const x = {
      ...axisOf({
        scale: "x",
        side: 2,
        steps: "time",
        format: (value) => clock(value * 1000),
        width: 24,
      }),
      space: 1,
      grid: { show: false },
    };
    const config = {
      ...this.room(),
      padding: [18, options.axes.length > 1 ? 0 : RIGHT, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: cursors.key, setSeries: false },
        drag: { x: false, y: false },
        points: { size: 5 },
        y: false,
      },
      scales: { x: { time: false }, ...options.scales },
      axes: [x, ...options.axes.map((axis) => axisOf(axis))],
      series: [{}, ...options.series],
      hooks: {
        draw: [(plot) => drawMarkers(plot, options.marks())],
        setCursor: [(plot) => this.setIndex(plot.cursor.idx)],
      },
    };
    this.plot = new uPlot(config, this.emptyData(), this.body);
    this.buildLegend();
  }

  emptyData() {
    return [[], ...this.options.series.map(() => [])];
  }

  /** What its card leaves for it. */
  room() {
    const { clientWidth, clientHeight } = this.body;
    return { width: Math.max(100, clientWidth), height: Math.max(100, clientHeight) };
  }

  resize() {
    const room = this.room();
    const isOther = room.width !== this.plot.width || room.height !== this.plot.height;
    if (this.body.clientWidth > 0 && isOther) {
      this.plot.setSize(room);
    }
  }

  buildLegend() {
    this.rows = this.options.series.map(({ label, swatch }) => {
      const value = el("span", { class: "value" });
      const item = el("li", {}, swatch(), el("span", {}, label), value);
      return { item, value };
    });
    this.legend.replaceChildren(...this.rows.map(({ item }) => item));
  }

  /** Other series, as when other groups are the busiest. */
  setSeries(series) {
    this.options.series = series;
    this.plot.destroy();
    this.build();
  }

  /** Shows the data, `[seconds, series, ...]`, up to the second `end`. */
  setData(data, end) {
    this.data = data;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min: end - SPAN_S, max: end });
    });
    this.fillLegend();
  }

  setIndex(index) {
    this.index = index === undefined ? null : index;
    this.fillLegend();
  }

  fillLegend() {
    const last = this.data[0].length - 1;
    const at = this.index === null ? last : Math.min(this.index, last);
    const words = [];
    this.options.series.forEach((series, i) => {
      const read = this.options.values || ((j, k) => this.data[j + 1][k]);
      const value = at < 0 ? null : read(i, at);
      const text = value === null || value === undefined ? "–" : series.format(value);
      setText(this.rows[i].value, text);
      const isNeeded = !this.options.isNeeded || at < 0 || this.options.isNeeded(i);
      show(this.rows[i].item, isNeeded);
      words.push(`${series.label} ${text}`);
    });
    this.legend.classList.toggle("at-cursor", this.index !== null);
    setAttribute(this.body, "aria-label", `${this.options.title}: ${words.join(", ")}`);
  }
}
