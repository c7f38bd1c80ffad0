// The results and the query on a map.
import { channels, hex } from "./raster.js";

const PIN = 19; // pixels between the centres of two pins
const NAME = 25; // pixels from the centre of the star to that of its name
const NUMBERED = 5; // results whose pins have a number; the others are dots

export const numbered = ({ rank }) => rank <= NUMBERED;

/** Black or white, whichever is more readable on a colour. */
export function contrasting(colour) {
  const [r, g, b] = channels(hex(colour));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140 ? "#111" : "#fff";
}

/** The positions of the results and the query's star in this frame: { shown, star }. */
export function pinned(plot) {
  const { camera } = plot;
  const lens = camera.lens();
  const put = (one) => camera.screen(camera.spot(one), lens).slice(0, 2);
  const star = plot.query ? put(plot.query) : null;
  const shown = plot.hits.filter((hit) => plot.shows(hit));
  for (const hit of shown) [hit.own, hit.pin] = [put(hit), put(hit)];
  apart(shown.filter(numbered).map((hit) => hit.pin), star);
  return { shown, star };
}

/** Separates pins that overlap each other, or the star and its name. */
export function apart(pins, star) {
  const fixed = star ? [star, ...[-26, 0, 26].map((along) => [star[0] + along, star[1] + NAME])] : []; // and its name
  for (let round = 0; round < 8; round++) {
    pins.forEach((pin, n) => {
      for (const other of [...pins.slice(0, n), ...fixed]) {
        const [dx, dy] = [pin[0] - other[0], pin[1] - other[1]];
        const far = Math.hypot(dx, dy);
        if (far >= PIN) continue;
        const angle = far ? Math.atan2(dy, dx) : n * 2.4;
        const push = (PIN - far) / 2 + 0.5;
        pin[0] += Math.cos(angle) * push;
        pin[1] += Math.sin(angle) * push;
      }
    });
  }
}

/** Boxes that no name may cover: [left, top, right, bottom]. */
export function covered({ shown, star }) {
  const boxes = shown.map((hit) => {
    const [[x, y], far] = [hit.pin, numbered(hit) ? 9 : 5];
    return [x - far, y - far, x + far, y + far];
  });
  if (star) boxes.push([star[0] - 36, star[1] - 11, star[0] + 36, star[1] + 32]);
  return boxes;
}

/** Draws the pins, the best on top, then the query. */
export function paintPins(plot, { shown, star }) {
  const { context, active, accent, ink, font } = plot;
  if (star && active) line(context, star, active.pin, accent, [4, 4]);
  for (const hit of shown.toReversed()) {
    const { own, pin: [x, y] } = hit;
    if (Math.hypot(x - own[0], y - own[1]) > 6) line(context, own, hit.pin, hit.colour, []);
    disc(context, [x, y], (numbered(hit) ? 9 : 5) + (hit === active ? 3 : 0));
    context.fillStyle = hit.colour;
    context.fill();
    context.lineWidth = hit === active ? 3 : 1.5;
    context.strokeStyle = hit === active ? accent : ink;
    context.stroke();
    if (!numbered(hit)) continue;
    context.fillStyle = hit.on;
    context.font = `600 10px ${font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(hit.rank, x, y + 0.5);
    context.textBaseline = "alphabetic";
  }
  if (star) paintStar(plot, star);
}

export function disc(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

function line(context, from, to, colour, dashes) {
  context.setLineDash(dashes);
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
}

/** The query: a star, its name below. */
function paintStar({ context, accent, surface, font, width }, [x, y]) {
  context.beginPath();
  for (let corner = 0; corner < 10; corner++) {
    const [radius, angle] = [corner % 2 ? 5 : 11, (corner * Math.PI) / 5 - Math.PI / 2];
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
  context.fillStyle = accent;
  context.strokeStyle = surface;
  context.lineWidth = 3;
  context.stroke();
  context.fill();
  context.font = `600 12px ${font}`;
  context.textAlign = "center";
  context.lineWidth = 4;
  context.lineJoin = "round";
  const across = Math.max(36, Math.min(width - 36, x));
  context.strokeText("your query", across, y + NAME);
  context.fillText("your query", across, y + NAME);
}
