// The weights of a search: none negative, together at most 1.

const NAMES = { semantic_weight: "Meaning", keyword_weight: "Keywords" };
export const LEGS = Object.keys(NAMES);
export const label = (leg) => NAMES[leg];

/** The weights for a share of meaning. */
export const shared = (meaning) => {
  const hundredths = Math.round(meaning * 100);
  return { semantic_weight: hundredths / 100, keyword_weight: (100 - hundredths) / 100 };
};

/**
 * The weights after one of them was moved: where the sum would pass 1, the others give way in
 * proportion. In hundredths, so that what is shown is what is sent.
 */
export function balanced(weights, moved, value) {
  const set = { ...weights, [moved]: Math.round(Math.min(Math.max(value, 0), 1) * 100) / 100 };
  const others = LEGS.filter((leg) => leg !== moved);
  const rest = Math.round((1 - set[moved]) * 100);
  const taken = others.reduce((sum, leg) => sum + Math.round(set[leg] * 100), 0);
  if (taken <= rest) return set;
  for (const leg of others) {
    set[leg] = Math.floor((Math.round(set[leg] * 100) * rest) / taken) / 100;
  }
  return set;
}

export const total = (weights) =>
  LEGS.reduce((sum, leg) => sum + Math.round(weights[leg] * 100), 0) / 100;
