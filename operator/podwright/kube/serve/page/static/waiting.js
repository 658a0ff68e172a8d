// The pods that wait: how many in each state, how old they are, and the oldest ones.

import { byId, el, fill, say } from "./dom.js";
import { duration } from "./units.js";

const PLACES = [
  ["active", "Active", "Wait for their turn"],
  ["in-flight", "In flight", "Are being tried or bound"],
  ["backoff", "Backoff", "Are tried again after a pause"],
  ["unschedulable", "Unschedulable", "No node fits; they wait for an event"],
  ["gated", "Gated", "Are held back"],
];
const AGES = ["under 10 s", "under 1 min", "under 10 min", "under 1 h", "older"];

export class Waiting {
  #open;
  #box = byId("queue");
  #data = { counts: {}, pods: [], seesPods: true };
  #place = "";
  #namespace = "";
  #bars = new Map();
  #list = el("ul", { class: "pods" });
  #note = el("p", { class: "quiet" });
  #items = new Map();

  /** `open`: called with the namespace and name of a pod that somebody chooses. */
  constructor(open) {
    this.#open = open;
    const rows = PLACES.map(([place, title, meaning]) => this.#row(place, title, meaning));
    const ages = AGES.map((age, index) => el("li", {}, el("span", { class: `age age-${index}`, "aria-hidden": "true" }), age));
    fill(this.#box, [el("div", { class: "places", role: "group", "aria-label": "Pods by state. Choose one to list only its pods" }, rows), el("ul", { class: "ages", "aria-label": "Ages" }, ages), this.#note, this.#list]);
  }

  get total() {
    return Object.values(this.#data.counts).flat().reduce((sum, count) => sum + count, 0);
  }

  /** What most of them wait for, in short. */
  get summary() {
    const sums = PLACES.map(([place, title]) => [(this.#data.counts[place] || []).reduce((sum, count) => sum + count, 0), title.toLowerCase()]);
    const [count, title] = sums.sort((one, other) => other[0] - one[0])[0];
    return count ? `${count.toLocaleString("en")} ${title}` : "";
  }

  take(data, namespace) {
    this.#data = data;
    this.#namespace = namespace;
    const most = Math.max(1, ...Object.values(data.counts).map((ages) => ages.reduce((sum, count) => sum + count, 0)));
    for (const [place] of PLACES) this.#draw(place, data.counts[place] || [], most);
    this.#drawList();
  }

  #row(place, title, meaning) {
    const bar = el("span", { class: "bar", "aria-hidden": "true" }, AGES.map((_, index) => el("span", { class: `age-${index}` })));
    const number = el("span", { class: "count" }, "0");
    const ages = el("span", { class: "hidden" });
    const click = () => {
      this.#place = this.#place === place ? "" : place;
      for (const [other, parts] of this.#bars) parts.button.setAttribute("aria-pressed", String(other === this.#place));
      this.#drawList();
    };
    const button = el("button", { type: "button", class: "place", title: meaning, "aria-pressed": "false", on: { click } }, el("span", { class: "name" }, title), bar, number, ages);
    this.#bars.set(place, { button, bar, number, ages });
    return button;
  }

  #draw(place, counts, most) {
    const { button, bar, number, ages } = this.#bars.get(place);
    const total = counts.reduce((sum, count) => sum + count, 0);
    counts.forEach((count, index) => (bar.children[index].style.width = `${(100 * count) / most}%`));
    say(number, total.toLocaleString("en"));
    say(ages, counts.map((count, index) => (count ? `, ${count} ${AGES[index]}` : "")).join(""));
    button.classList.toggle("empty", total === 0);
  }

  #drawList() {
    const { pods, seesPods } = this.#data;
    const mine = pods.filter((pod) => !this.#place || pod[2] === this.#place).sort((one, other) => other[3] - one[3]).slice(0, 40);
    const where = this.#namespace ? ` of namespace ${this.#namespace}` : "";
    let note = mine.length ? `The oldest${where}:` : `No pods${where} wait${this.#place ? " there" : ""}.`;
    if (!seesPods) note = this.#namespace ? `You may not list the pods of namespace ${this.#namespace}.` : "You may not list the pods of all namespaces. Name one of yours above.";
    say(this.#note, note);
    const keys = new Set(mine.map(([namespace, name]) => `${namespace}/${name}`));
    for (const [key, item] of this.#items) if (!keys.has(key)) this.#drop(key, item);
    const focused = document.activeElement;
    mine.forEach((pod, index) => {
      const item = this.#item(pod);
      if (this.#list.children[index] !== item.line) this.#list.insertBefore(item.line, this.#list.children[index] || null);
    });
    if (document.activeElement !== focused && this.#list.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** A line that has the focus stays until it has it no more. */
  #drop(key, item) {
    if (item.line.contains(document.activeElement)) {
      say(item.state, ", waits no more");
      item.line.classList.add("quiet");
      return;
    }
    item.line.remove();
    this.#items.delete(key);
  }

  /** The line of a pod, up to date. It stays the same element, so that it keeps the focus. */
  #item([namespace, name, place, age, , , why]) {
    const key = `${namespace}/${name}`;
    let item = this.#items.get(key);
    if (!item) {
      const [mark, more, when, state] = [el("span", { "aria-hidden": "true" }), el("small"), el("span"), el("span", { class: "hidden" })];
      const button = el("button", { type: "button", class: "pod", on: { click: () => this.#open(namespace, name) } },
        mark, el("span", { class: "who" }, el("b", {}, name), more), el("span", { class: "when" }, when, state));
      item = { line: el("li", {}, button), mark, more, when, state };
      this.#items.set(key, item);
    }
    item.line.classList.remove("quiet");
    item.mark.className = `mark ${place}`;
    say(item.more, [namespace, why].filter(Boolean).join(" · "));
    say(item.when, duration(age));
    say(item.state, `, ${place}`);
    return item;
  }
}
