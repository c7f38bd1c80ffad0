// The page without a browser: words, reasons, addresses, judgements.

import assert from "node:assert/strict";
import test from "node:test";
import { clip, gone, key, plural, there } from "../../../../src/mcp_server_qdrant/http/page/viz/dom.js";
import { ago, old } from "../../../../src/mcp_server_qdrant/http/page/viz/home.js";
import { exported } from "../../../../src/mcp_server_qdrant/http/page/viz/judgements.js";
import { linkable } from "../../../../src/mcp_server_qdrant/http/page/viz/passage.js";
import { parts, reason, rounded, sentences } from "../../../../src/mcp_server_qdrant/http/page/viz/results.js";
import { asked, choosing, chosen, named, read, state, unset, used, without, written } from "../../../../src/mcp_server_qdrant/http/page/viz/state.js";
import { alike, excerpt, split, words } from "../../../../src/mcp_server_qdrant/http/page/viz/words.js";

const marked = (text, query) => split(text, query).filter(([, hit]) => hit).map(([part]) => part);

test("words of the query are found in any form, and common ones are not", () => {
  const text = "The backups of the planet were tested; a backup plan.";
  assert.deepEqual(marked(text, "the plans and the backup test"), ["backups", "tested", "backup", "plan"]);
  assert.deepEqual(marked("UPS batteries last", "how long does the battery of the UPS last"), ["UPS", "batteries", "last"]);
  assert.deepEqual(marked("noticing notices", "noticed"), ["noticing", "notices"]);
  assert.equal(split(text, "plan").map(([part]) => part).join(""), text);
  assert.deepEqual(words("The user's café, a x"), ["user's", "café"]);
  assert.deepEqual([alike("plan", "planet"), alike("tested", "test")], [false, true]);
});

test("an excerpt begins shortly before most words of the query, and ends between words", () => {
  const text = `${"filler ".repeat(100)}the backup of the photos ${"more ".repeat(60)}`;
  const shown = excerpt(text, "backup photos");
  assert.match(shown, /^…filler .*backup of the photos.*…$/);
  assert.ok(shown.length < 250);
  assert.equal(excerpt("short\n text", "x"), "short text");
  assert.deepEqual([clip("one two three", 9), clip("short", 9)], ["one two…", "short"]);
});

/** A result as the server explains it. */
const result = (why, more = {}) => ({ relevance: 0.53, title: "", text: "", why: { alpha: 0.5, meaning: 0, words: 0, score: 0.5, ...why }, ...more });

test("what was added to the relevance adds up to it", () => {
  assert.deepEqual(rounded([0.333, 0.333, 0.333], 1), [0.34, 0.33, 0.33]);
  const { meaning, words: keywords, gains, factors } = parts(result({ meaning: 0.51, words: 0.333, gains: { tags: 0.11 }, factors: { recency: 0.85, priority: 1 } }));
  assert.equal(Math.round((meaning + keywords + gains[0][1]) * 100), 53);
  assert.deepEqual(factors, [["recency", 0.85]]);
});

test("the reason for a rank is a sentence", () => {
  const both = result({ meaning: 0.5, words: 0.56 }, { title: "The outage", text: "nobody noticed" });
  assert.equal(reason(both, "outage noticed"), "both words, one in the title");
  assert.equal(reason(both, "outage noticed certificate"), "2 of 3 words, one in the title");
  assert.equal(reason(result({ meaning: 1.06 }), "outage"), "by meaning alone");
  assert.equal(reason(result({ words: 1.06, tags: ["tls"], factors: { priority: 1.5 } }, { text: "outage" }), "outage"), "the word; tagged tls; preferred: +50 %");
  const aged = result({ meaning: 1.06, factors: { recency: 0.85 } }, { date: new Date(Date.now() - 400 * 86_400_000).toISOString() });
  assert.equal(reason(aged, "x"), "by meaning alone; a year old: −15 %");
});

test("ages, numbers and notes are said as a person would", () => {
  const before = (seconds) => new Date(Date.now() - seconds * 1000);
  assert.deepEqual([ago(before(86_400)), ago(before(7_300)), old(before(3_700)), old(before(3 * 86_400))], ["yesterday", "2 hours ago", "an hour old", "3 days old"]);
  assert.deepEqual([plural(1, "match", "matches"), plural(1234, "text")], ["1 match", "1,234 texts"]);
  const said = sentences({ corrections: { bakup: "backup" }, notes: ["Weak."], rerank: { state: "failed", reason: "too slow" } });
  assert.deepEqual(said, ["“bakup” is not in these collections; searched for “backup”.", "Weak.", "Not reranked: too slow"]);
});

test("an address holds the route, and is read back", () => {
  const route = { in: ["a b", "c&d"], tag: [], q: "what? #1", layout: "3-D", at: "2.00 0.5", doc: "" };
  assert.deepEqual(read(written(route)), { in: ["a b", "c&d"], tag: [], q: "what? #1", layout: "3-D", at: "2.00 0.5" });
  assert.equal(written({ in: [], tag: [], q: "" }), "");
  assert.deepEqual(read(""), { in: [], tag: [] });
});

test("a search asks for what is chosen, and wrong addresses for what the server does by default", () => {
  const defaults = { priority: "soft", recency_weight: 0.15, fuzzy_boost: 0.1, correct: true, rerank: false, filters: [{ name: "year" }, { name: "bad" }] };
  state.setup = { defaults, collections: [{ name: "b" }, { name: "a" }] };
  state.route = read("q=x&in=a&in=gone&tag=t&meaning=0.7&limit=7&recency_weight=0.5&correct=false&f.year=2020&f.bad={");
  const usual = { priority: "soft", fuzzy_boost: 0.1, rerank: false };
  assert.deepEqual(asked(), { query: "x", algorithm: undefined, collections: ["a"], tags: ["t"], ...usual, recency_weight: 0.5, correct: false, semantic_weight: 0.7, keyword_weight: 0.3, year: 2020 });
  assert.deepEqual(used().map(([name]) => name), ["in", "in", "tag", "meaning", "limit", "recency_weight", "correct", "f.year", "f.bad"]);
  assert.deepEqual([without("tag", "t"), without("limit", "7")], [{ tag: [] }, { limit: "" }]);
  assert.equal(written({ ...state.route, ...unset() }), "q=x");

  state.route = read("q=x&only=1");
  state.chosen = { ids: ["7"] };
  assert.deepEqual([asked().ids, named()], [["7"], ["*"]]);
  for (const [names, found] of [[["a"], ["a"]], [[], []], [["a", "b"], ["a", "b"]]]) {
    state.route = { ...read(""), ...choosing(names) };
    assert.deepEqual(chosen(), found);
  }
});

test("thumbs are exported as eval reads them, without queries that nothing answers", () => {
  const entries = [{ query: "x", collections: ["*"], given: { "a\n1": ["1", 1], "a\n2": ["2", 0] } }, { query: "y", collections: ["a"], given: { "a\n3": ["3", 0] } }];
  assert.deepEqual(exported(entries), [{ query: "x", collections: ["*"], expect: { ids: { 1: 1, 2: 0 } } }]);
});

test("parts of a text are one text, which is there until it is deleted", () => {
  const [part, other] = [{ collection: "a", document: "d", id: "1" }, { collection: "a", id: "d" }];
  assert.equal(key(part), key(other));
  assert.ok(there(part));
  gone.add(key(other));
  assert.ok(!there(part));
  gone.clear();
});

test("only addresses of the web are links", () => {
  assert.deepEqual(["https://a.example/x", "http://a", "javascript:alert(1)", "data:text/html,x", "notes/a.md", ""].map(linkable), [true, true, false, false, false, false]);
});
