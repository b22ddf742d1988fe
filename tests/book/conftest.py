"""The whole site, made once, and Chromium to read it with."""

import subprocess
import sys

import pytest

from tests.book.given import ROOT
from tests.browser.conftest import browser  # noqa: F401  a fixture


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, made as ``make book`` makes it."""
    folder = tmp_path_factory.mktemp("site") / "book"
    command = [sys.executable, "-m", "tools.book", "--to", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, ""), "not one warning"
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """The site's pages, by their paths in it."""
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts)
