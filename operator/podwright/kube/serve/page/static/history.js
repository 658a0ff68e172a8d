// The last hour as small lines under the figures. A sample has the time, then a number for each figure, in the order of the figures.

import { fill } from "./dom.js";

const SAMPLES = 360;
const SVG = "http://www.w3.org/2000/svg";

export class History {
  #samples = [];

  reset() {
    this.#samples = [];
  }

  take(samples) {
    this.#samples = [...this.#samples, ...samples].slice(-SAMPLES);
  }

  /** The numbers of a figure, by its place among the figures, the oldest first. */
  column(index) {
    return this.#samples.map((sample) => sample[index + 1]).filter((number) => number !== undefined);
  }
}

/** Draws numbers as a line; nothing if there are fewer than two. */
export function spark(box, title, numbers) {
  if (numbers.length < 2) {
    fill(box, []);
    return;
  }
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const height = (number) => 18 - 16 * (most > least ? (number - least) / (most - least) : 0.5);
  const points = numbers.map((number, index) => `${(100 * index) / (numbers.length - 1)},${height(number).toFixed(1)}`).join(" ");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points);
  line.setAttribute("vector-effect", "non-scaling-stroke");
  const picture = document.createElementNS(SVG, "svg");
  const minutes = Math.max(1, Math.round(numbers.length / 6));
  const shown = (number) => (Number.isInteger(number) ? String(number) : `${Math.round(number * 100)}%`);
  for (const [name, value] of [["viewBox", "0 0 100 20"], ["preserveAspectRatio", "none"], ["role", "img"],
    ["aria-label", `${title} in the last ${minutes} min: from ${shown(least)} to ${shown(most)}`]]) picture.setAttribute(name, value);
  picture.append(line);
  fill(box, [picture]);
}
