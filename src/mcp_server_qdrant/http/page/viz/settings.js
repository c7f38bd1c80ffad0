// The search settings; the address has those in use.

import { $, button, h, redraw } from "./dom.js";
import { swatch } from "./points.js";
import { choosing, chosen, collections, colour, known, LIMITS, PREFERENCES, setting, state } from "./state.js";

const ALGORITHMS = [["", "hybrid: meaning and keywords"], ["semantic", "semantic: meaning only"], ["keyword", "keyword: the words themselves"], ["fuzzy", "fuzzy: like spellings count too"]];
const MEANING = [["", "automatic"], ...Array.from({ length: 11 }, (_, n) => [String(n / 10), `${n * 10} %, keywords ${100 - n * 10} %`])];
const PRIORITIES = [["natural", "natural (off)"], ["soft", "soft"], ["medium", "medium"], ["hard", "hard"]];
const RESULTS = [["", "as many as fit"], ...LIMITS.map((n) => [n, `up to ${n}`])];
const TAGS = 14; // shown at first

/** The number of texts of a collection; unknown, not 0, if it did not answer in time. */
export const counted = (one) => (one.points || one.legs.length ? one.points.toLocaleString("en") : "–");

/** Draws all settings; `visit(change)` goes to another address. */
export function showSettings(visit) {
  const { defaults } = state.setup;
  const field = (title, properties, ...children) => h("fieldset", properties, h("legend", {}, title), ...children);
  const pair = (id, label, input, title) => h("div", { class: "pair", title }, h("label", { htmlFor: id }, label), input);
  const usual = (name) => (PREFERENCES.includes(name) ? String(defaults[name]) : "");
  const set = (name) => (value) => visit({ [name]: value === usual(name) ? "" : value });
  const select = (name, label, choices) => {
    const now = state.route[name] ?? usual(name);
    const options = choices.map(([value, said]) => h("option", { value, selected: value === now }, said));
    return pair(name, label, h("select", { id: name, onchange: ({ target }) => set(name)(target.value) }, options));
  };
  const slider = (name, label, max) => {
    const value = setting(name);
    const output = h("output", { htmlFor: name }, value.toFixed(2));
    const input = h("input", { type: "range", id: name, min: 0, max, step: max / 20, value, onchange: ({ target }) => set(name)(target.value) });
    input.addEventListener("input", () => (output.textContent = Number(input.value).toFixed(2)));
    return h("div", { class: "slider" }, h("label", { htmlFor: name }, label), input, output);
  };
  const box = (properties, checked, act) => h("input", { type: "checkbox", ...properties, checked, onchange: ({ target }) => act(target.checked) });
  const check = (name, label) => h("label", { class: "check" }, box({ id: name }, setting(name), (on) => set(name)(String(on))), label);
  redraw(
    $("#settings"),
    field("Search", {}, select("algorithm", "Algorithm", ALGORITHMS), select("meaning", "Meaning", MEANING), select("limit", "Results", RESULTS)),
    collectionBoxes(field, box, visit),
    tagBoxes(field, box, visit),
    field(
      "Ranking",
      {},
      select("priority", "Priority", PRIORITIES),
      h("p", { class: "hint" }, defaults.priority_order.length ? `Preferred: ${defaults.priority_order.join(", then ")}.` : "No collection is preferred by this server."),
      slider("recency_weight", "Recency", 1),
      slider("fuzzy_boost", "Spelling", 0.2),
      check("correct", "Correct typing errors"),
      check("rerank", "Rerank with a second model (slower)"),
    ),
    defaults.filters.length ? field("Filters", {}, defaults.filters.map((one) => filter(one, pair, visit))) : "",
  );
}

function collectionBoxes(field, box, visit) {
  const now = chosen();
  const choose = (names) => visit(choosing(names));
  const row = (one) =>
    h(
      "label",
      { class: "check", title: [one.legs.join(" + ") || "not searchable", one.model, one.note].filter(Boolean).join(" · ") },
      box({ id: `in-${one.name}` }, now.includes(one.name), (on) => choose(on ? [...now, one.name] : now.filter((name) => name !== one.name))),
      swatch(colour(one.name)),
      h("span", { class: "name" }, one.name),
      h("span", { class: "count" }, counted(one)),
    );
  const all = (label, names) => button(label, () => choose(names), { class: "link", id: `choose-${label}` });
  return field("Collections", { class: "collections" }, h("div", { class: "both" }, all("All", known()), all("None", [])), h("div", { class: "list" }, collections().map(row)));
}

/** The tags of the chosen collections, the most frequent first. */
function tagBoxes(field, box, visit) {
  const now = state.route.tag;
  const names = [...new Set([...now, ...chosen().flatMap((name) => state.tags[name] ?? [])])];
  const chip = (tag) => {
    const tagged = (on) => (on ? [...now, tag] : now.filter((one) => one !== tag));
    const choose = (on) => visit({ tag: tagged(on), view: state.route.q ? state.route.view : "texts" }); // or nothing would show it
    return h("label", { class: "chip" }, box({ id: `tag-${tag}` }, now.includes(tag), choose), h("span", {}, tag));
  };
  const list = h("div", { class: "chips" }, names.slice(0, TAGS).map(chip));
  const more = button(`${names.length - TAGS} more`, () => (list.replaceChildren(...names.map(chip)), more.remove()), { class: "link" });
  return field("Tags", { class: "tags", hidden: !names.length }, h("p", { class: "hint" }, "Only texts with one of these."), list, names.length > TAGS && more);
}

/** A filter that the server's operator configured. */
function filter({ name, description, field_type: type, condition, required }, pair, visit) {
  const many = condition === "any" || condition === "except";
  const one = (part) => (type === "integer" || type === "float" ? Number(part) : type === "boolean" ? part === "true" : part);
  const written = (text) => text && JSON.stringify(many ? text.split(",").map((part) => one(part.trim())) : one(text));
  const held = (state.route[`f.${name}`] ?? "").replace(/[[\]"]/g, "");
  const placeholder = many ? "by comma" : type === "boolean" ? "true or false" : "";
  const input = h("input", { id: `filter-${name}`, type: "text", required, value: held, placeholder, onchange: ({ target }) => visit({ [`f.${name}`]: written(target.value.trim()) }) });
  return pair(input.id, name, input, description);
}
