// The ranked results, each with a bar and a sentence that explain its rank.

import { button, clip, fixed, h, key, plural, sized, there } from "./dom.js";
import { old } from "./home.js";
import { judge, judged } from "./judgements.js";
import { colour, state } from "./state.js";
import { alike, excerpt, marked, words } from "./words.js";

const SAID = { verbatim: "the very words", neighbours: "beside a better one", priority: "preferred", fuzzy: "spelling" };

/** Parts rounded to hundredths so that they add up to the rounded whole. */
export function rounded(values, whole) {
  const exact = values.map((value) => Math.max(value, 0) * 100);
  const made = exact.map(Math.floor);
  let left = Math.round(fixed(whole) * 100) - made.reduce((sum, one) => sum + one, 0);
  const order = exact.map((value, n) => [value - made[n], n]).sort(([a], [b]) => b - a);
  for (const [, n] of order) if (left-- > 0) made[n] += 1;
  return made.map((value) => value / 100);
}

/** How much each kind of evidence added to the relevance, and the factors after it. */
export function parts({ why, relevance }) {
  const gains = Object.entries(why.gains ?? {});
  const given = [why.alpha * (why.meaning ?? 0), (1 - why.alpha) * (why.words ?? 0), ...gains.map(([, gain]) => gain)];
  const [meaning, words, ...more] = rounded(given, relevance);
  const factors = Object.entries(why.factors ?? {}).filter(([, factor]) => fixed(factor) !== "1.00");
  return { meaning, words, gains: gains.map(([name], n) => [name, more[n]]), factors };
}

/** A sentence on why the result ranks here. */
export function reason(one, query) {
  const { meaning, words: keywords, gains, factors } = parts(one);
  const wanted = [...new Set(words(query))];
  const held = (...texts) => wanted.filter((word) => texts.some((text) => words(text ?? "").some((other) => alike(other, word)))).length;
  const [titled, all] = [held(one.title), held(one.title, one.text)];
  const every = (count) => (count === 2 ? "both" : `all ${count}`);
  const where = titled ? `, ${titled === all && all > 1 ? (all === 2 ? "both" : "all") : titled === 1 ? "one" : titled} in the title` : "";
  const said = [];
  if (keywords && wanted.length === 1) said.push(titled ? "the word, in the title" : "the word");
  else if (keywords) said.push(all ? `${all === wanted.length ? every(all) : `${all} of ${wanted.length}`} words${where}` : "some of the words");
  if (meaning && !keywords) said.push("by meaning alone");
  else if (meaning > 2 * keywords) said.push("mostly by meaning");
  if (one.why.tags?.length) said.push(`tagged ${one.why.tags.join(", ")}`);
  said.push(...gains.map(([name, gain]) => gain && SAID[name]).filter(Boolean));
  for (const [name, factor] of factors) {
    const about = name === "recency" && one.date ? old(one.date) : (SAID[name] ?? name);
    said.push(`${about}: ${factor < 1 ? "−" : "+"}${Math.round(Math.abs(factor - 1) * 100)} %`);
  }
  return said.join("; ");
}

function figures(one, { meaning, words: keywords, gains, factors }) {
  const given = [`meaning ${fixed(meaning)}`, `keywords ${fixed(keywords)}`];
  given.push(...gains.map(([name, gain]) => `${name} ${fixed(gain)}`));
  const times = factors.map(([name, factor]) => `times ${name} ${fixed(factor)}`).join(", ");
  const reread = one.why.reranked == null ? "" : `, reranked ${fixed(one.why.reranked)}`;
  return `${given.join(" plus ")} is relevance ${fixed(one.relevance)}${reread}${times && `; ${times}`} gives score ${fixed(one.why.score)}`;
}

function bar(one, query) {
  const what = parts(one);
  const piece = (kind, share, title) =>
    share > 0 && sized(h("i", { class: kind, title: `${title} ${fixed(share)}` }), "width", `${share * 100}%`);
  const pieces = [piece("meaning", what.meaning, "meaning"), piece("words", what.words, "keywords"), what.gains.map(([name, gain]) => piece("gains", gain, name))];
  const said = figures(one, what);
  const drawn = h("span", { class: "bar", role: "img", "aria-label": said }, pieces);
  return h("details", { class: "why" }, h("summary", {}, h("span", { class: "reason" }, reason(one, query)), drawn), h("p", { class: "parts" }, said));
}

const UP = "M6.5 17.5h-3v-8h3m0 8v-8l3.2-6.3c1.3 0 2 .9 2 2.1V8h4.1c1 0 1.8 1 1.5 2l-1.6 6c-.2.9-1 1.5-1.9 1.5Z";
const DOWN = "M6.5 2.5h-3v8h3m0-8v8l3.2 6.3c1.3 0 2-.9 2-2.1V12h4.1c1 0 1.8-1 1.5-2l-1.6-6c-.2-.9-1-1.5-1.9-1.5Z";

const SVG = "http://www.w3.org/2000/svg";

function thumbs(one, name, judgedOne) {
  const thumb = (grade, path, said) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 20 20");
    svg.setAttribute("aria-hidden", "true");
    svg.appendChild(document.createElementNS(SVG, "path")).setAttribute("d", path);
    const act = () => {
      judge(one, grade);
      judgedOne();
    };
    return button(svg, act, { class: "icon thumb", id: `thumb${grade}-${key(one)}`, "aria-pressed": String(judged()[key(one)] === grade), "aria-label": said, title: said });
  };
  return h("span", { class: "thumbs" }, thumb(1, UP, `Answers the query: ${name}`), thumb(0, DOWN, `Does not answer the query: ${name}`));
}

/** The other collections with the same text. */
function copies(one) {
  const others = [...new Set(one.also_in.map(({ collection }) => collection))].filter((name) => name !== one.collection);
  return others.length ? `also in ${others.join(", ")}` : "stored more than once here";
}

/** One row of the list. `on`: open(one), point(one, or null when left), judged(). */
export function result(one, rank, on) {
  const name = one.title || clip(one.text ?? "", 60) || one.id;
  const { q: query } = state.route;
  const [enter, left] = [() => on.point(one), () => on.point(null)];
  const head = [
    sized(h("span", { class: "rank", "aria-hidden": "true" }, rank), "--colour", colour(one.collection)),
    h("h3", {}, button(name, () => on.open(one), { class: "open", dir: "auto", title: name })),
    h("span", { class: "relevance", title: "Score, which the list is sorted by" }, h("span", { class: "sr" }, "score "), fixed(one.why.score)),
  ];
  const where = [one.collection, one.date && ` · ${one.date}`, one.superseded_by && h("span", { class: "badge" }, "superseded"), one.also_in && ` · ${copies(one)}`];
  return h(
    "li",
    { class: "hit", dataset: { key: key(one), id: one.id, collection: one.collection }, onpointerenter: enter, onpointerleave: left, onfocusin: enter, onfocusout: left },
    h("div", { class: "head" }, head),
    h("p", { class: "where" }, where),
    h("p", { class: "excerpt", dir: "auto" }, marked(excerpt(one.text ?? "", query), query)),
    bar(one, query),
    thumbs(one, name, on.judged),
  );
}

export function about(answer) {
  const count = plural(answer.results.filter(there).length, "result");
  return `${count} in ${answer.ms < 10 ? fixed(answer.ms, 1) : Math.round(answer.ms)} ms`;
}

/** Corrections, notes and failed reranking of a search. */
export function sentences(answer) {
  const said = Object.entries(answer.corrections ?? {}).map(
    ([word, to]) => `“${word}” is not in these collections; searched for “${to}”.`,
  );
  said.push(...answer.notes);
  if (answer.rerank && answer.rerank.state !== "applied") said.push(`Not reranked: ${answer.rerank.reason}`);
  return said;
}
