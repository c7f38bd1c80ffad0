// Ctrl-K: one line for search, texts to open, colours, regions, layouts and views.

import { $, h } from "./dom.js";

const SHOWN = 12; // of what fits

/** `commands`: { kind, name, act() }, the first ones first; `ask(words)` searches. */
export function showPalette(commands, ask) {
  const dialog = $("#palette");
  let [found, at] = [[], 0];
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "What fits" });
  const run = (one) => {
    dialog.close();
    one?.act();
  };
  const move = (to) => {
    at = Math.max(0, Math.min(to, found.length - 1));
    [...list.children].forEach((row, n) => row.setAttribute("aria-selected", String(n === at)));
    input.setAttribute("aria-activedescendant", found.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    const typed = input.value.trim();
    const words = typed.toLowerCase().split(/\s+/);
    const fits = ({ kind, name }) => words.every((word) => `${kind} ${name}`.toLowerCase().includes(word));
    found = commands.filter(fits).slice(0, SHOWN);
    if (typed) found.unshift({ kind: "Search for", name: typed, act: () => ask(typed) });
    const row = (one, n) =>
      h("li", { id: `palette-${n}`, role: "option", dir: "auto", onclick: () => run(one) }, h("span", { class: "where" }, one.kind), " ", one.name);
    list.replaceChildren(...found.map(row));
    move(0);
  };
  const input = h("input", {
    type: "text", role: "combobox", autocomplete: "off", placeholder: "Search, open, colour, go to a region",
    "aria-label": "Search, open, colour, go to a region", "aria-expanded": "true", "aria-controls": "palette-list",
    oninput: draw,
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) move(at + step);
      else if (event.key === "Enter") run(found[at]);
      else return;
      event.preventDefault();
    },
  });
  dialog.replaceChildren(input, list);
  draw();
  dialog.showModal();
}
