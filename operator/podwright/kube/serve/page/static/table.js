// The nodes as a table: the same as the map, for screen readers and for everybody who likes numbers. One page of it at a time.

import { byId, el, fill } from "./dom.js";
import { amount, byName, label, percent } from "./units.js";

const ROWS = 50;

export class NodeTable {
  #nodes;
  #open;
  #box = byId("table-view");
  #page = 0;
  #by = "name";
  #down = false;
  #found = null;
  #due = 0;
  resource = 0;

  constructor(nodes, open) {
    this.#nodes = nodes;
    this.#open = open;
  }

  get shown() {
    return !this.#box.hidden;
  }

  set shown(shown) {
    this.#box.hidden = !shown;
    if (shown) this.draw();
  }

  /** Only the nodes in `found`; null: all. */
  show(found) {
    this.#found = found;
    this.#page = 0;
    if (this.shown) this.draw();
  }

  /** Something has changed: the table follows within a second, unless somebody is in it. */
  update() {
    if (!this.shown || this.#due) return;
    this.#due = setTimeout(() => {
      this.#due = 0;
      if (this.shown && !this.#box.contains(document.activeElement)) this.draw();
    }, 1000);
  }

  draw() {
    const nodes = this.#nodes;
    const slots = nodes.slots().filter((slot) => !this.#found || this.#found.has(slot));
    const share = (slot) => nodes.share(slot, this.resource) || 0;
    const keys = {
      name: (one, other) => byName(nodes.name[one], nodes.name[other]),
      zone: (one, other) => byName(nodes.zoneOf(one), nodes.zoneOf(other)) || byName(nodes.rackOf(one), nodes.rackOf(other)),
      share: (one, other) => share(one) - share(other),
    };
    slots.sort(keys[this.#by]);
    if (this.#down) slots.reverse();
    const pages = Math.max(1, Math.ceil(slots.length / ROWS));
    this.#page = Math.min(this.#page, pages - 1);
    const part = slots.slice(this.#page * ROWS, (this.#page + 1) * ROWS);
    const resource = nodes.resources[this.resource] || "";
    const head = [this.#head("name", "Node"), this.#head("zone", "Zone and rack"), this.#head("share", label(resource)), el("th", { scope: "col", class: "number" }, "Pods"), el("th", { scope: "col" }, "State")];
    const caption = `${slots.length} nodes, ${part.length ? this.#page * ROWS + 1 : 0} to ${this.#page * ROWS + part.length}`;
    fill(this.#box, [
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes as a table" },
        el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, part.map((slot) => this.#row(slot, resource))))),
      pages > 1 && el("nav", { class: "pages", "aria-label": "Pages of the table" },
        this.#turn("Previous", -1, this.#page === 0), el("span", {}, `Page ${this.#page + 1} of ${pages}`), this.#turn("Next", 1, this.#page === pages - 1)),
    ]);
  }

  #head(key, text) {
    const active = this.#by === key;
    const sort = active ? (this.#down ? "descending" : "ascending") : null;
    const click = () => {
      this.#down = active ? !this.#down : key === "share";
      this.#by = key;
      this.draw();
      this.#box.querySelector(`[data-key=${key}]`).focus();
    };
    return el("th", { scope: "col", "aria-sort": sort }, el("button", { type: "button", class: "plain", "data-key": key, on: { click } }, text, active && el("span", { "aria-hidden": "true" }, this.#down ? " ▾" : " ▴")));
  }

  #turn(text, step, disabled) {
    const click = () => {
      this.#page += step;
      this.draw();
      this.#box.querySelector(".scroll").focus();
    };
    return el("button", { type: "button", disabled, on: { click } }, text);
  }

  #row(slot, resource) {
    const nodes = this.#nodes;
    const [used, all] = [nodes.used(slot, this.resource), nodes.allocatable(slot, this.resource)];
    const where = [nodes.zoneOf(slot), nodes.rackOf(slot)].filter(Boolean).join(", ");
    return el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", on: { click: () => this.#open(slot) } }, nodes.name[slot])),
      el("td", {}, where || "–"),
      el("td", { class: "meter-cell" }, all ? [meter(used / all), `${percent(used / all)} `, el("span", { class: "quiet" }, `${amount(used, resource)} of ${amount(all, resource)}`)] : "none"),
      el("td", { class: "number" }, Math.round(nodes.used(slot, nodes.resources.indexOf("pods")))),
      el("td", {}, nodes.states(slot).join(", ") || "ready"));
  }
}

/** A bar for a share. The number is beside it, as text. */
export function meter(share) {
  const bar = el("span", { class: "meter", "aria-hidden": "true" }, el("span"));
  bar.firstChild.style.width = `${Math.min(100, Math.max(0, share * 100 || 0))}%`;
  if (share > 1) bar.classList.add("over");
  return bar;
}
