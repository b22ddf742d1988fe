// The contrast of every piece of text inside `elements`, as WCAG defines it, in the colours that are seen: grounds and
// opacities of all that a text stands in are laid over each other. Returns [ratio, text] pairs, the ratio 0 where the
// ground is a picture or a gradient and cannot be told.
// https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
(elements) => {
    const colour = (text) => {
        const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
        return { rgb: [red, green, blue], alpha };
    };
    const mix = (below, above, alpha) => below.map((value, i) => value + (above[i] - value) * alpha);
    const luminance = (rgb) => {
        const linear = (value) => (value <= 10.31475 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        const [red, green, blue] = rgb.map(linear);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    // What is seen where `styles`, from the outermost element to the innermost, end in text, or in bare ground.
    const seen = (styles, below, text) => {
        const [style, ...inner] = styles;
        const ground = colour(style.backgroundColor);
        const filled = mix(below, ground.rgb, ground.alpha);
        const letters = colour(style.color);
        const last = text ? mix(filled, letters.rgb, letters.alpha) : filled;
        const content = inner.length ? seen(inner, filled, text) : last;
        return mix(below, content, Number(style.opacity));
    };
    const found = [];
    for (const element of elements) {
        const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const node = walker.currentNode;
            const text = node.textContent.trim();
            if (!text || !node.parentElement.checkVisibility()) continue;
            const styles = [];
            for (let parent = node.parentElement; parent; parent = parent.parentElement) {
                styles.unshift(getComputedStyle(parent));
            }
            const plain = styles.every((style) => style.backgroundImage === "none");
            const canvas = [255, 255, 255];
            const lights = [seen(styles, canvas, true), seen(styles, canvas, false)].map(luminance);
            found.push([plain ? (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05) : 0, text]);
        }
    }
    return found;
}
