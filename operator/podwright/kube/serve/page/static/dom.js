// Builds elements. Text is only ever put in as text, so names and messages of objects cannot become markup.

/** An element with attributes and children. `on` has listeners; a child that is a string is text; null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "class") element.className = value;
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, children);
  return element;
}

/** Replaces the children of an element. */
export function fill(element, children) {
  const nodes = [children].flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...nodes.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
}

export const byId = (id) => document.getElementById(id);

/** Sets the text of an element, unless it has it: screen readers hear only what changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
