// The ranked results, with bars that say why each ranks there.

import { clip, fixed, h, plural, sized } from "./dom.js";
import { marked } from "./words.js";

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
      .filter(([, factor]) => fixed(factor) !== "1.00")
      .map(([name, factor]) => h("span", { class: "part factor" }, `${name} × ${fixed(factor)}`)),
    h("span", { class: "part" }, `relevance ${fixed(one.relevance)}`),
  ];
  return h(
    "details",
    { class: "why" },
    h(
      "summary",
      {},
      h("span", { class: "sr" }, "Why it ranks here"),
      h(
        "span",
        { class: "bar", role: "img", "aria-label": sentence(one, what) },
        piece("meaning", what.meaning, "meaning"),
        piece("words", what.words, "keywords"),
        what.gains.map(([name, gain]) => piece("gains", gain, name)),
      ),
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

/** Where the same text stands too, each collection once. */
function copies(one) {
  const others = [...new Set(one.also_in.map(({ collection }) => collection))].filter((name) => name !== one.collection);
  return others.length ? `also in ${others.join(", ")}` : "stored more than once here";
}

/** One line of the list. `on`: open, judge, point (the result, or null when left). */
function item(one, rank, { query, colour, grade, on }) {
  const name = one.title || clip(one.text ?? "", 60) || one.id;
  const element = h(
    "li",
    {
      class: "hit judged",
      dataset: { id: one.id, collection: one.collection },
      onpointerenter: () => on.point(one),
      onpointerleave: () => on.point(null),
    },
    h(
      "div",
      { class: "head" },
      sized(h("span", { class: "rank", "aria-hidden": "true" }, rank), "--colour", colour(one.collection)),
      h("h3", {}, h("button", { type: "button", class: "open", dir: "auto", title: name, onclick: () => on.open(one) }, name)),
      h(
        "span",
        { class: "relevance", title: "Score, which the list is sorted by" },
        h("span", { class: "sr" }, "score "),
        fixed(one.why?.score ?? one.relevance),
      ),
    ),
    h(
      "p",
      { class: "where" },
      one.collection,
      one.why?.tags?.length ? h("span", {}, ` · tagged ${one.why.tags.join(", ")}`) : "",
      one.date ? ` · ${one.date}` : "",
      one.superseded_by ? h("span", { class: "badge" }, "superseded") : "",
      one.also_in ? h("span", {}, ` · ${copies(one)}`) : "",
    ),
    h("p", { class: "excerpt", dir: "auto" }, marked(one.text ?? "", query)),
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
