// The ranked results, with bars that say why each ranks there.

import { fixed, h, marked, plural, sized } from "./dom.js";

/** The part of the relevance that each kind of evidence gave, and the factors after it. */
export function parts(why) {
  const meaning = why.meaning == null ? 0 : why.alpha * why.meaning;
  const words = why.words == null ? 0 : (1 - why.alpha) * why.words;
  const gains = Object.entries(why.gains ?? {});
  return { meaning, words, gains, factors: Object.entries(why.factors ?? {}) };
}

function sentence(one, { meaning, words, gains, factors }) {
  const given = [`meaning ${fixed(meaning)}`, `keywords ${fixed(words)}`];
  given.push(...gains.map(([name, gain]) => `${name} ${fixed(gain)}`));
  const times = factors.map(([name, factor]) => `times ${name} ${fixed(factor)}`).join(", ");
  const reread = one.why.reranked == null ? "" : `, reranked ${fixed(one.why.reranked)}`;
  return `${given.join(" plus ")} is relevance ${fixed(one.relevance)}${reread}${times && `; ${times}`} gives score ${fixed(one.why.score)}`;
}

function bar(one) {
  const what = parts(one.why);
  const piece = (kind, share, title) =>
    share > 0.0005 && sized(h("i", { class: kind, title: `${title} ${fixed(share)}` }), "width", `${share * 100}%`);
  const chips = [
    h("span", { class: "part meaning" }, `meaning ${fixed(what.meaning)}`),
    h("span", { class: "part words" }, `keywords ${fixed(what.words)}`),
    ...what.gains.map(([name, gain]) => h("span", { class: "part gains" }, `${name} ${fixed(gain)}`)),
    one.why.reranked != null && h("span", { class: "part" }, `reranked ${fixed(one.why.reranked)}`),
    ...what.factors
      .filter(([, factor]) => Math.abs(factor - 1) >= 0.0005)
      .map(([name, factor]) => h("span", { class: "part factor" }, `${name} × ${fixed(factor)}`)),
    h("span", { class: "part score" }, `score ${fixed(one.why.score)}`),
  ];
  return h(
    "div",
    { class: "why" },
    h(
      "div",
      { class: "bar", role: "img", "aria-label": sentence(one, what) },
      piece("meaning", what.meaning, "meaning"),
      piece("words", what.words, "keywords"),
      what.gains.map(([name, gain]) => piece("gains", gain, name)),
    ),
    h("p", { class: "parts" }, chips),
  );
}

function thumb(up, pressed, label, judged) {
  const path = up
    ? "M6.5 17.5h-3v-8h3m0 8v-8l3.2-6.3c1.3 0 2 .9 2 2.1V8h4.1c1 0 1.8 1 1.5 2l-1.6 6c-.2.9-1 1.5-1.9 1.5Z"
    : "M6.5 2.5h-3v8h3m0-8v8l3.2 6.3c1.3 0 2-.9 2-2.1V12h4.1c1 0 1.8-1 1.5-2l-1.6-6c-.2-.9-1-1.5-1.9-1.5Z";
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.appendChild(document.createElementNS(svg.namespaceURI, "path")).setAttribute("d", path);
  return h(
    "button",
    {
      type: "button",
      class: "icon thumb",
      "aria-pressed": String(pressed),
      "aria-label": label,
      title: label,
      onclick: judged,
    },
    svg,
  );
}

/** Both thumbs of one result. */
export function thumbs(name, grade, judged) {
  return h(
    "span",
    { class: "thumbs" },
    thumb(true, grade === 1, `Answers the query: ${name}`, () => judged(1)),
    thumb(false, grade === 0, `Does not answer the query: ${name}`, () => judged(0)),
  );
}

/** One line of the list. `on`: open, judge, point (the result, or null when left). */
function item(one, rank, { query, colour, grade, on }) {
  const name = one.title || one.text.slice(0, 60) || one.id;
  const element = h(
    "li",
    {
      class: "hit",
      dataset: { id: one.id, collection: one.collection },
      onpointerenter: () => on.point(one),
      onpointerleave: () => on.point(null),
    },
    h(
      "div",
      { class: "head" },
      sized(h("span", { class: "rank", "aria-hidden": "true" }, rank), "--colour", colour(one.collection)),
      h("h3", {}, h("button", { type: "button", class: "open", onclick: () => on.open(one) }, name)),
      h(
        "span",
        { class: "relevance", title: "Relevance, 0 to 1" },
        h("span", { class: "sr" }, "relevance "),
        fixed(one.relevance),
      ),
    ),
    h(
      "p",
      { class: "where" },
      one.collection,
      one.why?.tags?.length ? h("span", {}, ` · tagged ${one.why.tags.join(", ")}`) : "",
      one.also_in ? h("span", {}, ` · also in ${one.also_in.map((o) => o.collection).join(", ")}`) : "",
    ),
    h("p", { class: "excerpt" }, marked(one.text, query)),
    one.why ? bar(one) : "",
    thumbs(name, grade, (given) => on.judge(one, given)),
  );
  element.addEventListener("focusin", () => on.point(one));
  element.addEventListener("focusout", () => on.point(null));
  return element;
}

export function showResults(list, results, context) {
  list.replaceChildren(
    ...results.map((one, place) =>
      item(one, place + 1, { ...context, grade: context.grades[one.id] }),
    ),
  );
}

export function about(answer) {
  const count = plural(answer.results.length, "result");
  return `${count} in ${answer.ms < 10 ? fixed(answer.ms, 1) : Math.round(answer.ms)} ms`;
}

/** What the search wants known: corrections, notes, what became of reranking. */
export function sentences(answer) {
  const said = Object.entries(answer.corrections ?? {}).map(
    ([word, to]) => `“${word}” is not in these collections; searched for “${to}”.`,
  );
  said.push(...answer.notes);
  if (answer.rerank && answer.rerank.state !== "applied") said.push(`Not reranked: ${answer.rerank.reason}`);
  return said;
}
