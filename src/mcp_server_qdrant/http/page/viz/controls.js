// The search settings: what a search asks for beside its words.

import { h, sized } from "./dom.js";
import { balanced, label, LEGS, shared } from "./weights.js";

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
  holder.replaceChildren(
    ...Object.entries(choices).map(([value, label]) =>
      h(
        "label",
        {},
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === String(chosen),
          onchange: () => changed(value),
        }),
        h("span", {}, label),
      ),
    ),
  );
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
    if (!this.automatic) link.weights = LEGS.map((leg) => this.weights[leg]).join(" ");
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
    const asked = {
      algorithm: this.algorithm,
      collections: this.named(),
      ...this.values,
      tags: [...this.tags],
    };
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
    return h("fieldset", {}, h("legend", {}, "Algorithm"), holder, about);
  }

  weighting() {
    this.sliders = {};
    this.meter = h("div", { class: "meter", "aria-hidden": "true" }, LEGS.map((leg) => h("i", { class: leg })));
    const automatic = h("input", {
      type: "checkbox",
      id: "automatic",
      checked: this.automatic,
      onchange: () => {
        this.automatic = automatic.checked;
        this.enable();
        this.changed();
      },
    });
    const rows = LEGS.map((leg) => {
      const output = h("output", { htmlFor: leg });
      const input = h("input", {
        type: "range",
        id: leg,
        min: 0,
        max: 1,
        step: 0.01,
        oninput: () => {
          this.weights = balanced(leg, Number(input.value));
          this.showWeights();
          this.changed();
        },
      });
      this.sliders[leg] = { input, output };
      return h("div", { class: "slider" }, h("label", { htmlFor: leg }, label(leg)), input, output);
    });
    const field = h(
      "fieldset",
      {},
      h("legend", {}, "Weights"),
      h("label", { class: "check" }, automatic, "Automatic"),
      (this.weightRows = h("div", { class: "rows" }, this.meter, rows)),
    );
    this.showWeights();
    this.enable();
    return field;
  }

  showWeights() {
    for (const leg of LEGS) {
      const { input, output } = this.sliders[leg];
      input.value = this.weights[leg];
      output.textContent = this.weights[leg].toFixed(2);
    }
    LEGS.forEach((leg, place) => sized(this.meter.children[place], "width", `${this.weights[leg] * 100}%`));
  }

  /** Weights that the algorithm does not use cannot be moved. */
  enable() {
    if (!this.sliders) return;
    this.weightRows.hidden = this.automatic;
    for (const leg of LEGS) {
      this.sliders[leg].input.disabled = this.algorithm !== "hybrid";
    }
  }

  collections() {
    const boxes = this.setup.collections.map((one) => {
      const box = h("input", {
        type: "checkbox",
        name: "collection",
        value: one.name,
        checked: this.chosen.has(one.name),
        onchange: () => {
          this.chosen[box.checked ? "add" : "delete"](one.name);
          this.showTags(this.allTags ?? {});
          this.redraw();
          this.changed();
        },
      });
      const swatch = sized(h("i", { class: "swatch" }), "background", this.colours(one.name));
      const about = [one.legs.join(" + ") || "not searchable", one.model, one.note].filter(Boolean);
      return h(
        "label",
        { class: "check", title: about.join(" · ") },
        box,
        swatch,
        h("span", { class: "name" }, one.name),
        h("span", { class: "count" }, counted(one)),
      );
    });
    const all = (checked) => () => {
      this.chosen = new Set(checked ? this.known : []);
      for (const label of boxes) label.firstChild.checked = checked;
      this.showTags(this.allTags ?? {});
      this.redraw();
      this.changed();
    };
    return h(
      "fieldset",
      { class: "collections" },
      h("legend", {}, "Collections"),
      h(
        "div",
        { class: "both" },
        h("button", { type: "button", class: "link", onclick: all(true) }, "All"),
        h("button", { type: "button", class: "link", onclick: all(false) }, "None"),
      ),
      h("div", { class: "list" }, boxes),
    );
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
    const chips = (shown) =>
      shown.map((tag) => {
        const box = h("input", {
          type: "checkbox",
          name: "tag",
          value: tag,
          checked: this.tags.has(tag),
          onchange: () => {
            this.tags[box.checked ? "add" : "delete"](tag);
            this.changed();
          },
        });
        return h("label", { class: "chip" }, box, h("span", {}, tag));
      });
    const first = names.filter((tag, place) => place < TAGS_SHOWN || this.tags.has(tag));
    const list = h("div", { class: "chips" }, chips(first));
    const more = h(
      "button",
      {
        type: "button",
        class: "link",
        onclick: () => {
          list.replaceChildren(...chips(names));
          more.remove();
        },
      },
      `${names.length - first.length} more`,
    );
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
    const slider = ([name, [label, max]]) => {
      const output = h("output", { htmlFor: name }, this.values[name].toFixed(2));
      const input = h("input", {
        type: "range",
        id: name,
        min: 0,
        max,
        step: max / 20,
        value: this.values[name],
        oninput: () => {
          this.values[name] = Number(input.value);
          output.textContent = this.values[name].toFixed(2);
          this.changed();
        },
      });
      return h("div", { class: "slider" }, h("label", { htmlFor: name }, label), input, output);
    };
    const check = ([name, label]) => {
      const box = h("input", {
        type: "checkbox",
        id: name,
        checked: this.values[name],
        onchange: () => {
          this.values[name] = box.checked;
          this.changed();
        },
      });
      return h("label", { class: "check" }, box, label);
    };
    return h(
      "fieldset",
      {},
      h("legend", {}, "Ranking"),
      h(
        "div",
        { class: "pair" },
        h("label", { htmlFor: "priority" }, "Priority"),
        this.select("priority", PRIORITIES, this.values.priority),
      ),
      h(
        "p",
        { class: "hint" },
        order.length ? `Preferred: ${order.join(", then ")}.` : "No collection is preferred by this server.",
      ),
      Object.entries(SLIDERS).map(slider),
      h(
        "div",
        { class: "pair" },
        h("label", { htmlFor: "limit" }, "Results"),
        this.select(
          "limit",
          { "": "as many as fit", ...Object.fromEntries(LIMITS.map((n) => [n, `up to ${n}`])) },
          this.values.limit ?? "",
          (value) => (value ? Number(value) : null),
        ),
      ),
      Object.entries(CHECKS).map(check),
    );
  }

  select(name, choices, chosen, read = (value) => value) {
    const element = h(
      "select",
      {
        id: name,
        onchange: () => {
          this.values[name] = read(element.value);
          this.changed();
        },
      },
      // "" sorts first only when it is written first
      Object.entries(choices)
        .sort(([a], [b]) => (a === "" ? -1 : b === "" ? 1 : 0))
        .map(([value, label]) => h("option", { value, selected: value === String(chosen) }, label)),
    );
    return element;
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
      return h("div", { class: "pair", title: description }, h("label", { htmlFor: input.id }, name), input);
    });
    return h("fieldset", {}, h("legend", {}, "Filters"), rows);
  }

  mapping() {
    const select = h(
      "select",
      {
        id: "points-drawn",
        onchange: () => {
          this.points = Number(select.value);
          this.redraw();
        },
      },
      POINTS.map((n) => h("option", { value: n, selected: n === this.points }, `up to ${n.toLocaleString("en")}`)),
    );
    return h(
      "fieldset",
      {},
      h("legend", {}, "Map"),
      h("div", { class: "pair" }, h("label", { htmlFor: "points-drawn" }, "Points"), select),
    );
  }
}
