"""A cluster is connected, tested and watched in the browser; the worker talks to a real API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from scheduling.kube.connection.resource_kinds import QUEUE
from tests.browser.pool_scene import PoolScene
from tests.support.browser import expect, expect_text
from tests.support.kube_server import KubeServer, create_namespace

pytestmark = [pytest.mark.browser, pytest.mark.k8s, pytest.mark.timeout(600)]


def test_a_cluster_from_its_kubeconfig_to_a_reverted_edit(
    scene: PoolScene, signed_in: Callable[..., Any], kube_server: KubeServer
) -> None:
    cluster = kube_server.connect()
    namespace, name = create_namespace(cluster), scene.stack.unique_name("kube")
    tab = signed_in("admin", viewport={"width": 1440, "height": 900})
    page = tab.open("/")
    page.keyboard.press("Control+k")  # the way of docs/pages.md; two buttons follow
    page.keyboard.type("connect a cluster")
    page.get_by_role("option", name="Connect a Kubernetes cluster").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/clusters/-/connect")
    page.get_by_label("Name", exact=False).first.fill(name)
    page.get_by_label("Namespace").fill(namespace)
    page.get_by_label("Access").select_option("file")
    expect(page.get_by_label("Kubeconfig", exact=True)).to_be_hidden()
    page.get_by_label("Access").select_option("kubeconfig")
    page.get_by_label("Kubeconfig", exact=True).fill("not: a kubeconfig")
    page.get_by_role("button", name="Preview").click()
    expect_text(page.locator("main"), "names no current-context")
    expect(page.get_by_label("Kubeconfig", exact=True)).to_have_value("")
    page.get_by_label("Kubeconfig", exact=True).fill(yaml.safe_dump(kube_server.kubeconfig_body()))
    page.get_by_role("button", name="Preview").click()
    expect_text(page.get_by_role("table", name="Fields", exact=True), kube_server.address)
    page.get_by_role("button", name="Connect the cluster").click()
    expect_text(page.locator("#page"), f"Cluster {name} was added", "The queues")
    tab.assert_accessible()
    page.get_by_role("navigation", name=f"Pages of {name}").get_by_role("link", name="Overview").click()
    expect_text(page.locator("main"), kube_server.address)
    tab.assert_accessible()

    def page_contains(words: str) -> bool:
        return words in tab.open(f"/clusters/{name}/sync").inner_text("main")

    scene.stack.wait_until(lambda: page_contains("The queues are in sync"), what="the first sync", seconds=120)
    tab.page.get_by_role("button", name="Test the connection").click()
    scene.stack.wait_until(lambda: page_contains("Connected to Kubernetes"), what="the report", seconds=120)
    root = f"osmo-default-{namespace}"
    cluster.merge(QUEUE, root, {"spec": {"priority": 7}}, field_manager="kim")
    tab.page.get_by_role("button", name="Sync now").click()
    scene.stack.wait_until(lambda: page_contains("kim"), what="the edit and its author", seconds=120)
    tab.screenshot("cluster")
    tab.assert_accessible()
    assert cluster.get(QUEUE, root)["spec"]["priority"] == 100
    expect_text(tab.page.locator("main"), "No field differs now")
    tab.open("/clusters/-/sync")
    expect_text(tab.page.locator("main"), name)
    tab.assert_accessible()
    cluster.close()
