// The comparison of all algorithms for one query, and the judgements given in the page.

import { download, fixed, h, percent, sized } from "./dom.js";
import { count, exported, precision } from "./judgements.js";

const COLUMNS = {
  Algorithm: "",
  Results: "",
  "Mean relevance": "of the results, from 0 to 1",
  "Time, ms": "of one search, its query embedded before",
  "Overlap with hybrid": "the part of its results that hybrid has too",
  Precision: "of the results with a thumb, those with a thumb up",
  "First result": "",
};

const measured = (share, text) =>
  h("span", { class: "measure" }, text, sized(h("i", { "aria-hidden": "true" }), "--share", share));

/** The table; `grades` maps the ids that were judged for this query to 1 or 0. */
export function table(rows, query, grades) {
  const slowest = Math.max(...rows.map((row) => row.ms ?? 0), 1);
  const body = rows.map((row) => {
    const right = precision(row.hits, grades);
    if (row.error) {
      return h("tr", {}, h("th", { scope: "row" }, row.algorithm), h("td", { colSpan: 6 }, row.error));
    }
    const names = Object.keys(COLUMNS).slice(1);
    const cells = [
      h("td", { class: "number" }, row.results),
      h("td", {}, row.mean_relevance == null ? "–" : measured(row.mean_relevance, fixed(row.mean_relevance))),
      h("td", {}, measured(row.ms / slowest, fixed(row.ms, 1))),
      h("td", {}, row.overlap == null ? "–" : measured(row.overlap, percent(row.overlap))),
      h("td", {}, right ? `${percent(right.right / right.of)} (${right.right} of ${right.of})` : "–"),
      h("td", { class: "first", dir: "auto" }, row.hits[0] ? row.hits[0].title || row.hits[0].id : "–"),
    ];
    cells.forEach((cell, place) => (cell.dataset.label = names[place]));
    return h("tr", { dataset: { algorithm: row.algorithm } }, h("th", { scope: "row" }, row.algorithm), cells);
  });
  return h(
    "div",
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Figures of each algorithm" },
    h(
      "table",
      { class: "stacked" },
      h("caption", { dir: "auto" }, `“${query}”`),
      h(
        "thead",
        {},
        h("tr", {}, Object.entries(COLUMNS).map(([name, title]) => h("th", { scope: "col", title }, name))),
      ),
      h("tbody", {}, body),
    ),
  );
}

/** How much was judged, with its export; `cleared` after all was thrown away. */
export function judgementsLine(cleared) {
  const { queries, up, all } = count();
  if (!all) return [h("p", { class: "hint" }, "No thumbs given yet.")];
  const ready = exported().length;
  const said =
    `${all} judged (${up} up) for ${queries === 1 ? "one query" : `${queries} queries`}.` +
    (ready < queries ? " Queries without a thumb up are left out of the export." : "");
  return [
    h("p", {}, said),
    h(
      "button",
      { type: "button", id: "export", disabled: !ready, onclick: save },
      "Export for mcp-server-qdrant eval",
    ),
    h("button", { type: "button", class: "link", onclick: cleared }, "Forget them"),
  ];
}

const save = () => download(new Blob([JSON.stringify(exported(), null, 1)], { type: "application/json" }), "queries.json");
