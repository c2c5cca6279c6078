// Light or dark: the setting of the system, or the user's choice in this browser.

const KEY = "shardmill.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const theme = () => chosen() || (dark.matches ? "dark" : "light");

export function applyTheme() {
  document.documentElement.dataset.theme = theme();
  window.dispatchEvent(new Event("themechange"));
}

export function toggleTheme() {
  try {
    localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark");
  } catch {
    // the browser keeps nothing for this page
  }
  applyTheme();
}

/** The value of a design token, for drawings on a canvas. */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

dark.addEventListener("change", applyTheme);
