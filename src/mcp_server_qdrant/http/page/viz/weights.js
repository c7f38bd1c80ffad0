// The weights of a search: what one of them gains, the other loses. Together they are 1.

const NAMES = { semantic_weight: "Meaning", keyword_weight: "Keywords" };
export const LEGS = Object.keys(NAMES);
export const label = (leg) => NAMES[leg];

/** The weights for a share of meaning, in hundredths, so that what is shown is what is sent. */
export const shared = (meaning) => {
  const hundredths = Math.round(Math.min(Math.max(meaning, 0), 1) * 100);
  return { semantic_weight: hundredths / 100, keyword_weight: (100 - hundredths) / 100 };
};

/** The weights after one of them was moved. */
export const balanced = (moved, value) => shared(moved === "semantic_weight" ? value : 1 - value);
