"""The words of a page with their meanings, folded behind a question mark in the head of a card.

{% load page_words %}
<header><h2>Quota</h2>{% page_words "quota" "drain" %}</header>
"""

from __future__ import annotations

from typing import Any

from django import template

from pools.representations.page_words import PAGE_WORDS

register = template.Library()


@register.inclusion_tag("osmo/parts/page_words.html")
def page_words(*terms: str) -> dict[str, Any]:
    """The meanings of these terms of the glossary."""
    return {"words": [PAGE_WORDS[term] for term in terms]}
