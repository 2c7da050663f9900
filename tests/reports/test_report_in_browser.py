"""The report in a real browser: nothing is fetched, nothing complains, nothing sticks out at the side of a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from reports import render_report

QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium is not None, "the tests of the report need Chromium: apt-get install chromium"
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium, args=QUIET)
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    return render_report(
        synthetic.full_table(), costs=synthetic.costs_table(), run=synthetic.run_record(), folder=folder
    )


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_a_page_fits_and_fetches_nothing(browser: Any, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    broken = page.evaluate("[...document.images].filter(i => !i.complete || i.naturalWidth === 0).length")
    assert page.evaluate("document.images.length") > 0
    assert broken == 0
    page.close()


def test_downloads_give_the_files_bytes(browser: Any, report: Path, tmp_path: Path) -> None:
    import pandas as pd

    page = browser.new_page(accept_downloads=True)
    page.goto(report.as_uri())
    with page.expect_download() as waiting:
        page.click("a[download='results.parquet']")
    waiting.value.save_as(tmp_path / "results.parquet")
    shown = pd.read_parquet(tmp_path / "results.parquet")
    assert len(shown) > 0
    assert "measure" in shown.columns
    page.close()


def test_a_definition_is_one_click_away(browser: Any, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    link = page.locator("figcaption a[href^='#']").first
    target = link.get_attribute("href")
    link.click()
    assert page.evaluate("location.hash") == target
    assert page.locator(target).count() == 1
    page.close()


def test_paper_has_pages(browser: Any, report: Path, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") + content.count(b"/Type /Page ") + content.count(b"/Type /Page/") >= 4
    page.close()
