// The colours of groups: from blue to pink, and nothing else on the page has these. Reasons are
// green to yellow, red and amber are alarms and warnings, and all else is grey or ink. Each has a
// pattern or a dash of its own, so that colour is never all there is. The same patterns are in
// patterns.css as .k0 to .k8; those of reasons as .r0 to .r7.

const COLOURS = [
  "#0072b2", // blue
  "#cc79a7", // pink
  "#56b4e9", // sky
  "#7a6fb0", // violet
  "#1f9aa6", // teal
  "#a23b8a", // magenta
  "#33508f", // navy
  "#b39ddb", // lilac
  "#c3c8ce", // pale: all others
];

/** Index of the pale one. */
export const OTHER = COLOURS.length - 1;

/** The colour of a line in the theme at hand; they are in patterns.css. */
export const lineColour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--line-${name}`).trim();

const made = new Map();

/** Edge of a tile of a pattern, in pixels of the screen. */
const TILE = 8;

/** How each pattern is drawn on its tile: none, /, dots, \, -, |, x, rings, sparse dots. */
const STROKES = [
  () => {},
  (c, t) => line(c, 0, t, t, 0),
  (c, t) => disc(c, t / 2, t / 2, t / 6),
  (c, t) => line(c, 0, 0, t, t),
  (c, t) => line(c, 0, t / 2, t, t / 2),
  (c, t) => line(c, t / 2, 0, t / 2, t),
  (c, t) => {
    line(c, 0, 0, t, t);
    line(c, 0, t, t, 0);
  },
  (c, t) => {
    disc(c, t / 4, t / 4, t / 8);
    disc(c, (3 * t) / 4, (3 * t) / 4, t / 8);
  },
  () => {},
];

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function disc(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

/** The colour at this index. */
export const colour = (index) => COLOURS[index];

/** What an area with this index is filled with, for a canvas. */
export function pattern(index) {
  const scale = Math.max(1, Math.round(devicePixelRatio));
  const key = `${index} ${scale}`;
  if (!made.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = TILE * scale;
    tile.height = TILE * scale;
    const context = tile.getContext("2d");
    context.fillStyle = COLOURS[index];
    context.fillRect(0, 0, tile.width, tile.height);
    context.strokeStyle = "rgb(255 255 255 / 55%)";
    context.fillStyle = context.strokeStyle;
    context.lineWidth = 1.2 * scale;
    STROKES[index](context, tile.width);
    made.set(key, context.createPattern(tile, "repeat"));
  }
  return made.get(key);
}

/** How the line of each group is dashed. */
export const DASHES = [[], [8, 3], [3, 2], [10, 3, 2, 3], [5, 2], [1, 3], [12, 4], [6, 2, 1, 2], []];
