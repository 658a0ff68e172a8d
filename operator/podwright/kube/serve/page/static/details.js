// What is known of one pod or node, in a drawer beside the page.

import { byId, el, fill } from "./dom.js";
import { explanation } from "./explanation.js";
import { nodeDetails } from "./node.js";
import { planDetails } from "./plans.js";
import { policyDetails } from "./policies.js";
import { searchResult } from "./search.js";
import { simulatedPod } from "./simulated_pod.js";
import { reason } from "./stream.js";

export class Details {
  /** Called when the drawer is closed. */
  closed = () => {};
  /** Whose pods are to be seen; "" for those of all namespaces. */
  namespace = "";
  /** Where nodes can be put into a hypothesis; null where nothing is simulated. */
  simulation = null;
  #server;
  #nodes;
  #box = byId("details");
  #body = byId("details-body");
  #from = null;
  #asked = 0;
  #slot = -1;

  constructor(server, nodes) {
    this.#server = server;
    this.#nodes = nodes;
    byId("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.#box.hidden && !document.querySelector("dialog[open]")) this.close();
    });
  }

  pod(namespace, name) {
    const query = new URLSearchParams({ namespace, pod: name });
    this.#slot = -1;
    this.#open(name, `Pod in namespace ${namespace}`);
    if (this.simulation) {
      this.#load(`pod?${new URLSearchParams({ namespace, name })}`, simulatedPod, () => el("p", {}, "This pod is not in the cluster as it was loaded."));
    } else this.#load(`../debug/explain?${query}`, (found) => explanation(found, namespace, name), () => explanation(null, namespace, name));
  }

  search(text) {
    this.#slot = -1;
    this.#open(text, "Pods and gangs with this in their names");
    this.#load(`search?${new URLSearchParams({ text, namespace: this.namespace })}`, (found) => searchResult(found, (...pod) => this.pod(...pod)), () => el("p", {}, "Nothing was found."));
  }

  policy(key) {
    this.#slot = -1;
    const [name, namespace] = key.split("/").reverse();
    this.#open(name, namespace ? `Local policy in namespace ${namespace}` : "Policy");
    this.#load(`policy?${new URLSearchParams({ name: key, namespace: this.namespace })}`, policyDetails, () => el("p", {}, "This policy is gone."));
  }

  plan(name) {
    this.#slot = -1;
    this.#open(name, "Rebalance policy");
    this.#box.classList.add("wide");
    const picture = (resource) => this.#server.picture(`picture?${new URLSearchParams({ name, resource })}`);
    this.#load(`plan?${new URLSearchParams({ name, namespace: this.namespace })}`, (found) => planDetails(found, picture), () => el("p", {}, "This policy is gone."));
  }

  node(slot) {
    const name = this.#nodes.name[slot];
    this.#slot = slot;
    this.#open(name, [this.#nodes.zoneOf(slot), this.#nodes.rackOf(slot)].filter(Boolean).join(", ") || "Node");
    this.#loadNode(name);
  }

  /** If the node that is shown has changed, it is loaded again, but not all the time. */
  nodesChanged(slots) {
    if (this.#slot < 0 || !slots.has(this.#slot) || this.#due) return;
    this.#due = setTimeout(() => {
      this.#due = 0;
      if (this.#slot >= 0 && !this.#body.contains(document.activeElement)) this.#loadNode(this.#nodes.name[this.#slot]);
    }, 2000);
  }

  #due = 0;

  #loadNode(name) {
    const open = (namespace, pod) => this.pod(namespace, pod);
    this.#load(`node?${new URLSearchParams({ name, namespace: this.namespace })}`, (found) => [this.simulation && this.#proposals(name), nodeDetails(found, open)], () => el("p", {}, "This node is gone."));
  }

  #proposals(name) {
    const button = (text, field) => el("button", { type: "button", on: { click: () => (this.close(), this.simulation.propose(field, name)) } }, text);
    return el("div", { class: "buttons" }, button("Drain it", "drain"), button("Remove it", "remove"), button("Add one like it", "like"));
  }

  close() {
    this.#box.hidden = true;
    this.#slot = -1;
    this.#asked += 1;
    this.closed();
    if (this.#from?.isConnected) this.#from.focus();
    this.#from = null;
  }

  #open(title, kind) {
    if (this.#box.hidden) this.#from = document.activeElement;
    const heading = byId("details-title");
    fill(heading, [title, el("small", {}, kind)]);
    fill(this.#body, [el("p", { class: "quiet" }, "Loading …")]);
    this.#box.hidden = false;
    this.#box.classList.remove("wide");
    this.#box.scrollTop = 0;
    heading.focus();
  }

  /** Shows what the path answers, unless something else was opened meanwhile. */
  async #load(path, show, missing) {
    const asked = (this.#asked += 1);
    let content;
    try {
      const answer = await this.#server.get(path);
      if (answer.ok) content = show(await answer.json());
      else if (answer.status === 404) content = missing();
      else content = el("p", { class: "problem" }, await reason(answer));
    } catch {
      content = el("p", { class: "problem" }, "The server does not answer.");
    }
    if (asked === this.#asked) fill(this.#body, [content]);
  }
}
