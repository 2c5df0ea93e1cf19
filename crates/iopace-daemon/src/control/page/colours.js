// Which colour a group has: the same one everywhere on the page, whatever device is shown. It keeps
// it while the page is open, unless more groups want one than there are.

import { OTHER } from "./palette.js";

/** Group by colour. */
const places = new Array(OTHER).fill(null);

/** Groups that have a colour because they wait longest; the busiest have the others. */
const WAITING_MAX = OTHER / 2;

/** The groups with the largest sums of `read(point)`, a map by group, over the points. */
function largest(points, read) {
  const sums = new Map();
  for (const point of points) {
    for (const [group, value] of read(point)) {
      if (group !== null && value > 0) {
        sums.set(group, (sums.get(group) || 0) + value);
      }
    }
  }
  return [...sums].sort((a, b) => b[1] - a[1]).map(([group]) => group);
}

/** Gives colours to the groups that wait longest and to the busiest of these points. */
export function giveColours(points) {
  const waiting = largest(points, ({ p99s }) => p99s).slice(0, WAITING_MAX);
  const busy = largest(points, ({ groups }) => groups);
  const wanted = [...new Set([...waiting, ...busy])].slice(0, OTHER);
  for (const group of wanted.filter((group) => !places.includes(group))) {
    const free = places.indexOf(null);
    places[free < 0 ? places.findIndex((other) => !wanted.includes(other)) : free] = group;
  }
}

/** The colour of a group, as an index; that of all others where it has none of its own. */
export function colourOf(group) {
  const place = places.indexOf(group);
  return place < 0 ? OTHER : place;
}
