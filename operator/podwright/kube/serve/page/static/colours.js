// The colours of the map. They are custom properties of the style sheet, so that themes change them. A hidden element says which
// colour each of them is in the present theme.

const STEPS = 50;
const NAMES = ["card", "none", "cell-text", "cell-text-on-dark", "zone", "zone-line", "text", "quiet", "accent", "over", "bad", "hatch"];

export class Colours {
  #ramp = [];
  #bright = [];
  #probe = document.createElement("span");

  constructor() {
    this.#probe.hidden = true;
    document.body.append(this.#probe);
    this.read();
  }

  /** Reads the custom properties again. */
  read() {
    const style = getComputedStyle(this.#probe);
    const value = (name) => {
      this.#probe.style.color = `var(--${name})`;
      return style.color;
    };
    for (const name of NAMES) this[name] = value(name);
    const stops = [0, 1, 2, 3, 4].map((stop) => parsed(value(`ramp-${stop}`)));
    this.#ramp = [];
    this.#bright = [];
    for (let step = 0; step <= STEPS; step += 1) {
      const at = (step / STEPS) * (stops.length - 1);
      const low = Math.min(Math.floor(at), stops.length - 2);
      const mixed = stops[low].map((part, index) => Math.round(part + (stops[low + 1][index] - part) * (at - low)));
      this.#ramp.push(`rgb(${mixed.join(" ")})`);
      this.#bright.push(luminance(mixed) > 0.3);
    }
  }

  /** The colour for a share from 0 to 1; another one for nodes that do not offer the resource. */
  of(share) {
    return Number.isFinite(share) ? this.#ramp[step(share)] : this.none;
  }

  /** The colour of text on `of(share)`. */
  textOn(share) {
    if (!Number.isFinite(share)) return this.quiet;
    return this.#bright[step(share)] ? this["cell-text"] : this["cell-text-on-dark"];
  }
}

const step = (share) => Math.round(Math.max(0, Math.min(share, 1)) * STEPS);
const parsed = (colour) => colour.match(/\d+/g).slice(0, 3).map(Number);

function luminance(rgb) {
  const [red, green, blue] = rgb.map((part) => ((part / 255) ** 2.2));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
