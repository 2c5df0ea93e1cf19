"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // One colour means one thing through the whole report: tasks and groups have those of SERIES in
  // their order, stages of a request and what belongs to them have their own. The first eight are
  // after Okabe and Ito (2008); each further one is as far as can be from all before it, also as
  // colour-blind eyes see them. Lighter ones on dark ground.
  const SERIES = {
    light: ["#0072b2", "#d55e00", "#009e73", "#b5578c", "#b87f00", "#3a9bd6", "#6b5b00", "#666666",
      "#110077", "#550000", "#5577ff", "#552266", "#bb0099", "#004433", "#668844", "#991144",
      "#dd33ff", "#ff00cc", "#554466", "#9922ff", "#554422", "#4433dd", "#000044", "#000022"],
    dark: ["#56b4e9", "#ff8a47", "#2fc59b", "#e39ac4", "#e6b43c", "#8fb4ff", "#f0e442", "#bbbbbb",
      "#9922ff", "#dd0000", "#667755", "#ccff88", "#bbffdd", "#ee33ff", "#00dd77", "#ff44cc",
      "#4488ff", "#447799", "#ddff00", "#559988", "#ddffff", "#7777bb", "#667722", "#999900"],
  };
  const THINGS = {
    light: { pace: "#ee3344", admit: "#7711aa", sched: "#003399", window: "#330011", disk: "#0000ff",
      memory: "#663300", all: "#1b1f24" },
    dark: { pace: "#ee1155", admit: "#bb3388", sched: "#7755cc", window: "#ffffbb", disk: "#33eeff",
      memory: "#aa9977", all: "#e6e9ed" },
  };
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 6], [5, 2, 2, 2, 2, 2]];
  const STAGES = [["pace", "dirty memory (pace)"], ["admit", "slot or limit (admit)"],
    ["sched", "turn or anticipation (sched)"], ["window", "window full"], ["disk", "at the disk"]];
  const ground = () => dark.matches ? "dark" : "light";
  // Places in SERIES by name; a family of tasks ("dd (20)") is a thing of its own.
  const places = new Map();
  const placeOf = key => {
    if (!places.has(key)) places.set(key, places.size);
    return places.get(key);
  };
  for (const what of ["tasks", "groups"])
    for (const variant of data.variants) variant.view[what].forEach(one => placeOf(what + " " + one.name));
  const colour = key => THINGS[ground()][key] ?? SERIES[ground()][placeOf(key) % SERIES.light.length];
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (tag, props = {}, children = []) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...children);
    return node;
  };
  const round = v => v == null ? "" :
    v === 0 ? "0" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) :
    Math.abs(v) >= 0.1 ? v.toFixed(2) : v.toPrecision(2);
  const times = view => view.in_flight.map((_, i) => i * view.step_us / 1e6);
  const thousandths = list => list.map(v => v / 1000);
  const mib = list => list.map(v => v / 1024);
  const some = list => list.some(v => v > 0);
  const nines = permille => -Math.log10(1 - permille / 1000);
  // The mean of so many steps around each one: single requests are not what the eye is after.
  const SMOOTH = 50;
  const isEach = () => document.getElementById("each").checked;
  // How long the longest of the variants that are shown took, in seconds.
  let longest = 0;
  const mean = (list, view) => {
    const half = Math.floor(longest / (view.step_us / 1e6) / SMOOTH / 2);
    if (isEach() || half === 0) return list;
    const sums = [0];
    list.forEach((v, i) => sums.push(sums[i] + (v ?? 0)));
    return list.map((v, i) => {
      const from = Math.max(0, i - half), to = Math.min(list.length, i + half + 1);
      return v == null ? null : (sums[to] - sums[from]) / (to - from);
    });
  };
  // Values of steps of `from` as means over longer steps.
  const onto = (values, from, to) => {
    const count = Math.max(1, Math.round(to / from));
    return Array.from({ length: Math.ceil(values.length / count) }, (_, i) => {
      const some = values.slice(i * count, (i + 1) * count).filter(v => v != null);
      return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
    });
  };
  // `key` says what it is: a stage, `memory`, `all`, or a task or group by name.
  const line = (name, values, key, more = {}) => ({ name, values, key, ...more });
  const task = t => "tasks " + t.name;

  // Every plot: what it shows of a variant, or null if there is nothing to show.
  const CHARTS = [
    { title: `Bandwidth of each ${data.who}`, unit: "MB/s", cut: true, smooth: true, lines: v =>
      v.tasks.map(t => line(t.name, mean(thousandths(t.kb_s), v), task(t))) },
    { title: "Bandwidth of each group", unit: "MB/s", cut: true, smooth: true, lines: v =>
      v.groups.map(g => line(g.name, mean(thousandths(g.kb_s), v), "groups " + g.name)) },
    { title: "Latency: so many per cent of the requests were done within", unit: "ms", log: true,
      x: () => data.permille.map(nines), percent: true, lines: v =>
      v.tasks.filter(t => t.latency_us.length).map(t =>
        line(t.name, t.latency_us.map(us => Math.max(us, 1) / 1000), task(t))) },
    { title: "Requests in line and at the disk", unit: "requests", lines: v => [
      line("in line", v.queued, "sched"), line("at the disk", v.in_flight, "disk"),
      line("window", v.window, "window", { dash: [6, 4] }),
      ...(some(v.paced) ? [line("paced writes", v.paced, "pace")] : [])] },
    { title: "Dirty memory", unit: "MiB", lines: v => !some(v.dirty_kib) ? [] : [
      line("dirty", mib(v.dirty_kib), "memory"),
      ...(some(v.limit_kib) ? [line("limit", mib(v.limit_kib), "memory", { dash: [10, 3] })] : []),
      ...(some(v.setpoint_kib) ? [line("set point", mib(v.setpoint_kib), "memory", { dash: [5, 4] })] : []),
      ...(some(v.freerun_kib) ? [line("free run", mib(v.freerun_kib), "memory", { dash: [2, 4] })] : [])] },
    { title: "Pauses of writers", unit: "ms", log: true, dots: true,
      x: v => v.pauses.map(p => p[0] / 1e6),
      lines: v => v.tasks.map((t, i) => line(t.name,
        v.pauses.map(p => p[1] === i ? Math.max(p[2], 1) / 1000 : null), task(t)))
        .filter(l => l.values.some(x => x != null)),
      note: v => v.pauses_count > v.pauses.length
        ? `${v.pauses.length} of ${v.pauses_count} pauses, spread over the run` : "" },
    { title: "The disk was busy", unit: "% of the time", top: 100, smooth: true, lines: v =>
      [line("busy", [...mean(v.busy_permille.map(p => p / 10), v), null], "disk")] },
  ];

  let plots = [];
  const sync = uPlot.sync("time");

  function axes(chart, ticks) {
    const shared = { stroke: css("--text"), grid: { stroke: css("--line"), width: 1 },
      ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const percents = [500, 900, 990, 999];
    const x = chart.percent
      ? { ...shared, splits: () => percents.map(nines), values: () => percents.map(p => p / 10 + " %") }
      : ticks ? { ...shared, splits: () => ticks.map((_, i) => i), values: () => ticks }
      : { ...shared, values: (_, all) => all.map(v => v + " s") };
    const y = { ...shared, size: 58, values: (_, all) => all.map(v => v == null ? "" :
      v >= 1e5 ? +(v / 1000).toPrecision(6) + " k" : String(+v.toPrecision(6))) };
    return [x, y];
  }

  function xText(chart, ticks) {
    if (chart.percent) return (_, v) => v == null ? "" : (100 - 100 * 10 ** -v).toFixed(1) + " %";
    if (ticks) return (_, v) => v == null ? "" : ticks[v];
    return (_, v) => v == null ? "" : v.toFixed(2) + " s";
  }

  // Error bars: half the width of the 95 % interval up and down from each mean.
  function whiskers(u, line) {
    const { ctx } = u, end = 4 * devicePixelRatio;
    ctx.save();
    Object.assign(ctx, { strokeStyle: colour(line.key), lineWidth: 1.5 * devicePixelRatio });
    ctx.beginPath();
    line.values.forEach((value, at) => {
      const half = line.halves[at];
      if (value == null || !half) return;
      const x = u.valToPos(at, "x", true), floor = u.scales.y.min;
      const [low, high] = [Math.max(value - half, floor), value + half].map(v => u.valToPos(v, "y", true));
      ctx.moveTo(x, low);
      ctx.lineTo(x, high);
      for (const y of [low, high]) {
        ctx.moveTo(x - end, y);
        ctx.lineTo(x + end, y);
      }
    });
    ctx.stroke();
    ctx.restore();
  }

  // The interval of a mean, for its legend.
  function within(line, value) {
    const half = line.halves?.[line.values.indexOf(value)];
    return half ? " ±" + round(half) : "";
  }

  // A plot that the keyboard reaches: arrows move the cursor, Escape shows all again.
  function plot(caption, chart, xs, lines, range, ticks) {
    // Its legend has values while a cursor is on it, and names only before.
    const place = make("div", { className: "idle" });
    const figure = make("figure", {}, [make("figcaption", { textContent: caption }), place]);
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `${chart.title}, ${caption}; arrow keys move the cursor`);
    const series = lines.map(l => ({
      label: l.name, stroke: colour(l.key), width: l.dash ? 1.5 : 2, dash: l.dash,
      value: (_, v) => v == null ? "" : round(v) + " " + (l.unit ?? chart.unit) + within(l, v), spanGaps: false,
      ...(chart.dots ? { paths: () => null, points: { show: true, size: 4, fill: colour(l.key) } }
        : { points: { show: !!ticks, size: 6 } }),
    }));
    const options = {
      width: 300, height: 230, series: [{ label: chart.percent ? "of requests" : ticks ? chart.over : "time",
        value: xText(chart, ticks) }, ...series],
      axes: axes(chart, ticks),
      scales: { x: { time: false, ...(chart.range ? { range: () => chart.range } : {}) },
        y: { distr: chart.log ? 3 : 1, ...(range ? { range: () => range } : {}) } },
      cursor: chart.percent || ticks ? { drag: { x: false } } : { sync: { key: sync.key } },
      hooks: {
        setCursor: [u => place.classList.toggle("idle", u.cursor.idx == null)],
        draw: [u => lines.forEach((l, n) => l.halves && u.series[n + 1].show && whiskers(u, l))],
      },
    };
    return { figure, begin() {
      const u = new uPlot(options, [xs, ...lines.map(l => l.values)], place);
      const fit = () => {
        const width = Math.max(place.clientWidth, 200);
        if (width !== u.width) u.setSize({ width, height: 230 });
      };
      new ResizeObserver(() => requestAnimationFrame(fit)).observe(place);
      fit();
      figure.addEventListener("keydown", event => {
        const step = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
        if (event.key === "Escape") u.setScale("x", { min: xs[0], max: xs[xs.length - 1] });
        if (step === undefined || !xs.length) return;
        event.preventDefault();
        const at = Math.min(Math.max((u.cursor.idx ?? -1) + step, 0), xs.length - 1);
        u.setCursor({ left: u.valToPos(xs[at], "x"), top: u.over.clientHeight / 2 });
      });
      plots.push(u);
    } };
  }

  // The same scale for all panels of a row, or they could not be compared.
  function rangeOf(chart, all) {
    const tops = l => l.values.map((v, at) => v == null ? v : v + (l.halves?.[at] ?? 0));
    const values = all.flatMap(lines => lines.flatMap(l => [...l.values, ...(l.halves ? tops(l) : [])]))
      .filter(v => v != null);
    if (!values.length) return null;
    const [least, most] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, 0]);
    if (!chart.log) {
      // A burst into empty memory at the beginning would flatten everything after it.
      const usual = chart.cut ? [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.985)] : most;
      chart.isCut = chart.cut && usual > 0 && most > usual * 3;
      return [0, chart.top ?? ((chart.isCut ? usual * 1.3 : most * 1.05) || 1)];
    }
    const low = 10 ** Math.floor(Math.log10(least)), high = 10 ** Math.ceil(Math.log10(most * 1.001));
    return [low, Math.max(high, low * 10)];
  }

  function bars(variant) {
    const figure = make("figure", {}, [make("figcaption", { textContent: variant.name })]);
    for (const task of variant.view.tasks) {
      const sum = task.waits_us.reduce((a, b) => a + b, 0);
      const segments = STAGES.map(([stage, name], i) => {
        const share = sum ? 100 * task.waits_us[i] / sum : 0;
        const segment = make("b", { title: `${name}: ${share.toFixed(1)} %`,
          textContent: share >= 13 ? share.toFixed(0) + " %" : "" });
        Object.assign(segment.style, { width: share + "%", background: colour(stage),
          color: dark.matches && ["window", "disk"].includes(stage) ? "#000" : "#fff" });
        return segment;
      });
      const bar = make("div", {}, segments);
      bar.setAttribute("role", "img");
      bar.setAttribute("aria-label", task.name + ": " + segments.map(s => s.title).join(", "));
      figure.append(make("div", { className: "bar" }, [
        make("span", { textContent: task.name, title: task.name }), bar]));
    }
    const looks = variant.view.in_flight.length || 1;
    const reasons = Object.entries(variant.view.reasons).sort((a, b) => b[1] - a[1]);
    figure.append(make("figcaption", { textContent: "Why nothing more started, at so many per cent of the looks: " +
      reasons.filter(([, n]) => n >= looks / 200).map(([name, n]) => `${name} ${(100 * n / looks).toFixed(0)} %`).join(", ") }));
    return figure;
  }

  function waits(into, chosen) {
    into.append(make("h3", { textContent: "Where the time of the requests went" }));
    const keys = STAGES.map(([stage, name]) => {
      const swatch = make("i");
      swatch.style.background = colour(stage);
      return make("span", {}, [swatch, name]);
    });
    into.append(make("div", { className: "keys" }, keys));
    into.append(make("div", { className: "row" }, chosen.map(bars)));
  }

  function draw() {
    plots.forEach(u => u.destroy());
    plots = [];
    const into = document.getElementById("charts");
    into.replaceChildren();
    const chosen = data.variants.filter((_, i) => document.getElementById("v" + i)?.checked ?? true);
    const overlay = document.getElementById("overlay")?.checked && chosen.length > 1;
    longest = Math.max(0, ...chosen.map(c => c.view.in_flight.length * c.view.step_us / 1e6));
    for (const chart of CHARTS) {
      const all = chosen.map(c => chart.lines(c.view));
      if (!all.some(lines => lines.length)) continue;
      chart.range = chart.percent ? [nines(500), nines(999)] : [0, longest];
      const range = rangeOf(chart, all);
      const row = make("div", { className: "row" });
      const over = chart.smooth && !isEach() ? `, mean of ${round(longest / SMOOTH)} s` : "";
      into.append(make("h3", { 
        textContent: `${chart.title}, ${chart.unit}${over}${chart.isCut ? " (short peaks are cut)" : ""}` }), row);
      const x = v => chart.x ? chart.x(v) : times(v);
      const panels = [];
      if (overlay && !chart.dots) {
        // Runs that end with their work have steps of their own: all on the longest of them.
        const step = Math.max(...chosen.map(c => c.view.step_us));
        const count = Math.max(...chosen.map(c => Math.ceil(c.view.in_flight.length * c.view.step_us / step)));
        const at = chart.x ? x(chosen[0].view) : Array.from({ length: count }, (_, i) => i * step / 1e6);
        const padded = values => [...values, ...Array(Math.max(0, at.length - values.length)).fill(null)];
        const lines = all.flatMap((lines, n) => lines.map(l => ({
          ...l, values: chart.x ? l.values : padded(onto(l.values, chosen[n].view.step_us, step)), name: `${l.name}: ${chosen[n].name}`, dash: DASHES[n % DASHES.length] })));
        panels.push(plot("all variants; each has its own kind of line", chart, at, lines, range));
      } else {
        chosen.forEach((c, n) => all[n].length && panels.push(plot(
          [c.name, chart.note?.(c.view)].filter(Boolean).join("; "), chart, x(c.view), all[n], range)));
      }
      row.append(...panels.map(p => p.figure));
      panels.forEach(p => p.begin());
    }
    if (chosen.length) waits(into, chosen);
    curves();
  }

  // Figures over a parameter that was swept.
  const FIGURES = [["mb_s", "Throughput", "MB/s"], ["share", "Share of what it gets alone", ""],
    ["p99_ms", "99 % of the requests were done within", "ms", true],
    ["max_ms", "Longest latency", "ms", true]];

  function curves() {
    const into = document.getElementById("curves");
    const over = document.getElementById("over")?.value;
    if (!into || !over) return;
    into.replaceChildren();
    const of = (p, key) => p.settings.find(s => s.key === key)?.value;
    const rest = p => p.settings.filter(s => s.key !== over).map(s => `${s.key}=${s.value}`).join(", ");
    const ticks = [...new Set(data.points.map(p => of(p, over)))];
    const others = [...new Set(data.points.map(rest))];
    const tasks = data.points[0].tasks.slice(0, 12).map(t => t.task);
    const row = make("div", { className: "row" });
    into.append(row);
    const shown = ticks.length > 16 ? ticks.map((t, i) => i % Math.ceil(ticks.length / 12) ? "" : t) : ticks;
    const chart = (figure, title, unit, log, value) => {
      const lines = others.flatMap((other, n) => (value ? ["all"] : tasks).map(name => {
        const rows = ticks.map(tick => {
          const point = data.points.find(p => of(p, over) === tick && rest(p) === other);
          return value ? point?.whole : point?.tasks.find(t => t.task === name);
        });
        const values = rows.map(row => (value ? value(row) : row?.[figure]) ?? null)
          .map(v => log && v === 0 ? null : v);
        const halves = rows.map(row => (value ? value(row?.ci95) : row?.ci95?.[figure]) ?? 0);
        return line(other ? `${name}: ${other}` : name, values, value ? "all" : "tasks " + name,
          { dash: DASHES[n % DASHES.length], ...(halves.some(half => half > 0) ? { halves } : {}) });
      }));
      if (!lines.some(l => l.values.some(v => v != null))) return;
      const spec = { title, unit, log, over, range: [-0.3, ticks.length - 0.7] };
      const made = plot([title, unit].filter(Boolean).join(", "), spec, ticks.map((_, i) => i), lines,
        rangeOf(spec, [lines]), shown);
      row.append(made.figure);
      made.begin();
    };
    FIGURES.forEach(([figure, title, unit, log]) => chart(figure, title, unit, log));
    chart("", "Throughput of all tasks", "MB/s", false, row => row?.mb_s);
    chart("", "Sum of all shares", "", false, row => row?.efficiency);
    chart("", "The disk was busy", "% of the time", false, row => row && row.disk_busy * 100);
  }

  const each = make("input", { type: "checkbox", id: "each" });
  document.getElementById("charts").before(make("label", {}, [each, " every step instead of means"]));
  each.addEventListener("change", draw);
  document.getElementById("controls")?.addEventListener("change", draw);
  document.getElementById("over")?.addEventListener("change", draw);
  dark.addEventListener("change", draw);
  draw();
})();
