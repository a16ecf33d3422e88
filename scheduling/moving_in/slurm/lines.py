"""The lines of Slurm's files: `sacctmgr dump` and `show qos`, `slurm.conf`, `gres.conf`, `scontrol show node`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pools.domain.configuration.backend_config import MAX_NODES
from scheduling.domain.slurm.resources import is_part_of_a_gpu
from scheduling.domain.slurm.times import NO_LIMITS, BadSlurmValue, read_span
from scheduling.moving_in.result import BadSource, SourcePlace
from scheduling.moving_in.source_text import SourceText

LONGEST_LINE: Final = 65_536
NO_GRES: Final = frozenset({"(null)", "null", "none", "n/a"})
GPU_TYPE: Final = "gres/gpu:"
_DUMP: Final = re.compile(r"(Cluster|Parent|Account|User|QOS) - ", re.IGNORECASE)
_SETTING: Final = re.compile(r"[A-Za-z]\w*=")
_BEFORE_KEY: Final = re.compile(r"\s(?=[A-Za-z]\w*=)")
_RANGE: Final = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?", re.ASCII)
_COUNT: Final = re.compile(r"(\d{1,12})([kKmMgG]?)", re.ASCII)
_OPEN_GRES: Final = re.compile(r"[=,]gres/\w+$")
_NUMBER: Final = re.compile(r"[\d.]+", re.ASCII)
_OF_SCONTROL: Final = re.compile(r"(?:^|\s)CPUTot=", re.IGNORECASE)
"""A key of `scontrol show node` that slurm.conf does not have."""
_GOES_ON: Final = re.compile(r"CPUAlloc=", re.IGNORECASE)
"""Begins the second line of a node, where scontrol was asked without -o."""
_COMMENT: Final = re.compile(r"(?<!\\)#.*")
FREE_TEXTS: Final = ("reason", "comment", "extra")
"""Words of people, in which anything may stand."""
_OF_QOS: Final = "Name|"
_SCALE: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True, slots=True)
class SlurmLine:
    """One line. `word` is Cluster, Parent, Account, User or QOS with its `name`, or `node`, `gres` or `setting`.
    `fields` has the values by their keys in lower case; `keys` has the keys as written."""

    word: str
    name: str
    fields: Mapping[str, str]
    keys: Mapping[str, str]
    place: SourcePlace


def read_lines(source: SourceText) -> Iterator[SlurmLine]:
    """The lines of a file, without comments. Raises BadSource for one that is none of Slurm's."""
    columns: list[str] = []
    for number, text in _joined_nodes(source):
        place = SourcePlace(source.name, number, text[:60])
        if len(text) > LONGEST_LINE:
            raise BadSource.at(place, f"the line has more than {LONGEST_LINE} characters.")
        if match := _DUMP.match(text):
            yield _dump_line(match[1].capitalize() if match[1].lower() != "qos" else "QOS", text[match.end() :], place)
        elif text.startswith(_OF_QOS):
            columns = [name.strip() for name in text.rstrip("|").split("|")]
        elif _SETTING.match(text):  # the words of scontrol have no comments, but `OS=Linux 5.15 #129-Ubuntu`
            yield _setting_line(text if _OF_SCONTROL.search(text) else _without_comment(text), place)
        elif columns and "|" in text:
            yield _qos_line(columns, text, place)
        else:
            raise BadSource.at(
                place, "this is not a line of sacctmgr dump, sacctmgr -P show qos, slurm.conf, gres.conf or scontrol."
            )


def _joined_nodes(source: SourceText) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; a node of `scontrol show node` without -o is one line."""
    node: tuple[int, str] | None = None
    goes_on = False
    for number, line in _joined_lines(source):
        text = line.strip()
        if node and line[:1].isspace() and (goes_on or _GOES_ON.match(text)) and len(node[1]) < LONGEST_LINE:
            node, goes_on = (node[0], f"{node[1]} {text}"), True
            continue
        if node:
            yield node
        node, goes_on = None, False
        if text.lower().startswith("nodename="):
            node = number, text
        elif text and not text.startswith("#"):
            yield number, text
    if node:
        yield node


def _joined_lines(source: SourceText) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; one that ends with a backslash goes on in the next."""
    held, first = "", 0
    for number, line in enumerate(source.text.split("\n"), 1):
        first = first if held else number
        text = line.rstrip()
        if text.endswith("\\") and len(held) < LONGEST_LINE:
            held += text[:-1] + " "
            continue
        yield first, held + text
        held = ""
    if held:
        yield first, held


def _without_comment(text: str) -> str:
    return _COMMENT.sub("", text).replace("\\#", "#")


def _qos_line(columns: list[str], text: str, place: SourcePlace) -> SlurmLine:
    """A row of `sacctmgr -P show qos`, or of -p, which ends each row with a bar. Empty values are left out."""
    cells = text.split("|")
    if len(cells) not in (len(columns), len(columns) + 1) or any(cells[len(columns) :]):
        raise BadSource.at(place, f"the row has {len(cells)} values, and the header above it {len(columns)}.")
    fields = {name.lower(): cell.strip() for name, cell in zip(columns[1:], cells[1:], strict=False) if cell.strip()}
    keys = {name.lower(): name for name in columns[1:]}
    return SlurmLine("QOS", cells[0].strip(), fields, keys, replace(place, key=f"QOS {cells[0].strip()}"))


def _dump_line(word: str, rest: str, place: SourcePlace) -> SlurmLine:
    parts: list[str] = []
    for part in split_outside_quotes(rest, ":", place):
        if parts and _OPEN_GRES.search(parts[-1]):  # the type of a GPU has a colon, too: gres/gpu:a100=4
            parts[-1] += f":{part}"
        else:
            parts.append(part)
    place = replace(place, key=f"{word} {unquoted(parts[0])}")
    fields, keys = _fields(parts[1:], place)
    return SlurmLine(word, unquoted(parts[0]), fields, keys, place)


def _setting_line(text: str, place: SourcePlace) -> SlurmLine:
    parts: list[str] = []
    for part in _BEFORE_KEY.split(text.strip()):
        key = part.partition("=")[0].strip().lower()
        if parts and key not in FREE_TEXTS and parts[-1].partition("=")[0].strip().lower() in FREE_TEXTS:
            parts[-1] += f" {part.strip()}"  # `Reason=see ticket=7`
        else:
            parts.append(part.strip())
    fields, keys = _fields(parts, place)
    first = next(iter(fields))
    if "nodename" in fields and "name" not in fields:
        word = "node"
    elif "name" in fields or first == "autodetect":
        word = "gres"
    else:
        word = "setting"
    return SlurmLine(word, fields[first], fields, keys, place)


def _fields(parts: list[str], place: SourcePlace) -> tuple[dict[str, str], dict[str, str]]:
    fields: dict[str, str] = {}
    keys: dict[str, str] = {}
    for part in parts:
        key, mark, value = part.partition("=")
        if not mark or not key.strip():
            raise BadSource.at(place, "a part of it is not KEY=VALUE; a value with a colon stands in quotes.")
        name = key.strip().lower()
        if name in fields:
            raise BadSource.at(place, f"{key.strip()} is given twice. Keep one.")
        fields[name] = unquoted(value)
        keys[name] = key.strip()
    return fields, keys


def split_outside_quotes(text: str, mark: str, place: SourcePlace) -> Iterator[str]:
    """The parts of a text between marks that are in no quotes."""
    start, quote = 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (at == start or text[at - 1] in "= "):
            quote = letter
        elif letter == mark:
            yield text[start:at]
            start = at + 1
    if quote:
        raise BadSource.at(place, f"the quote {quote} is not closed.")
    yield text[start:]


def unquoted(text: str) -> str:
    """The text without the quotes around it."""
    text = text.strip()
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def read_time(text: str, place: SourcePlace) -> int | None:
    """Seconds of a time as Slurm writes it (`30` minutes, `30:00`, `1:30:00`, `2-12`, `2-12:30`), None for no limit."""
    try:
        return read_span(text)
    except BadSlurmValue as problem:
        raise BadSource.at(place, f"a value of it {problem}.") from problem


def read_tres(text: str, place: SourcePlace) -> dict[str, int | None]:
    """The amounts of a list such as `cpu=20,gres/gpu:a100=4`, None for no limit."""
    found: dict[str, int | None] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, mark, amount = part.partition("=")
        key = name.strip().lower()
        if not mark or key in found:
            raise BadSource.at(place, "a part of its list is not RESOURCE=AMOUNT, or is given twice.")
        found[key] = None if amount.strip().lower() in NO_LIMITS else read_count(amount.strip(), place)
    return found


def read_count(text: str, place: SourcePlace) -> int:
    """A whole number; `K`, `M` and `G` are powers of 1024."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise BadSource.at(place, "an amount of it is not a whole number, such as 8 or 4K.")
    return int(match[1]) * _SCALE[match[2].lower()]


def gpu_limit(tres: Mapping[str, int | None]) -> tuple[int | None, list[str]]:
    """The ceiling in GPUs (None: none), and the keys of single types. A total counts alone; types are added otherwise,
    because a job names one of them. Types that are parts of GPUs bound no whole ones."""
    types = [key for key in tres if key.startswith(GPU_TYPE)]
    amounts = [tres[key] for key in types if not is_part_of_a_gpu(key.removeprefix(GPU_TYPE))]
    if tres.get("gres/gpu") is not None or not amounts:
        return tres.get("gres/gpu"), types
    return (None if None in amounts else sum(amount or 0 for amount in amounts)), types


@dataclass(frozen=True, slots=True)
class GresGpus:
    """The GPUs of a node: whole ones by their type (empty without one), the types that are parts of GPUs, and what is
    no GPU, such as shards."""

    by_type: Mapping[str, int]
    parts: tuple[str, ...]
    others: tuple[str, ...] = ()


def read_gres(text: str, place: SourcePlace) -> GresGpus:
    """The GPUs of `gpu:a100:8(S:0-1),gpu:2,shard:16`."""
    by_type: dict[str, int] = {}
    parts: list[str] = []
    others: list[str] = []
    for entry in re.sub(r"\([^()]*\)", "", text).split(","):
        name, *rest = entry.strip().split(":")
        if name.lower() != "gpu":
            others += [entry.strip()] if name and name.lower() not in NO_GRES else []
            continue
        rest = [word for word in rest if word.lower() != "no_consume"]
        count = read_count(rest[-1], place) if rest and _COUNT.fullmatch(rest[-1]) else 1
        kind = next((word for word in rest if not _COUNT.fullmatch(word)), "")
        if _NUMBER.fullmatch(kind):
            raise BadSource.at(place, "the number of GPUs is not a whole number.")
        if is_part_of_a_gpu(kind):
            parts.append(kind)
        else:
            by_type[kind] = by_type.get(kind, 0) + count
    return GresGpus(by_type, tuple(parts), tuple(others))


def expand_hosts(text: str, place: SourcePlace) -> list[str]:
    """The names of `dgx[01-04,07],login1`; more than `MAX_NODES` are refused before they are written out."""
    found: list[str] = []
    for pattern in split_outside_brackets(text, place):
        pieces = [_choices(piece, place) for piece in re.split(r"(\[[^\[\]]*\])", pattern) if piece]
        if math.prod(len(piece) for piece in pieces) + len(found) > MAX_NODES:
            raise BadSource.at(place, f"the line names more than {MAX_NODES} nodes.")
        names = [""]
        for piece in pieces:
            names = [name + choice for name in names for choice in piece]
        found += names
    return found


def split_outside_brackets(text: str, place: SourcePlace) -> list[str]:
    """The parts of a list of hosts between commas that are in no brackets."""
    parts, level, start = [], 0, 0
    for at, letter in enumerate(text):
        level += (letter == "[") - (letter == "]")
        if level not in (0, 1):
            break
        if letter == "," and level == 0:
            parts.append(text[start:at])
            start = at + 1
    if level != 0:
        raise BadSource.at(place, "the brackets of the host names do not match.")
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _choices(piece: str, place: SourcePlace) -> list[str]:
    if not piece.startswith("["):
        return [piece]
    found: list[str] = []
    for part in piece[1:-1].split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadSource.at(place, "a part in brackets is not a range of host names, such as 01-04.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + 1 + len(found) > MAX_NODES:
            raise BadSource.at(place, f"a range of host names runs backwards or names more than {MAX_NODES} nodes.")
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
