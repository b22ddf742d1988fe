"""Which PyTorch the course runs on, and what it says in each of them; `make versions`, but for what it installs."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_utils.base import versions
from course_utils.base.expected import sentences
from course_utils.measure.machine import environment
from tools import versions as tool


def test_what_is_older_is_refused_and_what_is_newer_let_through(monkeypatch, capfd):
    for version, note in (("2.10.0", ""), ("2.15.3+cu132", ""), ("2.16.0a0+git12", "not yet on 2.16.0a0+git12.")):
        monkeypatch.setattr(torch, "__version__", version)
        versions.refuse_older()
        assert versions.note().endswith(note) and bool(versions.note()) == bool(note)
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(ImportError, match=r"^This course needs PyTorch 2\.10 or newer, and found 2\.9\.1\. "):
        versions.refuse_older()
    assert capfd.readouterr() == ("", "")  # anything on stderr would cost a graded cell its points
