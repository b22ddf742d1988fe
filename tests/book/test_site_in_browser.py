"""The whole site in Chromium: every page, light and dark, on a phone and on a desk; and the links that leave it."""

import re
import socket

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tools.book.__main__ import make_site

pytestmark = [pytest.mark.nightly, pytest.mark.browser]

OPEN_ALL = "document.querySelectorAll('details').forEach(fold => { fold.open = true })"
# What reaches beyond the window's edge, where the page or its text can be scrolled sideways.
TOO_WIDE = """() => [document.documentElement, document.querySelector(".bd-article-container")]
    .filter(frame => frame.scrollWidth > frame.clientWidth)
    .map(frame => [...frame.querySelectorAll("*")]
        .filter(element => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest("pre, table"))
        .slice(0, 5).map(element => element.outerHTML.slice(0, 100)))"""

# Of each block of text, how many lines it has, and how many it takes.
LINES = """() => [...document.querySelectorAll(".bd-article pre")].map(block => {
    const style = getComputedStyle(block);
    const pixels = block.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    return [block.textContent.replace(/\\n$/, "").split("\\n"), Math.round(pixels / parseFloat(style.lineHeight))];
})"""
OPEN = "[...document.querySelectorAll('details')].filter(fold => fold.open).map(fold => fold.innerText)"
A4_WIDTH = 718  # pixels, less a margin of 1 cm on both sides


@pytest.fixture
def reader(browser, site):
    """``reader(scheme="light", width=1280)`` opens a window; nothing that it loads may come from elsewhere."""
    contexts, elsewhere = [], []

    def open_window(scheme="light", width=1280):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce"))
        page = contexts[-1].new_page()
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else elsewhere.append(request.url),
        )
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert elsewhere == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_by_everyone(site, pages, reader, scheme, width):
    page, axe, found = reader(scheme, width), Axe(), {}
    for name in pages:
        page.goto((site / name).as_uri())
        assert page.locator("html").get_attribute("data-theme") == scheme
        page.evaluate(OPEN_ALL)
        violations = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        wrong = [(row["id"], [node["target"] for node in row["nodes"][:3]]) for row in violations]
        if wrong := wrong + page.evaluate(TOO_WIDE):
            found[name] = wrong
    assert found == {}


@pytest.mark.parametrize(("word", "page"), [("volatile", "04_volatile_history"), ("makes a copy", "03_detach")])
def test_search_finds_without_a_server(site, reader, word, page):
    window = reader()
    window.goto((site / "index.html").as_uri())
    window.keyboard.press("Control+k")
    window.keyboard.type(word)
    window.keyboard.press("Enter")
    expect(window.locator(f"#search-results a[href*='{page}']").first).to_be_visible()


def test_search_finds_the_page_of_a_pasted_message(site, reader):
    window = reader()
    window.goto((site / "index.html").as_uri())
    window.keyboard.press("Control+k")
    window.keyboard.type("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn")
    window.keyboard.press("Enter")
    window.locator("#pasted-error a").click()
    expect(window.locator("h1")).to_contain_text("The loss has no history")


def test_what_is_folded_opens_by_keyboard(site, reader):
    window = reader()
    window.goto((site / "notebooks" / "03_detach.html").as_uri())
    for words in ("Your guess first", "Hint 1 of 3"):
        summary = window.locator("summary", has_text=words).first
        fold = summary.locator("xpath=..")
        assert fold.get_attribute("open") is None
        summary.focus()
        window.keyboard.press("Enter")
        assert fold.get_attribute("open") is not None


def test_light_and_dark_can_be_chosen(site, reader):
    window = reader("light")
    window.goto((site / "index.html").as_uri())
    window.get_by_role("button", name=re.compile("theme|colou?r mode", re.IGNORECASE)).first.click()
    window.get_by_text("Dark", exact=True).first.click()
    assert window.locator("html").get_attribute("data-theme") == "dark"


def test_it_is_printed_light_on_paper_and_without_what_leads_elsewhere(site, reader):
    window = reader("dark")
    window.goto((site / "notebooks" / "03_detach.html").as_uri())
    window.evaluate(
        "addEventListener('beforeprint', () => { window.printed = document.documentElement.dataset.theme })"
    )
    window.pdf()
    assert window.evaluate("printed") == "light"
    assert window.locator("html").get_attribute("data-theme") == "dark"
    window.emulate_media(media="print")
    expect(window.locator(".bd-article h1")).to_be_visible()
    expect(
        window.locator(".bd-header, .bd-sidebar-primary, .bd-sidebar-secondary").locator("visible=true")
    ).to_have_count(0)


def test_on_paper_folds_are_open_and_lines_of_code_whole(site, reader):
    window = reader(width=A4_WIDTH)
    window.goto((site / "notebooks" / "11_clinic.html").as_uri())
    window.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {OPEN} }})")
    window.pdf()
    printed = window.evaluate("printed")
    assert any("Hint 1 of 3" in text for text in printed) and any("PyTorch says: 3" in text for text in printed)
    assert not any("The figure in words" in text for text in printed)
    assert window.evaluate(OPEN) == []
    window.emulate_media(media="print")
    blocks = window.evaluate(LINES)
    assert len(blocks) > 40
    assert [lines for lines, taken in blocks if max(map(len, lines)) <= 100 and taken != len(lines)] == []


def test_the_control_panel_is_one_sheet(site, reader):
    window = reader()
    window.goto((site / "control_panel.html").as_uri())
    assert len(re.findall(rb"/Type\s*/Page\b", window.pdf(prefer_css_page_size=True))) == 1


def test_on_a_phone_the_names_of_the_api_need_no_scrolling(site, reader):
    window = reader(width=390)
    window.goto((site / "api" / "index.html").as_uri())
    tables = window.locator(".pst-scrollable-table-container").evaluate_all(
        "tables => tables.map(table => table.scrollWidth - table.clientWidth)"
    )
    assert tables == [0, 0]


def test_on_a_phone_menu_and_search_open_by_keyboard(site, reader):
    window = reader(width=390)
    window.goto((site / "notebooks" / "03_detach.html").as_uri())
    for name, inside in (("Site navigation", "link"), ("Search", "searchbox")):
        window.get_by_role("button", name=name, exact=True).focus()
        window.keyboard.press("Enter")
        expect(window.get_by_role("dialog").get_by_role(inside).first).to_be_visible()
        window.keyboard.press("Escape")
        expect(window.get_by_role("dialog")).to_have_count(0)
        expect(window.get_by_role("button", name=name, exact=True)).to_be_focused()


def test_links_to_other_sites_lead_somewhere(site, tmp_path):
    try:
        socket.create_connection(("docs.pytorch.org", 443), timeout=10).close()
    except OSError as error:
        pytest.skip(f"The links that lead out of the site were not tried: no network ({error}).")
    assert make_site(site.with_name("book-sources"), tmp_path / "links", builder="linkcheck") == 0
