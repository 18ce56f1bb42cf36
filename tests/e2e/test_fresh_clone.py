"""A fresh clone on a machine with Python, Node.js and make: one command and everything is there."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from kvcm_platform.supervisor.ports import PORT_VARIABLES
from tests.support.platform_process import ROOT, free_ports, get_status, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(folder)], check=True)
    return folder


def environment(**variables: str) -> dict[str, str]:
    """This one's without what would let the clone use this checkout."""
    kept = {
        n: v for n, v in os.environ.items() if not n.startswith(("KVCM_", "DJANGO_", "VIRTUAL_ENV", "PYTHON"))
    }
    return {**kept, **variables}


def test_make_up_brings_everything_and_leaves_nothing(clone: Path) -> None:
    ports = dict(zip(PORT_VARIABLES, map(str, free_ports(len(PORT_VARIABLES))), strict=True))
    log = (clone.parent / "up.log").open("w+")
    began = time.monotonic()
    up = subprocess.Popen(
        ["make", "up", "ARGS=--ephemeral"],
        cwd=clone,
        env=environment(**ports),
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    web = f"http://127.0.0.1:{ports['KVCM_WEB_PORT']}"
    try:
        wait_for(lambda: up.poll() is not None or get_status(f"{web}/healthz/ready") == 200, 600, "ready")
        assert up.poll() is None, Path(log.name).read_text()
        print(f"a fresh clone was ready after {time.monotonic() - began:.0f} s")
        assert get_status(f"{web}/login") == 200
        assert get_status(f"{web}/api/v1/overview") == 401
    finally:
        # make passes nothing on: the group is what a terminal's Ctrl-C reaches.
        if up.poll() is None:
            os.killpg(up.pid, 2)
        up.wait(30)
    assert get_status(f"{web}/healthz/live") is None
    tracked = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert tracked.stdout == ""


@pytest.mark.parametrize(
    ("hidden", "sentence"),
    [("node", "Node 20 or newer is needed"), ("python", "Python 3.11 or newer is needed")],
)
def test_make_up_names_what_is_missing(clone: Path, tmp_path: Path, hidden: str, sentence: str) -> None:
    # A PATH with the few commands that `make` uses, but not the one in question.
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if not program.name.startswith(hidden) and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    if hidden == "python":
        # The front end comes first; it counts as built.
        (clone / "frontend" / "build.sh").write_text("#!/bin/sh\n")
    run = subprocess.run(
        ["make", "up"],
        cwd=clone,
        env=environment(PATH=str(tools)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert sentence in run.stderr
