"""Where the tests in a browser take Chromium from."""

import pytest

from tests.browser.conftest import require_chromium


@pytest.fixture
def no_chromium(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.delenv("CI", raising=False)
    return str(tmp_path / "playwright" / "chrome")


def program(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_chromium_is_taken_from_the_system_before_playwright_s_own(no_chromium, tmp_path):
    playwrights_own = program(tmp_path / "playwright" / "chrome")
    assert require_chromium(playwrights_own) == playwrights_own
    system = program(tmp_path / "chromium")
    assert require_chromium(playwrights_own) == system


def test_a_named_chromium_is_the_only_one_that_will_do(no_chromium, tmp_path, monkeypatch):
    program(tmp_path / "chromium")
    named = program(tmp_path / "other" / "browser")
    monkeypatch.setenv("CHROMIUM", named)
    assert require_chromium(no_chromium) == named
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "nowhere"))
    with pytest.raises(pytest.skip.Exception, match="nowhere"):
        require_chromium(no_chromium)


def test_without_chromium_tests_are_skipped_with_the_reason_and_fail_in_ci(no_chromium, monkeypatch):
    with pytest.raises(pytest.skip.Exception, match="No Chromium was found: none of chromium, "):
        require_chromium(no_chromium)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="In CI these tests must run"):
        require_chromium(no_chromium)
