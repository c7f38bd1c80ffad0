// The search settings: what a search asks for beside its words.

import { h } from "./dom.js";
import { swatch } from "./points.js";

const ALGORITHMS = {
  hybrid: "Meaning and keywords together",
  semantic: "Meaning only, by embedding",
  keyword: "The words themselves, BM25",
  fuzzy: "Keywords and near spellings",
};
const PRIORITIES = { natural: "natural (off)", soft: "soft", medium: "medium", hard: "hard" };
// Preferences of the server that a search may change, as sliders: label and maximum.
const SLIDERS = { recency_weight: ["Recency", 1], fuzzy_boost: ["Spelling", 0.2] };
const CHECKS = { correct: "Correct typing errors", rerank: "Rerank with a second model (slower)" };
const PREFERENCES = ["priority", ...Object.keys(SLIDERS), ...Object.keys(CHECKS)];
export const LIMITS = [5, 10, 20, 50, 100];
const POINTS = [1000, 3000, 10000, 30000, 100000];
const NONE = "-"; // no collection
const USUAL_POINTS = 10000; // all of most stores
const TAGS_SHOWN = 14;

/** How many texts a collection has; one that did not answer in time has not none. */
export const counted = (one) => (one.points || one.legs.length ? one.points.toLocaleString("en") : "–");

/** One of several, as buttons in a row. */
export function segmented(holder, name, choices, chosen, changed) {
  const one = ([value, label]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === String(chosen), onchange: () => changed(value) }), h("span", {}, label));
  holder.replaceChildren(...Object.entries(choices).map(one));
}

/** The weights for a share of meaning, in hundredths, so that what is shown is what is sent. */
const shared = (meaning) => {
  const hundredths = Math.round(Math.min(Math.max(meaning, 0), 1) * 100);
  return { semantic_weight: hundredths / 100, keyword_weight: (100 - hundredths) / 100 };
};

const field = (title, properties, ...children) => h("fieldset", properties, h("legend", {}, title), ...children);
const pair = (id, label, input, title) => h("div", { class: "pair", title }, h("label", { htmlFor: id }, label), input);
const checkbox = (properties, checked, act) => {
  const box = h("input", { type: "checkbox", ...properties, checked, onchange: () => act(box.checked) });
  return box;
};

/** A row with a label, a slider and what it is set to. */
function slider(id, label, max, value, act) {
  const output = h("output", { htmlFor: id }, value.toFixed(2));
  const input = h("input", { type: "range", id, min: 0, max, step: max > 0.5 ? 0.01 : max / 20, value, oninput: () => {
    output.textContent = Number(input.value).toFixed(2);
    act(Number(input.value));
  } });
  return h("div", { class: "slider" }, h("label", { htmlFor: id }, label), input, output);
}

function select(id, choices, chosen, act) {
  const element = h("select", { id, onchange: () => act(element.value) }, choices.map(([value, label]) => h("option", { value, selected: String(value) === String(chosen) }, label)));
  return element;
}

export class Controls {
  /** `changed` is called after any setting of a search did, `redraw` where the map's own did. */
  constructor(form, changed, redraw) {
    this.form = form;
    this.changed = changed;
    this.redraw = redraw;
    this.algorithm = "hybrid";
    this.automatic = true;
    this.weights = shared(0.5);
    this.chosen = null; // names of collections; null: not known yet
    this.tags = new Set();
    this.values = { limit: null, priority: null };
    this.filters = {};
    this.points = USUAL_POINTS;
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** The settings of the server, and its collections. */
  build(setup, colours) {
    const { defaults, collections } = setup;
    this.setup = setup;
    this.colours = colours;
    const names = collections.map(({ name }) => name);
    const known = this.known ?? [];
    // A collection that is new since is chosen; what was unchosen stays so.
    this.chosen = new Set(names.filter((name) => !known.includes(name) || this.chosen.has(name)));
    this.known = names;
    if (this.values.priority === null) {
      for (const name of PREFERENCES) this.values[name] = defaults[name];
      this.weights = shared(defaults.alpha);
    }
    this.draw();
  }

  draw() {
    const { defaults } = this.setup;
    this.form.replaceChildren(
      this.algorithms(),
      this.weighting(),
      this.collections(),
      (this.tagHolder = h("fieldset", { class: "tags", hidden: true })),
      this.ranking(defaults),
      this.operators(defaults.filters),
      this.mapping(),
    );
    this.showTags(this.allTags ?? {});
  }

  /** What differs from the server's own settings, by the names that the address has for it. */
  link() {
    const { defaults } = this.setup;
    const link = { in: this.named()[0] === "*" ? [] : this.chosen.size ? this.named() : [NONE], tag: [...this.tags] };
    if (this.algorithm !== "hybrid") link.algorithm = this.algorithm;
    if (!this.automatic) link.weights = Object.values(this.weights).join(" ");
    for (const name of ["limit", ...PREFERENCES]) {
      if (this.values[name] !== (name === "limit" ? null : defaults[name])) link[name] = String(this.values[name]);
    }
    for (const [name, value] of Object.entries(this.filters)) if (value !== "") link[`f.${name}`] = JSON.stringify(value);
    if (this.points !== USUAL_POINTS) link.points = String(this.points);
    return link;
  }

  /** Takes the settings of an address; what it does not name is as the server has it. */
  follow(route) {
    const { defaults } = this.setup;
    this.algorithm = route.algorithm in ALGORITHMS ? route.algorithm : "hybrid";
    const weights = (route.weights ?? "").split(" ").map(Number);
    this.automatic = !(weights.length === 2 && weights.every((one) => one >= 0) && weights[0] + weights[1] <= 1.001);
    this.weights = shared(this.automatic ? defaults.alpha : weights[0]);
    const wanted = (route.in ?? []).filter((name) => this.known.includes(name));
    this.chosen = new Set(wanted.length || route.in?.includes(NONE) ? wanted : this.known);
    this.tags = new Set(route.tag ?? []);
    this.values.limit = LIMITS.includes(Number(route.limit)) ? Number(route.limit) : null;
    for (const name of PREFERENCES) {
      const [usual, said] = [defaults[name], route[name]];
      const read = typeof usual === "number" ? Number(said) : typeof usual === "boolean" ? said === "true" : said;
      this.values[name] = said === undefined || Number.isNaN(read) ? usual : read;
    }
    this.points = POINTS.includes(Number(route.points)) ? Number(route.points) : USUAL_POINTS;
    this.filters = {};
    for (const { name } of defaults.filters) {
      try {
        if (route[`f.${name}`] !== undefined) this.filters[name] = JSON.parse(route[`f.${name}`]);
      } catch {
        delete this.filters[name]; // an address that somebody mistyped
      }
    }
    this.draw();
  }

  /** What a search asks for, beside its words, as the server wants it. */
  asked() {
    const asked = { algorithm: this.algorithm, collections: this.named(), ...this.values, tags: [...this.tags] };
    if (!this.automatic) Object.assign(asked, this.weights);
    for (const [name, value] of Object.entries(this.filters)) if (value !== "") asked[name] = value;
    return asked;
  }

  /** How many points the chosen collections have. */
  total() {
    return this.setup.collections.reduce((sum, one) => sum + (this.chosen.has(one.name) ? one.points : 0), 0);
  }

  /** The chosen collections; `["*"]` for all. */
  named() {
    return this.chosen.size === this.known.length ? ["*"] : [...this.chosen].sort();
  }

  /** Sets one of the values of a search. */
  set(name, value) {
    this.values[name] = value;
    this.changed();
  }

  algorithms() {
    const holder = h("div", { class: "segmented wide" });
    const about = h("p", { class: "hint" }, ALGORITHMS[this.algorithm]);
    const choices = Object.fromEntries(Object.keys(ALGORITHMS).map((name) => [name, name]));
    segmented(holder, "algorithm", choices, this.algorithm, (value) => {
      this.algorithm = value;
      about.textContent = ALGORITHMS[value];
      this.enable();
      this.changed();
    });
    return field("Algorithm", {}, holder, about);
  }

  /** One slider: what meaning gains, keywords lose. */
  weighting() {
    const others = h("p", { class: "hint" });
    const show = () => (others.textContent = `Keywords have the other ${this.weights.keyword_weight.toFixed(2)}.`);
    const row = slider("semantic_weight", "Meaning", 1, this.weights.semantic_weight, (meaning) => {
      this.weights = shared(meaning);
      show();
      this.changed();
    });
    const automatic = checkbox({ id: "automatic" }, this.automatic, (on) => {
      this.automatic = on;
      this.enable();
      this.changed();
    });
    this.weightRows = h("div", { class: "rows" }, row, others);
    show();
    this.enable();
    return field("Weights", {}, h("label", { class: "check" }, automatic, "Automatic"), this.weightRows);
  }

  /** Weights that the algorithm does not use cannot be moved. */
  enable() {
    if (!this.weightRows) return;
    this.weightRows.hidden = this.automatic;
    this.weightRows.querySelector("input").disabled = this.algorithm !== "hybrid";
  }

  collections() {
    const choose = (names) => {
      this.chosen = new Set(names);
      boxes.forEach((label) => (label.firstChild.checked = this.chosen.has(label.firstChild.value)));
      this.showTags(this.allTags ?? {});
      this.redraw();
      this.changed();
    };
    const boxes = this.setup.collections.map((one) => {
      const about = [one.legs.join(" + ") || "not searchable", one.model, one.note].filter(Boolean);
      return h(
        "label",
        { class: "check", title: about.join(" · ") },
        checkbox({ name: "collection", value: one.name }, this.chosen.has(one.name), (on) => choose([...this.chosen, one.name].filter((name) => on || name !== one.name))),
        swatch(this.colours(one.name)),
        h("span", { class: "name" }, one.name),
        h("span", { class: "count" }, counted(one)),
      );
    });
    const all = (label, names) => h("button", { type: "button", class: "link", onclick: () => choose(names) }, label);
    return field("Collections", { class: "collections" }, h("div", { class: "both" }, all("All", this.known), all("None", [])), h("div", { class: "list" }, boxes));
  }

  /** The tags of the chosen collections, the most widespread first. */
  showTags(tags) {
    this.allTags = tags;
    if (!this.tagHolder) return;
    const spread = new Map();
    for (const name of this.chosen) {
      for (const tag of tags[name] ?? []) spread.set(tag, (spread.get(tag) ?? 0) + 1);
    }
    for (const tag of this.tags) if (!spread.has(tag)) spread.set(tag, 0);
    const names = [...spread.keys()].sort((a, b) => spread.get(b) - spread.get(a) || a.localeCompare(b));
    const chip = (tag) => {
      const box = checkbox({ name: "tag", value: tag }, this.tags.has(tag), (on) => {
        this.tags[on ? "add" : "delete"](tag);
        this.changed();
      });
      return h("label", { class: "chip" }, box, h("span", {}, tag));
    };
    const first = names.filter((tag, place) => place < TAGS_SHOWN || this.tags.has(tag));
    const list = h("div", { class: "chips" }, first.map(chip));
    const grow = () => {
      list.replaceChildren(...names.map(chip));
      more.remove();
    };
    const more = h("button", { type: "button", class: "link", onclick: grow }, `${names.length - first.length} more`);
    this.tagHolder.hidden = !names.length;
    this.tagHolder.replaceChildren(
      h("legend", {}, "Tags"),
      h("p", { class: "hint" }, "Only texts with one of these."),
      list,
      names.length > first.length ? more : "",
    );
  }

  ranking(defaults) {
    const order = defaults.priority_order;
    const { values } = this;
    const limits = [["", "as many as fit"], ...LIMITS.map((n) => [n, `up to ${n}`])];
    return field(
      "Ranking",
      {},
      pair("priority", "Priority", select("priority", Object.entries(PRIORITIES), values.priority, (value) => this.set("priority", value))),
      h("p", { class: "hint" }, order.length ? `Preferred: ${order.join(", then ")}.` : "No collection is preferred by this server."),
      Object.entries(SLIDERS).map(([name, [label, max]]) => slider(name, label, max, values[name], (value) => this.set(name, value))),
      pair("limit", "Results", select("limit", limits, values.limit ?? "", (value) => this.set("limit", value ? Number(value) : null))),
      Object.entries(CHECKS).map(([name, label]) => h("label", { class: "check" }, checkbox({ id: name }, values[name], (on) => this.set(name, on)), label)),
    );
  }

  /** The filters that the operator of the server configured. */
  operators(filters) {
    if (!filters.length) return "";
    const rows = filters.map(({ name, description, field_type: type, condition, required }) => {
      const many = condition === "any" || condition === "except";
      const read = (text) => {
        if (text === "") return "";
        const one = (part) =>
          type === "integer" || type === "float" ? Number(part) : type === "boolean" ? part === "true" : part;
        return many ? text.split(",").map((part) => one(part.trim())) : one(text);
      };
      const input = h("input", {
        id: `filter-${name}`,
        type: "text",
        required,
        value: [this.filters[name] ?? ""].flat().join(", "),
        placeholder: many ? "by comma" : type === "boolean" ? "true or false" : "",
        onchange: () => {
          this.filters[name] = read(input.value.trim());
          this.changed();
        },
      });
      return pair(input.id, name, input, description);
    });
    return field("Filters", {}, rows);
  }

  mapping() {
    const choices = POINTS.map((n) => [n, `up to ${n.toLocaleString("en")}`]);
    const points = select("points-drawn", choices, this.points, (value) => {
      this.points = Number(value);
      this.redraw();
    });
    return field("Map", {}, pair("points-drawn", "Points", points));
  }
}
