"""A house with a pool in use, and people who sign in to it with a password."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.browser.house import House
from tests.support.stack import Stack


@pytest.fixture(scope="session", autouse=True)
def _django_beside_playwright() -> Iterator[None]:
    """Playwright's loop runs in this thread; Django would take our own preparations for asynchronous code."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    yield
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def house(stack: Stack) -> House:
    """A pool of 100 GPUs of its own, with an admin and a user."""
    return House.build(stack)


@pytest.fixture
def signed_in(new_tab: Callable[..., object], house: House) -> Callable[..., object]:
    """A tab in which somebody of the house is signed in; options are Playwright's."""

    def enter(username: str, **options: object) -> object:
        tab = new_tab(**options)
        tab.login(username, house.password)
        return tab

    return enter
