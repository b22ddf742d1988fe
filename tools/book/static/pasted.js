// Above what the search finds by words: the page of the index of errors to which a pasted message belongs. ERRORS has a
// part of each message that does not change, as `page_for` in course_utils/why/pages.py has; spaces and line ends, of
// which a field of one line loses some, do not count.
addEventListener("DOMContentLoaded", () => {
    const squeezed = text => text.replace(/\s+/g, "");
    const said = squeezed(new URLSearchParams(location.search).get("q") ?? "");
    const found = ERRORS.filter(([part]) => said.includes(squeezed(part)));
    found.sort((one, other) => one[3] - other[3] || squeezed(other[0]).length - squeezed(one[0]).length);
    const results = document.getElementById("search-results");
    if (!found.length || !results) return;
    const link = document.createElement("a");
    link.href = `errors/${found[0][1]}.html`;
    link.textContent = found[0][2];
    const line = document.createElement("p");
    line.id = "pasted-error";
    line.append("This message has a page in the index of errors: ", link);
    results.before(line);
});
