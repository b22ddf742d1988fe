// Paper is white, and nothing on it opens: what is printed has the light page's colours and its folds open, whatever the
// reader has chosen. What a figure shows in words stays folded: the figure is there.
const root = document.documentElement;
let chosen, opened;
addEventListener("beforeprint", () => {
    chosen = root.dataset.theme;
    root.dataset.theme = "light";
    opened = [...document.querySelectorAll("details:not([open], .cell_output *)")];
    opened.forEach(fold => { fold.open = true; });
});
addEventListener("afterprint", () => {
    root.dataset.theme = chosen;
    opened.forEach(fold => { fold.open = false; });
});
