// Runs before the page is drawn, so that it does not flash in the other theme.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => {
    try {
      return localStorage.getItem("viz-theme");
    } catch {
      return null; // storage is switched off: the system's theme
    }
  };
  const apply = () => {
    root.dataset.theme = kept() ?? (system.matches ? "dark" : "light");
    document.dispatchEvent(new Event("theme"));
  };
  system.addEventListener("change", apply);
  globalThis.toggleTheme = () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("viz-theme", next);
      apply();
    } catch {
      root.dataset.theme = next;
      document.dispatchEvent(new Event("theme"));
    }
  };
  apply();
})();
