"""Programs of system packages: found, or installed as root on Debian, or the test fails with their name."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def program(name: str, package: str) -> str:
    """The path of a program; its Debian package is installed if it is missing and that can be done."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("update", f"install -y --no-install-recommends {package}"):
            tool = ["apt-get", "-qq", *command.split()]
            subprocess.run(tool, env=environ, capture_output=True, timeout=300, check=False)
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"the program {name} is needed: install the Debian package {package}")
    return path
