"""Makes ``docs/card.png`` and ``docs/map.png``, two pictures of the README: what a learner sees.

python docs/pictures.py

They are pictures of the cards' own HTML, taken by Chromium: the environment variable CHROMIUM, or Playwright's own.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from course_utils import Lesson, progress
from course_utils.progress.history import record

PAGE = "<body style='margin:0;padding:12px;font:14px/1.5 system-ui,sans-serif;background:white;color:#1f1f1f'>"
BEGUN = ("requires_grad", "leaf_tensors")  # lessons that the learner of the map has done


def main() -> None:
    with TemporaryDirectory() as scratch:
        os.environ["COURSE_UTILS_PROGRESS"] = str(Path(scratch) / "progress.sqlite3")
        for name in BEGUN:
            for exercise in Lesson(name).exercises.values():
                points = float(exercise.points)
                record(name, exercise.name, earned=points, possible=points, status="passed", told=[], held=[])
        card = Lesson("detach").check("snapshot", lambda x: x.detach())
        pictures = {"card": card._repr_html_(), "map": progress(show_location=False)._repr_html_()}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 780, "height": 100}, device_scale_factor=1.5)
        for name, html in pictures.items():
            page.set_content(PAGE + html)
            page.screenshot(path=Path(__file__).with_name(f"{name}.png"), full_page=True)


if __name__ == "__main__":
    main()
