"""Who gets in, and what strangers are told."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_a_stranger_is_asked_to_sign_in_and_returns_where_they_wanted(page: Page) -> None:
    page.goto("/storages")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password", exact=True).fill("the first password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="nfs_01").first).to_be_visible()


def test_a_wrong_password_is_refused_with_a_sentence(page: Page) -> None:
    page.goto("/login")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password", exact=True).fill("a wrong one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
