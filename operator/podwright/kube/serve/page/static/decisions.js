// The last decisions, the newest first. Screen readers hear a sentence about them now and then, not each.

import { byId, el, fill, say } from "./dom.js";
import { clock } from "./units.js";

const MOST = 80;
const NEWS_SECONDS = 15;
const SYMBOLS = { Placed: "✓", Rejected: "–", Failed: "!" };
const NONE = () => el("li", { class: "quiet none" }, "No decisions yet.");

export class Decisions {
  #open;
  #list = byId("decisions");
  #times = [];
  #news = { Placed: 0, Rejected: 0, Failed: 0 };
  #first = true;

  constructor(open) {
    this.#open = open;
    setInterval(() => this.#tell(), NEWS_SECONDS * 1000);
    setInterval(() => this.#rate(), 1000);
    fill(this.#list, [NONE()]);
  }

  /** The stream begins again. */
  reset() {
    this.#first = true;
  }

  take({ list, unlisted }) {
    if (this.#first) fill(this.#list, []);
    const now = Date.now();
    this.#times.push([now, list.length + unlisted, this.#first]);
    if (!this.#first) list.forEach(([, outcome]) => (this.#news[outcome] += 1));
    this.#first = false;
    const scrolled = this.#list.scrollTop;
    const before = this.#list.scrollHeight;
    if (unlisted > 0) this.#list.prepend(el("li", { class: "quiet" }, `and ${unlisted.toLocaleString("en")} more`));
    for (const decision of list) this.#list.prepend(this.#item(decision));
    if (!this.#list.children.length) fill(this.#list, [NONE()]);
    else if (list.length) this.#list.querySelector(".none")?.remove();
    const lines = [...this.#list.children].slice(MOST);
    for (const line of lines) if (!line.contains(document.activeElement)) line.remove();
    if (scrolled > 0) this.#list.scrollTop = scrolled + this.#list.scrollHeight - before;
    this.#rate();
  }

  #item([at, outcome, namespace, name, node, policy, message]) {
    const click = () => this.#open(namespace, name);
    const fate = outcome === "Placed" ? ["→ ", el("b", {}, node)] : message || (node ? `nominated to ${node}` : "");
    return el("li", {}, el("button", { type: "button", class: `decision ${outcome.toLowerCase()}`, on: { click } },
      el("span", { class: "symbol", "aria-hidden": "true" }, SYMBOLS[outcome] || "?"),
      el("span", { class: "who" },
        el("span", { class: "line" }, el("span", { class: "hidden" }, `${outcome}: `), el("b", {}, name), " ", el("span", { class: "fate" }, fate)),
        el("small", {}, [namespace, policy.replace(/@\d+$/, "")].filter(Boolean).join(" · "))),
      el("time", { datetime: new Date(at * 1000).toISOString() }, clock(at))));
  }

  #rate() {
    const now = Date.now();
    this.#times = this.#times.filter(([at]) => at > now - 10_000);
    const count = this.#times.reduce((sum, [, each, first]) => sum + (first ? 0 : each), 0);
    say(byId("decision-rate"), count ? `${(count / 10).toFixed(1)} a second` : "");
  }

  #tell() {
    const news = Object.entries(this.#news).filter(([, count]) => count);
    const text = news.map(([outcome, count]) => `${count} ${outcome.toLowerCase()}`).join(", ");
    if (text) say(byId("decision-news"), `In the last ${NEWS_SECONDS} seconds: ${text}`);
    Object.keys(this.#news).forEach((outcome) => (this.#news[outcome] = 0));
  }
}
