// The map of nodes, on a canvas. Only cells whose nodes have changed are painted again, once a frame.

import { Colours } from "./colours.js";
import { byId, say } from "./dom.js";
import { grouped, layout, neighbour, nodeAt } from "./layout.js";
import { CORDONED, NOT_READY } from "./nodes.js";
import { amount, label, percent } from "./units.js";

const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);
const FONT = "system-ui, sans-serif";
/** What browsers paint at least: pixels of a canvas from top to bottom, and all of them. A larger one stays blank. */
const MOST_HIGH = 16_384;
const MOST_PIXELS = 16_000_000;

export class NodeMap {
  /** How often all was arranged and painted, and how many cells were painted by themselves. */
  painted = { all: 0, cells: 0 };
  resource = 0;
  #nodes;
  #open;
  #box = byId("map");
  #canvas = byId("canvas");
  #context;
  #colours = new Colours();
  #place = null;
  /** The part of the map that is on the canvas, from top to bottom. */
  #top = 0;
  #shown = 0;
  #dirty = new Set();
  #frame = 0;
  #again = true;
  #found = null;
  cursor = -1;
  selected = -1;

  /** `open`: called with the slot of a node that somebody chooses. */
  constructor(nodes, open) {
    this.#nodes = nodes;
    this.#open = open;
    this.#context = this.#canvas.getContext("2d", { alpha: false });
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    this.#box.addEventListener("focus", () => this.#focused());
    this.#box.addEventListener("blur", () => this.#repaint(this.cursor));
    this.#box.addEventListener("scroll", () => this.#scrolled());
    this.#canvas.addEventListener("click", (event) => this.#click(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.#canvas.addEventListener("pointerleave", () => this.#tell(this.cursor));
    let width = 0;
    new ResizeObserver(() => {
      if (this.#box.clientWidth !== width) {
        width = this.#box.clientWidth;
        this.arrange();
      }
    }).observe(this.#box);
  }

  /** Everything may be elsewhere, or look different. */
  arrange() {
    this.#again = true;
    this.#ask();
  }

  /** The colours have changed. */
  recolour() {
    this.#colours.read();
    this.arrange();
  }

  /** These nodes have changed. */
  update(slots) {
    for (const slot of slots) this.#dirty.add(slot);
    if (slots.has?.(this.cursor)) this.#tell(this.cursor);
    this.#ask();
  }

  /** Only nodes whose slot is in `found` stand out; null: all of them. */
  show(found) {
    this.#found = found;
    this.arrange();
  }

  select(slot) {
    const before = this.selected;
    this.selected = slot;
    this.#repaint(before);
    this.#repaint(slot);
  }

  /** Moves the cursor to a node, and shows it. */
  goTo(slot) {
    const before = this.cursor;
    this.cursor = slot;
    this.#repaint(before);
    this.#repaint(slot);
    this.#tell(slot);
    say(byId("map-live"), slot >= 0 ? this.describe(slot) : "");
    const cell = this.#place?.cells.get(slot);
    if (!cell) return;
    const box = this.#box;
    if (cell.y < box.scrollTop) box.scrollTop = cell.y - 8;
    else if (cell.y + this.#place.size > box.scrollTop + box.clientHeight) box.scrollTop = cell.y + this.#place.size + 8 - box.clientHeight;
  }

  /** Paints another part of a map that is too high for the canvas, before the one that is there ends. */
  #scrolled() {
    const { scrollTop, clientHeight } = this.#box;
    const bottom = Math.min(scrollTop + clientHeight, this.#place?.height ?? 0);
    if (this.#place && (scrollTop < this.#top || bottom > this.#top + this.#shown)) this.arrange();
  }

  #ask() {
    this.#frame ||= requestAnimationFrame(() => this.#paint());
  }

  #repaint(slot) {
    if (slot >= 0) this.update(new Set([slot]));
  }

  #paint() {
    this.#frame = 0;
    if (this.#again) this.#paintAll();
    else for (const slot of this.#dirty) this.#paintCell(slot, true);
    this.#dirty.clear();
    this.#box.dataset.painted = `${this.painted.all} ${this.painted.cells}`;
  }

  #paintAll() {
    this.#again = false;
    this.painted.all += 1;
    const width = Math.max(200, this.#box.clientWidth - 2);
    const slots = this.#nodes.slots();
    const place = (this.#place = layout(grouped(this.#nodes, slots), width, Math.max(360, Math.round(innerHeight * 0.58))));
    this.#box.dataset.nodes = place.order.length;
    if (!place.cells.has(this.cursor)) this.cursor = place.order[0] ?? -1;
    const canvas = this.#canvas;
    const height = Math.max(place.height, 40);
    const scale = Math.min(devicePixelRatio || 1, 3, Math.max(1, Math.min(MOST_HIGH / height, Math.sqrt(MOST_PIXELS / (width * height)))));
    this.#shown = Math.min(height, Math.round(MOST_HIGH / scale), Math.round(MOST_PIXELS / (width * scale * scale)));
    this.#top = Math.max(0, Math.min(height - this.#shown, Math.round(this.#box.scrollTop + this.#box.clientHeight / 2 - this.#shown / 2)));
    canvas.width = Math.floor(width * scale);
    canvas.height = Math.floor(this.#shown * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${this.#shown}px`;
    canvas.style.marginTop = `${this.#top}px`;
    canvas.style.marginBottom = `${height - this.#top - this.#shown}px`;
    const context = this.#context;
    context.setTransform(scale, 0, 0, scale, 0, -this.#top * scale);
    context.fillStyle = this.#colours.card;
    context.fillRect(0, this.#top, width, this.#shown);
    for (const zone of place.zones) this.#paintZone(zone);
    this.#write(11, this.#colours.quiet, "left", "alphabetic");
    for (const { rack, x, y, width: room } of place.racks) context.fillText(short(context, rack || "no rack", room), x, y + 11);
    for (const slot of place.order) this.#paintCell(slot, false);
    this.#tell(this.cursor);
  }

  #paintZone({ zone, x, y, width, height, slots }) {
    const context = this.#context;
    context.fillStyle = this.#colours.zone;
    context.strokeStyle = this.#colours["zone-line"];
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(x + 0.5, y + 0.5, width - 1, height - 1, 8);
    context.fill();
    context.stroke();
    this.#write(13, this.#colours.text, "left", "alphabetic", 600);
    context.fillText(short(context, zone || "No zone", width - 110), x + 10, y + 20);
    this.#write(12, this.#colours.quiet, "right", "alphabetic");
    context.fillText(`${slots.length} ${slots.length === 1 ? "node" : "nodes"}`, x + width - 10, y + 20);
  }

  #write(size, colour, align, baseline, weight = 400) {
    const context = this.#context;
    context.font = `${weight} ${size}px ${FONT}`;
    context.fillStyle = colour;
    context.textAlign = align;
    context.textBaseline = baseline;
  }

  /** Paints one cell. `alone`: what was there before is wiped first. */
  #paintCell(slot, alone) {
    const cell = this.#place?.cells.get(slot);
    if (!cell) return;
    const { size, gap } = this.#place;
    const context = this.#context;
    const colours = this.#colours;
    const { x, y } = cell;
    if (y + size + gap < this.#top || y - gap > this.#top + this.#shown) return;
    const edge = gap / 2 + 0.5;
    if (alone) {
      this.painted.cells += 1;
      context.fillStyle = colours.zone;
      context.fillRect(x - edge, y - edge, size + 2 * edge, size + 2 * edge);
    }
    const share = this.#nodes.share(slot, this.resource);
    context.globalAlpha = (this.#found && !this.#found.has(slot) ? 0.18 : 1) * (0.2 + 0.8 * this.#nodes.presence(slot));
    context.fillStyle = colours.of(share);
    box(context, x, y, size, size >= 12 ? Math.min(6, size / 5) : 1.5);
    context.fill();
    const hatched = this.#nodes.flags[slot] & (CORDONED | NOT_READY);
    if (hatched) this.#hatch(slot, x, y, size);
    if (size >= 28) {
      this.#write(size >= 40 ? 13 : 11, colours.textOn(share), "center", "middle", 600);
      if (hatched) {
        context.strokeStyle = colours.of(share);
        context.lineWidth = 6;
        context.lineJoin = "round";
        context.strokeText(percent(share).replace("%", ""), x + size / 2, y + size / 2 + 0.5);
      }
      context.fillText(percent(share).replace("%", ""), x + size / 2, y + size / 2 + 0.5);
    }
    context.globalAlpha = 1;
    const line = this.#line(slot, share);
    if (line) {
      context.strokeStyle = line[0];
      context.lineWidth = line[1];
      box(context, x - edge / 2 + 0.5, y - edge / 2 + 0.5, size + edge - 1, size >= 12 ? Math.min(7, size / 5 + 1) : 2);
      context.stroke();
    }
  }

  /** The line around a cell: its colour and width, or null. */
  #line(slot, share) {
    const colours = this.#colours;
    if (slot === this.cursor && document.activeElement === this.#box) return [colours.accent, 2.5];
    if (slot === this.selected) return [colours.accent, 2];
    if (share > 1) return [colours.over, 2];
    return null;
  }

  #hatch(slot, x, y, size) {
    const context = this.#context;
    context.save();
    box(context, x, y, size, size >= 12 ? Math.min(6, size / 5) : 1.5);
    context.clip();
    context.strokeStyle = this.#nodes.flags[slot] & NOT_READY ? this.#colours.bad : this.#colours.hatch;
    context.lineWidth = size >= 20 ? 2 : 1.5;
    context.beginPath();
    for (let at = -size; at < size; at += Math.max(4, size / 5)) {
      context.moveTo(x + at, y + size);
      context.lineTo(x + at + size, y);
    }
    context.stroke();
    context.restore();
  }

  // What people do

  #key(event) {
    if (!this.#place?.order.length || event.altKey || event.ctrlKey || event.metaKey) return;
    if (KEYS.has(event.key)) this.goTo(neighbour(this.#place, this.cursor, event.key));
    else if (event.key === "Enter" || event.key === " ") this.#open(this.cursor);
    else return;
    event.preventDefault();
  }

  #focused() {
    if (this.cursor < 0) this.cursor = this.#place?.order[0] ?? -1;
    this.goTo(this.cursor);
  }

  #at(event) {
    const bounds = this.#canvas.getBoundingClientRect();
    return this.#place && nodeAt(this.#place, event.clientX - bounds.left, event.clientY - bounds.top + this.#top);
  }

  #click(event) {
    const slot = this.#at(event);
    if (slot === undefined) return;
    this.goTo(slot);
    this.#open(slot);
  }

  #hover(event) {
    const slot = this.#at(event);
    this.#canvas.style.cursor = slot === undefined ? "" : "pointer";
    this.#tell(slot ?? this.cursor);
  }

  #tell(slot) {
    say(byId("readout"), slot >= 0 && this.#nodes.name[slot] ? this.describe(slot) : "");
  }

  /** A node in one line. */
  describe(slot) {
    const nodes = this.#nodes;
    const where = [nodes.zoneOf(slot), nodes.rackOf(slot)].filter(Boolean).join(", ");
    const resource = nodes.resources[this.resource];
    const [used, all] = [nodes.used(slot, this.resource), nodes.allocatable(slot, this.resource)];
    const of = all ? `${label(resource)} ${amount(used, resource)} of ${amount(all, resource)} (${percent(used / all)})` : `no ${label(resource)}`;
    const pods = nodes.resources.indexOf("pods");
    const parts = [nodes.name[slot], where, of, this.resource === pods ? "" : `${nodes.used(slot, pods)} pods`, ...nodes.states(slot)];
    return parts.filter(Boolean).join(" · ");
  }
}

function box(context, x, y, size, radius) {
  context.beginPath();
  context.roundRect(x, y, size, size, radius);
}

/** The text, cut so that it fits. */
function short(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = Math.max(1, Math.floor((text.length * room) / context.measureText(text).width) - 1);
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
