"""Input with a structure (request bodies, configurations, workflow files, scenarios) read value by value.

Every reader returns a value of the requested type. If the input holds something else there, the reader notes
a fault with its path and returns a default, so that all faults of an input are reported at once.

`faults` collects them, `dialect` says which Python values an input consists of and how they convert, `values` reads
one value, and `fields` reads the values of a map by their keys.
"""

from pools.domain.structured_input.dialect import JSON, Dialect
from pools.domain.structured_input.faults import Faults, join_words, quote, shorten
from pools.domain.structured_input.fields import FieldReader
from pools.domain.structured_input.values import ValueReader

__all__ = ["JSON", "Dialect", "Faults", "FieldReader", "ValueReader", "join_words", "quote", "shorten"]
