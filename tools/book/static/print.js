// Paper is white: what is printed has the light page's colours, whatever the reader has chosen.
const root = document.documentElement;
let chosen;
addEventListener("beforeprint", () => { chosen = root.dataset.theme; root.dataset.theme = "light"; });
addEventListener("afterprint", () => { root.dataset.theme = chosen; });
