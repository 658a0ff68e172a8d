// The policies, and the state of one of them.

import { byId, el, fill } from "./dom.js";
import { facts } from "./explanation.js";
import { clock } from "./units.js";

const STATES = { Active: "good", Shadow: "plain", "Built in": "plain", Rejected: "bad", Waits: "bad" };
const MEANINGS = {
  Active: "Its newest generation decides",
  Shadow: "Its decisions are compared with those of the scheduler that binds, and never carried out",
  "Built in": "Decides about pods that no policy matches",
  Rejected: "The newest generation was not accepted; an earlier one decides",
  Waits: "No generation was accepted; its pods wait",
};

export class Policies {
  #open;
  #box = byId("policies");
  #rows = new Map();
  #body = el("tbody");
  #more = el("p", { class: "quiet" });

  /** `open`: called with the key of a policy that somebody chooses. */
  constructor(open) {
    this.#open = open;
    const heads = ["Policy", "State", "Decisions", "Errors", "Precedence"];
    const head = el("tr", {}, heads.map((text, index) => el("th", { scope: "col", class: index > 1 ? "number" : null }, text)));
    const table = el("table", {}, el("caption", { class: "hidden" }, "Policies in the order in which they go first"), el("thead", {}, head), this.#body);
    fill(this.#box, [el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of policies" }, table), this.#more]);
  }

  take({ list, unlisted }) {
    const keys = new Set(list.map(([namespace, name]) => keyOf(namespace, name)));
    for (const [key, row] of this.#rows) if (!keys.has(key)) (row.line.remove(), this.#rows.delete(key));
    list.forEach((policy, index) => {
      const row = this.#row(policy);
      if (this.#body.children[index] !== row.line) this.#body.insertBefore(row.line, this.#body.children[index] || null);
    });
    fill(this.#more, [unlisted > 0 && `${unlisted} more, which are not listed here or which you may not see.`]);
  }

  #row([namespace, name, state, generation, message, precedence, scheduler, decisions, errors]) {
    const key = keyOf(namespace, name);
    let row = this.#rows.get(key);
    if (!row) {
      const cells = [el("td"), el("td", { class: "number" }), el("td", { class: "number" }), el("td", { class: "number" })];
      const button = el("button", { type: "button", class: "link", on: { click: () => this.#open(key) } }, name);
      const about = el("small");
      row = { cells, about, line: el("tr", {}, el("th", { scope: "row" }, button, about), cells) };
      this.#rows.set(key, row);
    }
    fill(row.about, [[namespace && `namespace ${namespace}`, scheduler && `for ${scheduler}`, generation ? `generation ${generation}` : ""].filter(Boolean).join(" · ")]);
    fill(row.cells[0], [badge(state), message && el("small", { class: "message" }, message)]);
    [decisions, errors, precedence ?? "–"].forEach((value, index) => fill(row.cells[index + 1], [value.toLocaleString("en")]));
    return row;
  }
}

const keyOf = (namespace, name) => (namespace ? `${namespace}/${name}` : name);
const badge = (state) => el("span", { class: `badge ${STATES[state] || "plain"}`, title: MEANINGS[state] }, state);

/** The state of one policy, from the path policy. */
export function policyDetails(found) {
  const faults = (found.faults || []).map(([at, text]) => el("li", {}, at && el("small", {}, `${clock(at)} `), text));
  return [
    el("section", {}, el("h3", {}, badge(found.state)), el("p", {}, MEANINGS[found.state]), facts([
      ["Decides", found.generation ? `generation ${found.generation}` : found.generation === 0 ? "" : "no generation"],
      ["Newest", found.newest ? `generation ${found.newest}` : ""],
      ["Decisions", found.decisions.toLocaleString("en")],
      ["Errors", found.errors ? found.errors.toLocaleString("en") : ""],
    ]), found.state !== "Active" && found.message && el("p", { class: "problem" }, found.message), found.problems.map((text) => el("p", { class: "problem" }, text))),
    faults.length > 0 && el("section", {}, el("h3", {}, "What went wrong last"), el("ul", { class: "plain-list" }, faults)),
    found.interpreted.length > 0 && el("section", {}, el("h3", {}, "Rules that are evaluated node by node"), facts(found.interpreted)),
    found.spec && el("section", {}, el("h3", {}, "The spec that decides"), el("pre", {}, el("code", {}, yaml(found.spec)))),
  ];
}

/** A value as YAML, to be read by people. */
function yaml(value, indent = "") {
  if (Array.isArray(value) && value.length) return value.map((each) => `${indent}- ${yaml(each, `${indent}  `).trimStart()}`).join("\n");
  if (value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) {
    return Object.entries(value).map(([key, each]) => {
      const nested = each && typeof each === "object" && Object.keys(each).length > 0;
      return nested ? `${indent}${key}:\n${yaml(each, Array.isArray(each) ? indent : `${indent}  `)}` : `${indent}${key}: ${yaml(each)}`;
    }).join("\n");
  }
  if (typeof value === "string" && value.includes("\n")) return `|\n${value.split("\n").map((line) => `${indent}  ${line}`).join("\n")}`;
  return typeof value === "string" && /^[\w./-]+$/.test(value) ? value : JSON.stringify(value);
}
