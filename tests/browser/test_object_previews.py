"""The previews of clusters, GPU quotas, roles and settings: readable at both widths, and Back and Forward work."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from pools.domain.people.role_changes import right_changes
from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect_text
from tests.unit.moving_in.test_slurm import DUMP, NODES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


def test_every_preview(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    scene.create_subpool("a", 30)
    scene.run_workflows(f"{scene.pool}--a", gpus=8)
    tab = signed_in("admin", viewport={"width": 1440, "height": 900})
    cluster = f"/clusters/{scene.pool}/configuration/-/preview"
    for name, address in {
        "cluster": f"{cluster}?namespace={scene.pool}&offline=on&about=moves&nodes=n0+4",
        "settings": "/settings/-/preview?minutes=60&retries=4",
        "roles": f"/users/{scene.pool_admin}/roles/-/preview?roles=osmo-viewer",
        "gpu-quota": "/gpu-quotas/-/create/-/preview?namespace=previewed&requests_tflops=40&max_workers=3",
    }.items():
        page = tab.open(address)
        expect(page, address).to_have_title(re.compile("OSMO Admin$"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440, address
        tab.screenshot(name)
        tab.assert_accessible_on_desk_and_phone()


def test_back_and_forward_around_a_preview(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    rights = right_changes((), ["osmo-viewer"])[0]
    page = signed_in("admin").open(f"/users/{scene.pool_admin}/roles")
    page.get_by_label("Reason").fill("for Friday")
    page.get_by_label("Further roles").fill("osmo-viewer")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("table", name="Rights that change"), *rights.gained)
    page.go_back()
    expect_text(page.locator("main"), "Nothing changes yet")
    page.go_forward()
    page.get_by_role("button", name="Change the input").click()
    expect(page.get_by_label("Reason")).to_have_value("for Friday")
    expect(page.get_by_label("Further roles")).to_have_value("osmo-viewer")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Save the roles").click()
    page.get_by_text("the change applies from the next request").wait_for()


def test_back_from_a_preview_keeps_the_input_and_no_secret(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    tab = signed_in("admin")
    page = tab.open(f"/pools/{scene.pool}/configuration")
    page.get_by_label("Maximum in GPUs").fill("nothing")
    page.get_by_label("Description").fill("for Friday")
    page.get_by_label("In maintenance").check()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "“Maximum in GPUs”")
    page.get_by_label("Maximum in GPUs").fill("120")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("table", name="Fields that change"), "120")
    page.go_back()
    expect(page.get_by_label("Maximum in GPUs")).to_have_value("120")
    expect(page.get_by_label("Description")).to_have_value("for Friday")
    expect(page.get_by_label("In maintenance")).to_be_checked()
    page.go_back()
    expect(page.get_by_label("Maximum in GPUs")).to_have_value("nothing")
    page = tab.open("/clusters/-/connect")
    page.get_by_label("Name", exact=False).first.fill("kept")
    page.get_by_label("Kubeconfig", exact=True).fill("a-secret")
    page.evaluate("document.addEventListener('submit', (event) => event.preventDefault())")
    page.get_by_role("button", name="Preview").click()
    expect(page).to_have_url(re.compile("name=kept"))
    assert "secret" not in page.url


def test_the_preview_of_an_import_and_back(scene: PoolScene, signed_in: Callable[..., Any]) -> None:
    """Nothing is imported: the installation is that of other tests, too."""
    tab = signed_in("admin", viewport={"width": 1440, "height": 900})
    page = tab.open("/import")
    page.get_by_label("Files", exact=True).set_input_files([
        {"name": "tux.cfg", "mimeType": "text/plain", "buffer": DUMP.encode()},
        {"name": "nodes.txt", "mimeType": "text/plain", "buffer": NODES.encode()},
    ])  # fmt: skip
    tab.assert_accessible()
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "To decide", "tux.cfg:6", "pools.ops", "All of them are written, or none.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    tab.screenshot("import")
    tab.assert_accessible_on_desk_and_phone()
    page.get_by_role("button", name="Change the input").click()
    expect(page.get_by_label("tux.cfg, nodes.txt")).to_be_checked()
    page.locator("select[name=kind]").select_option("kai")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("alert"), "tux.cfg:", "nothing was written")


def test_files_that_are_too_large_are_named_before_they_are_sent(
    scene: PoolScene, signed_in: Callable[..., Any], tmp_path: Path
) -> None:
    page = signed_in("admin").open("/import")
    page.get_by_label("Or the text of a file").fill("kept")
    files = page.get_by_label("Files", exact=True)
    with (tmp_path / "big.cfg").open("wb") as big:
        big.truncate(2**24)
    files.set_input_files(tmp_path / "big.cfg")
    page.get_by_role("button", name="Preview").click()
    said = files.evaluate("input => input.validationMessage")
    assert said.startswith("These files have 16 MiB together, and the server takes 16 MiB. osmo-admin import reads")
    files.set_input_files([{"name": "small.cfg", "mimeType": "text/plain", "buffer": b"# x\n"}])
    assert files.evaluate("input => input.validity.valid")
    expect(page.get_by_label("Or the text of a file")).to_have_value("kept")
