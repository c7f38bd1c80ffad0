// What page and app show about points: the tooltip, the texts in the middle of some, the legend.
import { button, clip, fixed, h, plural, sized, there } from "./dom.js";
import { shape } from "./raster.js";

const LONGEST = 56; // characters of a title; the map has at most 60

/** A swatch; `form` is the shape of the points, which differs from the ninth collection on. */
export const swatch = (colour, form = 0) => sized(h("i", { class: `swatch form${form}` }), "background", colour);

/** "30", or "12 of 30" if not all are drawn. */
export const drawnOf = (count, total) => `${count < total ? `${count.toLocaleString("en")} of ` : ""}${total.toLocaleString("en")}`;

export const size = ({ count, groups }) => `${drawnOf(count, groups.reduce((sum, { total }) => sum + total, 0))} points`;

/** Shows the tooltip beside what is pointed at. */
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

/** The collections of a plot as buttons that hide and show their points; `hidden` is a set of names. */
export function collectionKeys(plot, colour, hidden) {
  return plot.panel.groups.map(({ collection, count, total }, place) => {
    const toggle = (event) => {
      if (!hidden.delete(collection)) hidden.add(collection);
      event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(collection)));
      plot.hide(hidden);
    };
    const label = [swatch(colour(collection), shape(place)), collection, h("span", { class: "count" }, ` ${drawnOf(count, total)}`)];
    return h("li", {}, button(label, toggle, { class: "toggle", "aria-pressed": String(!hidden.has(collection)) }));
  });
}
