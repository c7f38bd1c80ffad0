// The comparison as a picture: a column of ranks for each algorithm, lines between the same results.

import { clip, fixed, h, key, sized } from "./dom.js";
import { thumbs } from "./results.js";

const SHOWN = 10; // ranks of each algorithm
const ROW = 46; // pixels; as in style.css
const GAP = 60;

/** The lines from one column to the next, `places` of each: key -> rank from 0. */
function lines(left, right) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "lines");
  svg.setAttribute("viewBox", `0 0 ${GAP} ${SHOWN * ROW}`);
  svg.setAttribute("aria-hidden", "true");
  for (const [name, from] of left) {
    if (!right.has(name)) continue;
    const [y, z] = [from, right.get(name)].map((place) => place * ROW + ROW / 2);
    const path = svg.appendChild(document.createElementNS(svg.namespaceURI, "path"));
    path.setAttribute("d", `M0 ${y} C${GAP / 2} ${y} ${GAP / 2} ${z} ${GAP} ${z}`);
    path.dataset.key = name;
    path.dataset.step = z < y ? "up" : z > y ? "down" : "level";
  }
  return svg;
}

/** `on`: grades, colour(collection), open(hit), judge(hit, grade). */
export function picture(rows, { grades, colour, open, judge }) {
  const columns = rows.map(({ hits }) => new Map(hits.slice(0, SHOWN).map((hit, place) => [key(hit), place])));
  const many = new Map();
  for (const { hits } of rows) for (const hit of hits) many.set(key(hit), (many.get(key(hit)) ?? 0) + 1);
  const holder = h("div", { class: "ranks", tabIndex: 0, role: "group", "aria-label": "Ranks by each algorithm" });
  const light = (name) => {
    for (const one of holder.querySelectorAll("[data-key]")) one.classList.toggle("lit", one.dataset.key === name);
  };
  const cell = (hit, place) => {
    const alone = many.get(key(hit)) === 1;
    const name = hit.title || hit.id;
    const item = h(
      "li",
      { class: `judged${alone ? " alone" : ""}`, dataset: { key: key(hit) }, onpointerenter: () => light(key(hit)), onpointerleave: () => light(null) },
      sized(h("span", { class: "rank" }, place + 1), "--colour", colour(hit.collection)),
      h("button", { type: "button", class: "open", dir: "auto", title: `${name}, relevance ${fixed(hit.relevance)}`, onclick: () => open(hit) }, clip(name, 60)),
      alone ? h("span", { class: "badge", title: "No other algorithm finds it" }, "only here") : "",
      thumbs(name, grades[key(hit)], (grade) => judge(hit, grade)),
    );
    item.addEventListener("focusin", () => light(key(hit)));
    return item;
  };
  rows.forEach((row, place) => {
    if (place) holder.append(lines(columns[place - 1], columns[place]));
    holder.append(
      h(
        "div",
        { class: "column" },
        h("h3", {}, row.algorithm),
        row.error ? h("p", { class: "hint" }, row.error) : h("ol", {}, row.hits.slice(0, SHOWN).map(cell)),
      ),
    );
  });
  return holder;
}
