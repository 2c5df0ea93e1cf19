// Colours after Okabe and Ito, which people with any kind of colour blindness tell apart, each with
// a pattern or a dash of its own, so that colour is never all there is. The same patterns are in
// patterns.css as .k0 to .k8.

const COLOURS = [
  "#0072b2", // blue
  "#e69f00", // orange
  "#009e73", // green
  "#cc79a7", // pink
  "#56b4e9", // sky
  "#d55e00", // vermilion
  "#f0e442", // yellow
  "#7a6fb0", // violet: the eighth group; its pattern is unlike that of blue and pink
  "#9a9a9a", // grey: all others
];

/** Index of the grey one. */
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
    // White does not show on yellow.
    context.strokeStyle = index === 6 ? "rgb(0 0 0 / 35%)" : "rgb(255 255 255 / 55%)";
    context.fillStyle = context.strokeStyle;
    context.lineWidth = 1.2 * scale;
    STROKES[index](context, tile.width);
    made.set(key, context.createPattern(tile, "repeat"));
  }
  return made.get(key);
}
