"""Files that are too large, too deep, too wide, in odd encodings or with numbers beyond everything: a clear refusal."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.importing import import_sources
from scheduling.moving_in.options import ImportOptions, SourceKind
from scheduling.moving_in.result import BadSource
from scheduling.moving_in.source_text import MAX_BYTES, MAX_LINES, source_text

MOST_MEMORY = 400 * 2**20
QUEUE = (
    "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {}}}\n"
    "spec: {{resources: {{gpu: {{quota: {}, limit: -1}}}}}}\n"
)


def refusal_of(kind: str, content: bytes) -> str:
    """The message of the refusal; the memory on the way has a bound."""
    tracemalloc.start()
    try:
        with pytest.raises(BadSource) as refusal:
            import_sources(SourceKind(kind), [source_text("f", content)], ImportOptions())
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    return refusal.value.details[0].message


def test_a_million_lines() -> None:
    """The text is read before anything of its kind."""
    assert f"more than {MAX_LINES:,} lines" in refusal_of("kai", b"# x\n" * 1_000_000)
    assert "MiB" in refusal_of("kai", b"x" * (MAX_BYTES + 1))


def test_odd_encodings() -> None:
    assert "not UTF-8" in refusal_of("kai", "Größe: 1\n".encode("latin-1"))
    assert "zero byte" in refusal_of("kai", b"a: 1\n\0\n")
    assert (
        source_text("f", "a: 1\r\n".encode("utf-16")).text == source_text("f", b"\xef\xbb\xbfa: 1\r\n").text == "a: 1\n"
    )
    assert source_text("f", b"a: 1\rb: 2\r").text == "a: 1\nb: 2\n"


def test_lines_that_end_as_on_an_old_mac_are_lines() -> None:
    text = b"Cluster - 'c'\rParent - 'root'\rAccount - 'a'\r"
    result = import_sources(SourceKind.SLURM, [source_text("f", text)], ImportOptions())
    assert (OwnedKind.POOL, "a") in result.objects
    assert "more than" in refusal_of("slurm", b"# x\r" * 300_000)


@pytest.mark.parametrize("kind", ["kai", "osmo"])
def test_files_that_spell_out_too_much(kind: str) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert "With every alias written out" in refusal_of(kind, bomb.encode())
    assert "nested at most" in refusal_of(kind, b"[" * 5000)
    wide = b"? " + b"k" * 100_000 + b"\n: [" + b"1," * 2000 + b"1]\n"
    assert "too long" in refusal_of(kind, wide)
    assert "tag" in refusal_of(kind, b"!!python/object:os.system {}\n")
    assert "twice" in refusal_of(kind, b"kind: a\nkind: b\n")


def test_nodes_of_too_many_types() -> None:
    nodes = "".join(f"NodeName=n{n} Gres=gpu:t{n}:8\n" for n in range(70))
    assert "more than 64 types of GPU" in refusal_of("slurm", nodes.encode())


def test_more_values_than_a_configuration_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.moving_in.source_text.MAX_VALUES", 20_000)
    assert "more than 20000 values" in refusal_of("kai", b"[" + b"1," * 30_000 + b"1]")


def test_a_thousand_names_that_become_one() -> None:
    queues = "---\n".join(QUEUE.format(f"q{'.' * n}x", 1) for n in range(1, 1000))
    result = import_sources(SourceKind.KAI, [source_text("f", queues.encode())], ImportOptions(writes_backend=False))
    assert len(result.objects) == 999


def test_numbers_of_gpus_beyond_everything() -> None:
    result = import_sources(SourceKind.KAI, [source_text("f", QUEUE.format("a", 10**9).encode())], ImportOptions())
    assert result.objects[OwnedKind.POOL, "a"]["resources"]["gpu"]["guarantee"] == 10**9
    assert "pools.a: resources.gpu.guarantee" in refusal_of("kai", QUEUE.format("a", 10**12).encode())


def test_a_long_chain_of_parents_is_read() -> None:
    text = "---\n".join(
        QUEUE.format(f"q{n}", 1).replace("spec: {", f"spec: {{parentQueue: q{n - 1}, " if n else "spec: {")
        for n in range(2000)
    )
    result = import_sources(SourceKind.KAI, [source_text("f", text.encode())], ImportOptions())
    assert len(result.objects) == 2000


class TestCommand:
    """`osmo-admin import` with its exit codes."""

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        result = CliRunner().invoke(app, ["import", *map(str, arguments)])
        return result.exit_code, result.stdout, result.stderr

    def test_exit_codes_and_the_same_bytes_again(self, tmp_path: Path) -> None:
        source, out = tmp_path / "queues.yaml", tmp_path / "out"
        free = "cpu: {limit: -1}, memory: {limit: -1}"
        source.write_text(QUEUE.format("a", 4).replace("limit: -1}", f"limit: -1}}, {free}"))
        code, text, _ = self.run("kai", source, "-o", out, "--existing-backend")
        assert (code, "Next: osmo-admin diff -f" in text) == (0, True)
        first = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert sorted(first) == ["REPORT.md", "a.yaml"]
        assert self.run("kai", source, "-o", out, "--existing-backend")[0] == 0
        assert {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first
        source.write_text(QUEUE.format("b", 4))
        code, text, _ = self.run("kai", source, "-o", out, "--existing-backend")
        assert (code, "no cpu limit is given" in text) == (2, True)
        assert sorted(path.name for path in out.rglob("*.yaml")) == ["b.yaml"]

    def test_a_refusal_writes_nothing(self, tmp_path: Path) -> None:
        source, out = tmp_path / "queues.yaml", tmp_path / "out"
        source.write_text(QUEUE.format("a", "many"))
        code, _, errors = self.run("kai", source, "-o", out)
        assert (code, "queues.yaml:4:" in errors, out.exists()) == (1, True, False)
        assert self.run("kai", tmp_path / "none", "-o", out)[0] == 1

    def test_a_folder_with_other_configuration_is_left_alone(self, tmp_path: Path) -> None:
        source, out = tmp_path / "queues.yaml", tmp_path / "out"
        source.write_text(QUEUE.format("a", 4))
        (out / "pools").mkdir(parents=True)
        (out / "pools/ours.yaml").write_text("pools: {}\n")
        code, _, errors = self.run("kai", source, "-o", out)
        assert (code, "Choose an empty or new one" in errors) == (1, True)
        assert (out / "pools/ours.yaml").exists()


_LIST = '{{"apiVersion": "v1", "kind": "List", "items": {}}}'
_LEAF = '{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "a"}, "spec": {}}'


@pytest.mark.parametrize(
    "text",
    [
        f"[{_LEAF}]",
        _LIST.format(f"[{_LEAF}]"),
        _LIST.format(f"[{_LIST.format(f'[{_LEAF}]')}, {_LIST.format('null')}]"),
        _LIST.format("[]") + "\n---\n" + _LEAF,
    ],
)
def test_lists_of_any_form_have_the_same_objects(text: str) -> None:
    found, same = (
        import_sources(SourceKind.KAI, [source_text("f", each.encode())], ImportOptions()) for each in (text, _LEAF)
    )
    assert list(found.objects) == list(same.objects)


def test_a_fault_in_one_long_line_has_the_path() -> None:
    refusal = refusal_of("kai", _LIST.format('[{"kind": "Queue"}, 7, {"items": [[]]}]').encode())
    assert "items[1]: an object of Kubernetes is a map with `kind`." in refusal
    nameless = refusal_of("kai", _LIST.format('[{"kind": "Queue"}]').encode())
    assert "items[0] Queue: the object has no kind or no name." in nameless
    doubled = refusal_of("kai", _LIST.format(f"[{_LEAF}, {_LEAF}]").encode())
    assert "here (items[1]) and in f:1 (items[0])" in doubled
    assert "is a map with `kind`" in refusal_of("kai", ("[" * 20 + "]" * 20).encode())


def test_objects_without_a_line_between_them_are_told_how_to_be_written() -> None:
    assert "with a line --- between them" in refusal_of("kai", b'{\n"kind": "A"\n}\n{\n"kind": "B"\n}\n')
