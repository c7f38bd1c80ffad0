// What page and app say alike of points: the tip beside the one pointed at, the texts in the middle of some.

import { button, clip, fixed, h, plural, sized, there } from "./dom.js";

const LONGEST = 56; // of a title: the map has no more than 60 characters

/** A colour; with the shape that the points have, from the ninth collection on another one. */
export const swatch = (colour, form = 0) => sized(h("i", { class: `swatch form${form}` }), "background", colour);

/** Shows what is pointed at, beside it. */
export function showTip(tip, plot, found, x, y, colour) {
  tip.hidden = !found;
  if (!found) return;
  const { region } = found;
  const one = region ? null : (found.hit ?? plot.panel.about(found.point));
  const rank = one?.rank ? ` · no. ${one.rank}, relevance ${fixed(one.relevance)}` : "";
  tip.replaceChildren(
    h("strong", {}, region ? region.words.slice(0, 6).join(", ") : one.title || one.id),
    h("p", { class: "where" }, region ? `${plural(region.size, "point")}. Click for its documents.` : [swatch(colour(one.collection)), one.collection, rank]),
    one ? h("p", { class: "excerpt" }, one.snippet) : "",
  );
  const [card, canvas] = [tip.offsetParent, plot.canvas].map((element) => element.getBoundingClientRect());
  const [left, top] = [canvas.left - card.left + x, canvas.top - card.top + y];
  const below = top + 16 + tip.offsetHeight < card.height;
  sized(tip, "left", `${Math.max(8, Math.min(left + 16, card.width - tip.offsetWidth - 8))}px`);
  sized(tip, "top", `${below ? top + 16 : Math.max(8, top - tip.offsetHeight - 16)}px`);
}

/** The texts in the middle of some points, each title once, as buttons. */
export function typicalTexts(plot, points, count, open) {
  const found = plot.typical(points, count * 4).map((point) => plot.panel.about(point)).filter(there);
  const different = found.filter(({ title }, n) => n === found.findIndex((one) => one.title === title)).slice(0, count);
  return h("ul", {}, different.map((one) => h("li", {}, button(clip(one.title || one.id, LONGEST), () => open(one), { class: "open", dir: "auto" }))));
}
