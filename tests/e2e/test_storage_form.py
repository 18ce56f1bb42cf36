"""An operator adds a storage in the browser: refused values, a trial, the storage, an alert when it fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Platform

NAME = "nfs_form"


@pytest.fixture
def root(platform: Platform) -> Iterator[Path]:
    """A folder that is not there yet; whatever the test made of it goes."""
    folder = platform.process.data_dir / NAME
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_storage_is_tried_added_watched_and_removed(operator: Page, root: Path) -> None:
    page = operator
    page.goto("/storages")
    page.get_by_role("button", name="Add a storage").click()
    page.get_by_label("Name").fill(NAME)

    # Another type asks for other things; what was typed is still there afterwards.
    page.get_by_label("Type").select_option("tair_mempool")
    expect(page.get_by_label("Agents")).to_be_visible()
    page.get_by_label("Type").select_option("nfs")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("Root folder is required")).to_be_visible()
    page.get_by_label("Root folder").fill("relative/folder")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_text("Must be an absolute path")).to_be_visible()

    page.get_by_label("Root folder").fill(str(root))
    page.get_by_role("button", name="Test connection").click()
    result = page.get_by_role("status", name="Result of the trial")
    expect(result.get_by_text("Works", exact=True)).to_be_visible()

    page.get_by_role("button", name="Add the storage").click()
    expect(page.get_by_role("heading", name=NAME)).to_be_visible()
    expect(page.get_by_text("Enabled").first).to_be_visible()

    # It fails for real: the bell says so without a reload.
    shutil.rmtree(root)
    bell = page.get_by_role("button", name="firing: 1 critical")
    expect(bell).to_be_visible(timeout=45_000)
    bell.click()
    alerts = page.get_by_role("dialog")
    alerts.get_by_role("button", name="Acknowledge").click()
    expect(alerts.get_by_text("Taken on by admin")).to_be_visible()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Remove").click()
    page.get_by_label(f"Type {NAME} to confirm").fill(NAME)
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("button", name="Alerts: none is firing")).to_be_visible(timeout=45_000)
