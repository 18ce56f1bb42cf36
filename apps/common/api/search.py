"""`?search=`: a few words, each of which must be found in one of the view's fields."""

from __future__ import annotations

from typing import Any

from rest_framework.filters import SearchFilter

from kvcm_platform.core.errors import invalid

MAX_WORDS = 10
"""Each word is a condition of the query; databases bound how many one may have."""


class FewWordsSearch(SearchFilter):
    def get_search_terms(self, request: Any) -> list[str]:
        """Raises INVALID_ARGUMENT for more than MAX_WORDS words."""
        terms: list[str] = super().get_search_terms(request)
        if len(terms) > MAX_WORDS:
            raise invalid("search", f"{len(terms)} words are more than {MAX_WORDS}")
        return terms
