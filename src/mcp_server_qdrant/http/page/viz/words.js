// Finds words of a query in texts: in any inflection, but without stop words.

import { clip, h } from "./dom.js";

const STOP = new Set(
  `a about after all also am an and any are as at be been before but by can could did do does for from had has have he
  her his how i if in into is it its just me more most my no not of on one only or other our out over she should so some
  such than that the their them then there these they this those to up us was we were what when where which who whom why
  will with would you your aber als am an auch auf aus bei bin bis das dass dem den der des die doch du ein eine einem
  einen einer er es für hat ich ihr im in ist ja kann man mit nach nicht noch nur oder sich sie sind so über um und uns
  vom von vor war was wenn wer wie wir wird zu zum zur au aux avec ce ces dans de des du elle en est et il je la le les
  leur mais ne nous ou par pas pour que qui sa se ses son sont sur un une vous con como del el entre era es esta este
  la las lo los más no para pero por que se sin su sus una uno y ya`.split(/\s+/),
);
const ENDINGS = new Set(["", ..."s es e ed d ing er ers ly y ies en n em st te ten t'".split(" "), "'s", "’s"]);

export const words = (text = "") =>
  (text.toLowerCase().match(/[\p{L}\p{N}]+(?:['’]\p{L}+)?/gu) ?? []).filter((word) => word.length > 1 && !STOP.has(word));

/** True for forms of one word: a long common beginning, followed by endings. */
export function alike(one, other) {
  if (one === other) return true;
  let same = 0;
  while (same < one.length && one[same] === other[same]) same++;
  if (same < 3 || same < Math.max(one.length, other.length) / 2) return false;
  return ENDINGS.has(one.slice(same)) && ENDINGS.has(other.slice(same));
}

/** The word of the query that a word is a form of, if any. */
function finder(query) {
  const wanted = [...new Set(words(query))];
  const known = new Map();
  return (word) => {
    if (!known.has(word)) known.set(word, wanted.find((one) => alike(one, word)));
    return known.get(word);
  };
}

/** An excerpt of a text: begins shortly before the place with the most words of the query. */
export function excerpt(text, query, length = 240) {
  const whole = text.replace(/\s+/g, " ").trim();
  const hit = finder(query);
  const found = [...whole.matchAll(/[\p{L}\p{N}]+/gu)].map(({ 0: word, index }) => [hit(word.toLowerCase()), index]).filter(([word]) => word);
  const within = (from) => new Set(found.filter(([, at]) => at >= from && at < from + length).map(([word]) => word)).size;
  const [from] = found.map(([, at]) => [at, within(at)]).sort(([, one], [, other]) => other - one)[0] ?? [0];
  if (from < length * 0.75) return clip(whole, length);
  const begin = whole.indexOf(" ", from - length / 4) + 1;
  return `…${clip(whole.slice(begin), length)}`;
}

/** A text in pieces: pairs of the piece, and whether it is a word of the query. */
export function split(text, query) {
  const hit = finder(query);
  return text.split(/([\p{L}\p{N}]+(?:['’]\p{L}+)?)/u).map((part, place) => [part, Boolean(place % 2 && hit(part.toLowerCase()))]);
}

/** Marks the words of the query in a text: nodes, never HTML. */
export const marked = (text, query) => split(text, query).map(([part, hit]) => (hit ? h("mark", {}, part) : part));
