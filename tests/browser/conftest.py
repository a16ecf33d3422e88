"""Fixtures: a pool in use, and people who are signed in. `Tab.login` signs in by the form, with a password."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.pool_scene import PoolScene
from tests.support.stack import Stack


@pytest.fixture
def scene(stack: Stack) -> PoolScene:
    """A pool of 100 GPUs of its own, with an admin and a user."""
    return PoolScene.build(stack)


@pytest.fixture
def signed_in(new_tab: Callable[..., object], stack: Stack) -> Callable[..., object]:
    """A tab in which a user is signed in; options are Playwright's."""

    def enter(username: str, **options: object) -> object:
        tab = new_tab(**options)
        tab.take_session(stack.sign_in(username))
        return tab

    return enter
