"""Lists on the command line as in the stock client: `-p a b` as well as `-p a -p b`.

The stock client's list options take every word that follows. Ours take a word only when it cannot be a positional
argument, so that `submit --set lr=1 job.yaml` still finds its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptionGrammar:
    """The options and arguments of one command.

    `lists`: options that may be repeated; `pairs`: those of them whose values are KEY=VALUE; `single`: other options
    that take one value; `positional`: the number of possible positional arguments, None for any.
    """

    lists: frozenset[str]
    pairs: frozenset[str]
    single: frozenset[str]
    positional: int | None


def repeat_list_options(words: Sequence[str], grammar: OptionGrammar) -> list[str]:
    """The same words with the option repeated before each of its values. Words after `--` stay unchanged."""
    out: list[str] = []
    rest = list(words)
    positional_count = 0
    while rest:
        word = rest.pop(0)
        out.append(word)
        if word == "--":
            return out + rest
        if word in grammar.lists:
            out += rest[:1]
            rest = rest[1:]
            while rest and _is_list_value(rest[0], word, positional_count, grammar):
                out += [word, rest.pop(0)]
        elif word in grammar.single:
            out += rest[:1]
            rest = rest[1:]
        elif not word.startswith("-") or word == "-":
            positional_count += 1
    return out


def _is_list_value(word: str, option: str, positional_count: int, grammar: OptionGrammar) -> bool:
    if word.startswith("-"):
        return False
    if option in grammar.pairs:
        return "=" in word
    return grammar.positional is not None and positional_count >= grammar.positional
