"""The check of contrast looks at parts that look alike once, and at every part that looks different."""

from __future__ import annotations

import pytest

from tests.support.browser import Tab

pytestmark = pytest.mark.browser

_PAGE = """<!doctype html><html lang="en"><head><title>Rows</title><style>
  body {{ color: #000; background: #fff }} .pale {{ color: #ccc }} .grey {{ background: #555 }} .link {{ color: #00c }}
  @media (prefers-color-scheme: dark) {{ .night {{ color: #222; }} body {{ color: #fff; background: #000 }} }}
</style></head><body><main><h1>Rows</h1><table><tr><th scope="col">Name</th></tr>{rows}</table></main></body></html>"""
_ROW = '<tr><td><a class="link" href="#x">a name</a> and a text</td></tr>'


@pytest.mark.parametrize(
    "last",
    [
        '<tr><td class="pale">a text</td></tr>',
        '<tr><td><a class="link" href="#x">a name</a><span> and </span><b class="pale">a text</b></td></tr>',
        '<tr class="grey"><td><a class="link" href="#x">a name</a> and a text</td></tr>',
        '<tr><td><div class="grey"><a class="link" href="#x">a name</a></div></td></tr>',
    ],
    ids=["another colour", "deep inside", "another background", "another background between"],
)
def test_a_row_that_differs_is_found(tab: Tab, last: str) -> None:
    tab.page.set_content(_PAGE.format(rows=_ROW * 20))
    tab.assert_accessible()
    tab.page.set_content(_PAGE.format(rows=_ROW * 20 + last))
    with pytest.raises(AssertionError, match="color-contrast"):
        tab.assert_accessible()


def test_rows_that_are_alike_are_found_by_the_first(tab: Tab) -> None:
    tab.page.set_content(_PAGE.format(rows='<tr class="pale"><td>a text</td></tr>' * 3))
    with pytest.raises(AssertionError, match="color-contrast"):
        tab.assert_accessible()


def test_each_scheme_has_its_own_check(tab: Tab) -> None:
    tab.page.set_content(_PAGE.format(rows='<tr class="night"><td>a text</td></tr>' * 3))
    tab.assert_accessible()
    with pytest.raises(AssertionError, match="color-contrast"):
        tab.assert_accessible_in_both_colours()
