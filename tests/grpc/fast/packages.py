"""Programs and files of system packages: there, or installed as root on Debian, or the test fails by name."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def _install(package: str) -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("update", f"install -y --no-install-recommends {package}"):
            tool = ["apt-get", "-qq", *command.split()]
            subprocess.run(tool, env=environ, capture_output=True, timeout=400, check=False)


def program(name: str, package: str) -> str:
    """The path of a program; its Debian package is installed if it is missing and that can be done."""
    if shutil.which(name) is None:
        _install(package)
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"the program {name} is needed: install the Debian package {package}")
    return path


def library(file: str, package: str) -> None:
    """The same for a package that brings no program, known by one of its files below /usr."""
    if not any(Path("/usr").glob(file)):
        _install(package)
    if not any(Path("/usr").glob(file)):
        pytest.fail(f"a library is needed: install the Debian package {package}")
