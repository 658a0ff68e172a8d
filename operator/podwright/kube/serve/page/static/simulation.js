// Tries hypotheses on a cluster that `podwright simulate --serve` has loaded, and shows it before and after.

import { byId, el, fill, say } from "./dom.js";
import { reason } from "./stream.js";
import { amount, label, percent } from "./units.js";

const LISTED = 100;

export class Simulation {
  #server;
  #show;
  #blend;
  #open;
  #box = byId("simulation");
  #form = byId("what-if");
  #slider = byId("slider");
  #result = null;

  /** `show`: called with a result, or null when there is none any more; `blend`: with a number from 0, before, to 1, after. */
  constructor(server, { show, blend, open }) {
    this.#server = server;
    this.#show = show;
    this.#blend = blend;
    this.#open = open;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run();
    });
    this.#form.addEventListener("reset", () => this.#clear());
    this.#slider.addEventListener("input", () => this.#slide());
  }

  /** Whether the server simulates. */
  set offered(offered) {
    this.#box.hidden = !offered;
    if (offered) this.#clear();
  }

  get offered() {
    return !this.#box.hidden;
  }

  /** Puts a node into a field of the form. */
  propose(field, node) {
    const input = this.#form.elements[field];
    if (field === "like") {
      input.value = node;
      this.#form.elements.count.value ||= "1";
    } else input.value = [...new Set([...names(input.value), node])].join(", ");
    input.focus();
    this.#box.scrollIntoView({ block: "nearest" });
  }

  #hypothesis() {
    const { count, like, drain, remove, scale } = Object.fromEntries(new FormData(this.#form));
    const found = {};
    if (count || like) found.addNodes = [{ count: Number(count) || 1, like: like.trim() }];
    if (drain.trim()) found.drain = names(drain);
    if (remove.trim()) found.removeNodes = names(remove);
    if (scale.trim()) found.scale = names(scale);
    return found;
  }

  async #run() {
    say(byId("outcome"), "Simulating …");
    try {
      const answer = await this.#server.get("../v1/simulate", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ hypotheses: [this.#hypothesis()] }),
      });
      if (!answer.ok) throw new Error(await reason(answer));
      const [result] = (await answer.json()).results;
      if (result.error) throw new Error(result.error.replace(/^hypotheses\[0\](: |[.])?/, ""));
      this.#tell(result);
    } catch (error) {
      this.#reset();
      say(byId("outcome"), error.message);
      byId("outcome").classList.add("problem");
    }
  }

  #tell(result) {
    const { landed, pending, preempted } = result;
    const parts = [`${pods(landed.length)} ${landed.length === 1 ? "gets" : "get"} a node`, pending.length && `${pods(pending.length)} ${pending.length === 1 ? "stays" : "stay"} pending`, preempted.length && `${pods(preempted.length)} would be preempted`, result.complete ? "" : "there was no time for the others"];
    byId("outcome").classList.remove("problem");
    say(byId("outcome"), `${parts.filter(Boolean).join(", ")}. ${result.notes.join(" ")}`);
    this.#result = result;
    this.#show(result);
    fill(byId("simulated"), [totals(result.before, result.after), this.#lists(result)]);
    byId("before-after").hidden = false;
    this.#slider.value = 100;
    this.#slide();
  }

  #lists({ landed, pending, blockers }) {
    const item = (pod, more) => el("li", {}, el("button", { type: "button", class: "link", on: { click: () => this.#open(...split(pod)) } }, pod), " ", more);
    const list = (title, items, line) => items.length > 0 && el("details", {}, el("summary", {}, `${title} (${items.length.toLocaleString("en")})`),
      el("ul", { class: "plain-list" }, items.slice(0, LISTED).map(line), items.length > LISTED && el("li", { class: "quiet" }, `and ${items.length - LISTED} more`)));
    return el("div", { class: "lists" },
      list("Pods that stay pending", pending, (each) => item(each.pod, each.message)),
      list("Where pods go", landed, (each) => el("li", {}, el("b", {}, each.pod), each.cameFrom && ` from ${each.cameFrom}`, ` → ${each.node}`)),
      list("Evictions that kubectl drain would refuse", blockers, (each) => el("li", {}, el("b", {}, each.pod), ` on ${each.node}: ${each.why}`)));
  }

  #slide() {
    const share = Number(this.#slider.value) / 100;
    this.#slider.setAttribute("aria-valuetext", share === 0 ? "before" : share === 1 ? "after" : `${this.#slider.value}% of the way from before to after`);
    this.#blend(share);
  }

  /** The nodes have come again, as they were. */
  showAgain() {
    if (this.#result === null) return;
    this.#show(this.#result);
    this.#slide();
  }

  /** The nodes are other ones. */
  forget() {
    if (this.#result === null) return;
    this.#reset();
    say(byId("outcome"), "The cluster was loaded again. Simulate again to see what changes now.");
  }

  #clear() {
    this.#reset();
    say(byId("outcome"), "");
    byId("outcome").classList.remove("problem");
  }

  #reset() {
    byId("before-after").hidden = true;
    if (this.#result !== null) {
      this.#result = null;
      this.#show(null);
    }
  }
}

const names = (text) => text.split(/[\s,]+/).filter(Boolean);
const pods = (count) => `${count.toLocaleString("en")} ${count === 1 ? "pod" : "pods"}`;
const split = (key) => [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];

function totals(before, after) {
  const rows = [["Nodes", before.nodes, after.nodes], ["Empty nodes", before.emptyNodes, after.emptyNodes], ["Pods on nodes", before.pods, after.pods]]
    .map(([name, ...values]) => [name, ...values.map((value) => value.toLocaleString("en"))]);
  for (const resource of Object.keys(after.usage).filter((name) => name !== "pods").slice(0, 6)) {
    const cell = (usage) => (usage ? `${percent(usage.allocation)} of ${amount(usage.allocatable, resource)}` : "–");
    rows.push([`${label(resource)} requested`, cell(before.usage[resource]), cell(after.usage[resource])]);
  }
  return el("table", {}, el("caption", { class: "hidden" }, "The cluster before and after"),
    el("thead", {}, el("tr", {}, ["", "Before", "After"].map((text) => el(text ? "th" : "td", text ? { scope: "col" } : {}, text)))),
    el("tbody", {}, rows.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), cells.map((text, index) => el("td", { class: cells[0] !== cells[1] && index ? "changed" : null }, text))))));
}
