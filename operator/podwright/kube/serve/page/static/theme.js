// Light or dark: as the system says, or as somebody has chosen.

import { byId } from "./dom.js";

const KEY = "podwright-theme";

/** `changed`: called when the colours are others. */
export function startTheme(changed) {
  const select = byId("theme");
  const apply = () => {
    document.documentElement.dataset.theme = select.value;
    changed();
  };
  select.value = stored();
  select.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, select.value);
    } catch {
      // A browser that stores nothing forgets the choice.
    }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply();
}

function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return ["light", "dark"].includes(value) ? value : "";
  } catch {
    return "";
  }
}
