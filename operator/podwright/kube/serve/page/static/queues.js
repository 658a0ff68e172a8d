// The queues of teams as a tree: guarantee, share and use as bars, and who borrows what others lend.

import { byId, el, fill } from "./dom.js";
import { amount, label } from "./units.js";

/** How many queues that lend to one, or borrow from it, are named. */
const OTHERS = 3;

export class Queues {
  #card = byId("queues-card");
  #box = byId("queues");
  #select = byId("queue-resource");
  #last = { resources: [], list: [], unlisted: 0 };

  constructor() {
    this.#select.addEventListener("change", () => this.#draw());
  }

  take(data) {
    const before = this.#last.resources.join();
    this.#last = data;
    this.#card.hidden = data.list.length === 0;
    if (before !== data.resources.join()) {
      const chosen = data.resources.includes(this.#select.value) ? this.#select.value : data.resources[0];
      fill(this.#select, data.resources.map((resource) => el("option", { value: resource, selected: resource === chosen }, label(resource))));
    }
    this.#draw();
  }

  #draw() {
    const { resources, list, unlisted } = this.#last;
    const index = Math.max(0, resources.indexOf(this.#select.value));
    const resource = resources[index] || "";
    const of = (queue) => queue[5][index] || [0, 0, 0, null, []];
    // One scale for all queues, so that their bars can be compared. A limit far above everything does not count.
    const greatest = Math.max(1, ...list.map((queue) => Math.max(...of(queue).slice(0, 3))));
    const scale = Math.max(greatest, ...list.map((queue) => Math.min(of(queue)[3] ?? 0, 2 * greatest)));
    const heads = ["Queue", "Use", "Has", "Share", "Guarantee", "Limit", "Pods that wait"];
    const head = el("tr", {}, heads.map((text, column) => el("th", { scope: "col", class: column > 1 ? "number" : null }, text)));
    const top = this.#box.querySelector(".scroll")?.scrollTop || 0;
    fill(this.#box, [
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of queues" },
        el("table", {}, el("caption", { class: "hidden" }, `Queues and what they have of ${label(resource)}, each above the queues below it`),
          el("thead", {}, head), el("tbody", {}, list.map((queue) => row(queue, of(queue), resource, scale))))),
      unlisted > 0 && el("p", { class: "quiet" }, `${unlisted.toLocaleString("en")} more, which are not listed here.`),
    ]);
    this.#box.querySelector(".scroll").scrollTop = top;
  }
}

function row([name, depth, state, problem, waiting], [has, share, guarantee, limit, others], resource, scale) {
  const text = (value) => (value ? amount(value, resource) : "–");
  const borrowed = Math.max(0, has - guarantee);
  const above = Math.max(0, has - Math.max(share, guarantee));
  const notes = [
    borrowed > 0 && guarantee > 0 && el("small", {}, `${amount(borrowed, resource)} borrowed`),
    others.slice(0, OTHERS).map(([other, lent]) => el("small", { class: "other" }, `${amount(lent, resource)} ${has < guarantee ? "lent to" : "from"} ${other}`)),
    others.length > OTHERS && el("small", {}, `and ${others.length - OTHERS} more`),
    above > 0 && el("small", { class: "above" }, `${amount(above, resource)} above its share`),
  ];
  const badge = problem ? ["bad", "Invalid", problem] : state !== "Open" ? ["plain", state, "Its pods wait"] : null;
  return el("tr", {},
    el("th", { scope: "row", style: { "--depth": Math.min(depth, 12) } }, el("span", { class: "branch" }, name),
      badge && el("span", { class: `badge ${badge[0]}`, title: badge[2] }, badge[1]), problem && el("small", { class: "message" }, problem)),
    el("td", {}, bar(has, share, guarantee, limit, scale)),
    el("td", { class: "number" }, text(has), notes),
    el("td", { class: "number" }, text(share)),
    el("td", { class: "number" }, text(guarantee)),
    el("td", { class: "number" }, limit === null ? "–" : amount(limit, resource)),
    el("td", { class: "number" }, waiting ? waiting.toLocaleString("en") : "–"));
}

/** What a queue has: within its guarantee, borrowed within its share, and above it. A line marks its share, and a frame its limit. */
function bar(has, share, guarantee, limit, scale) {
  const part = (value) => `${Math.min(100, (100 * value) / scale)}%`;
  const fair = Math.max(share, guarantee);
  const parts = [
    ["within", Math.min(has, guarantee)],
    ["borrowed", Math.max(0, Math.min(has, fair) - guarantee)],
    ["above", Math.max(0, has - fair)],
  ];
  return el("div", { class: "use", "aria-hidden": "true" },
    limit !== null && el("span", { class: "limit", style: { width: part(limit) } }),
    el("span", { class: "promised", style: { width: part(guarantee) } }),
    el("span", { class: "parts" }, parts.map(([kind, value]) => value > 0 && el("span", { class: kind, style: { width: part(value) } }))),
    share > 0 && el("span", { class: "fair", style: { left: part(share) } }));
}
