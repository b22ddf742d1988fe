"""Makes ``docs/card.png``, the README's picture of what a check says to a learner.

python docs/pictures.py

It is a picture of the card's own HTML, taken by Chromium: the environment variable CHROMIUM, or Playwright's own.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from course_utils import Lesson

PAGE = "<body style='margin:0;padding:12px;font:14px/1.5 system-ui,sans-serif;background:white;color:#1f1f1f'>"


def main() -> None:
    with TemporaryDirectory() as scratch:
        os.environ["COURSE_UTILS_PROGRESS"] = str(Path(scratch) / "progress.sqlite3")
        card = Lesson("detach").check("snapshot", lambda x: x.detach())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 780, "height": 100}, device_scale_factor=1.5)
        page.set_content(PAGE + card._repr_html_())
        page.screenshot(path=Path(__file__).with_name("card.png"), full_page=True)


if __name__ == "__main__":
    main()
