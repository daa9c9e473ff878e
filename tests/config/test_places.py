from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.config.documents import Document, read_json, read_text, read_toml
from cloudretry.config.json_places import JsonPlaces
from cloudretry.config.place import KeyPath, Place
from cloudretry.config.toml_places import DEEPEST_PLACE, MOST_PLACES, TomlPlaces
from cloudretry.errors import ConfigurationError, MissingExtra

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)
toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


def paths_of(value: object, path: KeyPath = ()) -> set[KeyPath]:
    """Every path in a document but the empty one."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = {path} if path else set()
    for key, inner in items:
        found |= paths_of(inner, (*path, key))
    return found


def value_at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def unquoted(raw: str) -> str:
    (key,) = toml.loads(f"{raw}=0")
    return str(key)


class TomlWriter:
    """Writes a random document and notes where it wrote each key."""

    DECOYS = ("[k1]", "k1 = 1", "# k2", "]", "}", '\\"', ", k3 = 4", "[[k4]]", "'", "''", "=")

    def __init__(self, draw: Any) -> None:
        self.text = ""
        self.places: dict[KeyPath, int] = {}
        self._draw = draw
        self._count = 0

    def _note(self, path: KeyPath) -> None:
        self.places.setdefault(path, len(self.text))

    def document(self) -> None:
        for _ in range(self._draw(st.integers(0, 3))):
            self.pair(())
        tables: list[KeyPath] = [()]
        for _ in range(self._draw(st.integers(0, 4))):
            tables.append(self.header(self._draw(st.sampled_from(tables))))
            for _ in range(self._draw(st.integers(0, 3))):
                self.pair(tables[-1])

    def header(self, around: KeyPath) -> KeyPath:
        """A table, or items of an array of tables, inside a table that stands already."""
        names = [part for part in around if isinstance(part, str)]
        name = self.name()
        items = self._draw(st.integers(0, 2))
        opening, closing = ("[[", "]]") if items else ("[", "]")
        for index in range(max(items, 1)):
            self.text += opening + "".join(f"{part} . " for part in names)
            self._note((*around, name))
            if items:
                self._note((*around, name, index))
            self.text += f"{name} {closing} # {self.decoy()}\n"
        return (*around, name, items - 1) if items else (*around, name)

    def pair(self, table: KeyPath, end: str = "\n") -> None:
        self.text += self._draw(st.sampled_from(["", "  ", "\t"]))
        path = table
        for _ in range(self._draw(st.integers(0, 2))):
            path = self.key(path)
            self.text += self._draw(st.sampled_from([".", " . "]))
        path = self.key(path)
        self.text += self._draw(st.sampled_from(["=", " = "]))
        self.value(path, depth=0)
        self.text += end if end != "\n" else self._draw(st.sampled_from(["\n", "  # k9 = [\n", "\n\n"]))

    def key(self, path: KeyPath) -> KeyPath:
        name = self.name()
        self._note((*path, name))
        self.text += self._draw(st.sampled_from([name, f'"{name}"', f"'{name}'"]))
        return (*path, name)

    def name(self) -> str:
        self._count += 1
        return f"k{self._count}"

    def decoy(self) -> str:
        return str(self._draw(st.sampled_from(self.DECOYS)))

    def value(self, path: KeyPath, depth: int) -> None:
        kind = self._draw(st.sampled_from(["scalar", "basic", "long", "literal", "array", "table"][: 4 if depth > 2 else 6]))
        if kind == "array":
            self.array(path, depth)
        elif kind == "table":
            self.inline_table(path)
        else:
            self.text += self.scalar(kind)

    def scalar(self, kind: str) -> str:
        decoy = self.decoy()
        if kind == "basic":
            return json.dumps(decoy)
        if kind == "long":
            return f'"""\n{decoy}\n[k5]\nk6 = "x"\n\\""\n""""'
        if kind == "literal":
            return f"'''\n{decoy} \n# '''" if "'" not in decoy else "'#'"
        return str(self._draw(st.sampled_from(["1", "-2.5", "true", "1979-05-27 07:32:00", "0xff", "inf", "07:32:00"])))

    def array(self, path: KeyPath, depth: int) -> None:
        self.text += "["
        for index in range(self._draw(st.integers(0, 3))):
            self.text += self._draw(st.sampled_from(["", "\n  ", " # ], [\n"]))
            self._note((*path, index))
            self.value((*path, index), depth + 1)
            self.text += self._draw(st.sampled_from([",", " ,\n", " # ,\n ,"]))
        self.text += "]"

    def inline_table(self, path: KeyPath) -> None:
        self.text += "{ "
        count = self._draw(st.integers(0, 2))
        for index in range(count):
            self.pair(path, end=", " if index < count - 1 else " ")
        self.text += "}"


@EXAMPLES
@given(st.data())
def test_every_key_of_a_toml_document_is_found_where_it_was_written(data: st.DataObject) -> None:
    writer = TomlWriter(data.draw)
    writer.document()
    assert paths_of(toml.loads(writer.text)) == writer.places.keys(), writer.text
    located = TomlPlaces(writer.text, unquoted)
    assert located.found == writer.places, writer.text
    assert located.repeats == []


@EXAMPLES
@given(JSON_VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_key_of_a_json_document_is_found_with_its_value(value: Any, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    located = JsonPlaces(text)
    assert located.found.keys() == paths_of(value)
    assert located.repeats == []
    decoder = json.JSONDecoder()
    for path, offset in located.found.items():
        first, end = decoder.raw_decode(text, offset)
        if isinstance(path[-1], str):
            assert first == path[-1]
            colon = text.index(":", end) + 1
            first, _ = decoder.raw_decode(text, colon + len(text[colon:]) - len(text[colon:].lstrip()))
        assert first == value_at(value, path)


@EXAMPLES
@given(st.text(max_size=200))
def test_the_locators_survive_any_text(text: str) -> None:
    located = TomlPlaces(text, unquoted)
    assert all(0 <= offset <= len(text) for offset in located.found.values())


def test_places_count_lines_and_columns_from_one() -> None:
    document = read_toml('[aws]\n  max_retries = 3\n"azure".mode = "x"\n', "a.toml")
    assert document.places[("aws",)] == Place("a.toml", 1, 2)
    assert str(document.places[("aws", "max_retries")]) == "a.toml:2:3"
    assert str(document.places["aws", "azure", "mode"]) == "a.toml:3:9"


def test_a_very_large_document_is_located_by_its_tables() -> None:
    document = read_toml(f"x = [{'1,' * (MOST_PLACES + 10)}]\n[late]\nkey = 1\n", "a.toml")
    assert len(document.places) == MOST_PLACES
    assert document.data["late"] == {"key": 1}


@pytest.mark.parametrize("key", ["a", '"a"', "a "])
def test_a_key_that_would_stop_the_parser_for_hours_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"a.toml:2:4: nested too deeply"):
        read_toml(f"\nx={{{'.'.join([key] * 100_000)}=1}}", "a.toml")


def test_deep_json_is_located_by_its_tables() -> None:
    document = read_json('{"a":' * 500 + "[1]" + "}" * 500, "a.json")
    assert max(map(len, document.places)) == DEEPEST_PLACE


REPEATED_TOML = {
    "a table twice": (
        "[aws]\nmax_retries = 1\n[azure]\n[aws]\nmax_retries = 2\n",
        "a.toml:4:2: aws: is there twice; first at a.toml:1:2",
    ),
    "a key twice": ("[aws]\nmode = 'x'\nmode = 'y'\n", "a.toml:3:1: aws.mode: is there twice; first at a.toml:2:1"),
    "a table over a key": ("aws = {}\n[aws]\n", "a.toml:2:2: aws: is there twice; first at a.toml:1:1"),
    "in an inline table": ("aws = {mode = 1, mode = 2}\n", "a.toml:1:18: aws.mode: is there twice; first at a.toml:1:8"),
    "quoted and bare": ('[aws]\n["aws"]\n', "a.toml:2:2: aws: is there twice; first at a.toml:1:2"),
}


@pytest.mark.parametrize("case", REPEATED_TOML)
def test_a_second_entry_names_both_places_in_toml(case: str) -> None:
    text, problem = REPEATED_TOML[case]
    with pytest.raises(ConfigurationError) as refused:
        read_toml(text, "a.toml")
    assert refused.value.problems == (problem,)


def test_a_second_entry_names_both_places_in_json() -> None:
    text = '{"aws": {"mode": "observe"},\n "\\u0061ws": {"mode": 1, "mode": 2}}'
    with pytest.raises(ConfigurationError) as refused:
        read_json(text, "a.json")
    assert refused.value.problems == (
        "a.json:2:2: aws: is there twice; first at a.json:1:2",
        "a.json:2:26: aws.mode: is there twice; first at a.json:2:15",
    )


def test_a_second_entry_names_both_places_in_yaml() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_text("aws:\n  mode: observe\n'aws':\n  mode: x\n", ".yaml", "a.yaml")
    assert refused.value.problems == ("a.yaml:3:1: aws: is there twice; first at a.yaml:1:1",)


SYNTAX_ERRORS = [
    (".toml", "[aws]\nmax_retries = \n", "a:2:15: not TOML: "),
    (".toml", "[aws", "a:1:5: not TOML: "),
    (".json", '{"aws": {"mode" 1}}', "a:1:17: not JSON: "),
    (".json", "", "a:1:1: not JSON: "),
    (".json", '{"aws": NaN}', "a: not JSON: NaN"),
    (".json", '{"aws": ' + "9" * 5000 + "}", "a: not JSON: "),
    (".json", "[" * 100_000, "a: nested too deeply"),
    (".toml", "a = " + "[" * 5_000, "a: nested too deeply"),
    (".yaml", "aws: [1", "a:1:8: not YAML: "),
    (".yaml", "aws: {mode: 2001-99-99}", "a:1:13: aws.mode: not a value"),
    (".yaml", "1: {}", "a:1:1: a key that is not text"),
    (".yaml", "aws:\n  <<: {mode: observe}", "a:2:3: aws: a key that is not text"),
    (".yaml", "aws: !!python/object/apply:os.system [ls]", "a:1:6"),
    (".yaml", "a: 1\n---\nb: 2", "a:2:1: not YAML: "),
    (".yaml", "a: &x [*x]", "a:1:"),
]


@pytest.mark.parametrize(("suffix", "text", "start"), SYNTAX_ERRORS)
def test_a_syntax_error_has_a_place(suffix: str, text: str, start: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_text(text, suffix, "a")
    (problem,) = refused.value.problems
    assert problem.startswith(start)
    assert "\n" not in problem


def test_aliases_of_yaml_cannot_grow_without_bound() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 10)]
    with pytest.raises(ConfigurationError, match="more values"):
        read_text("\n".join(lines), ".yaml", "a")


def test_yaml_has_places_too() -> None:
    document = read_text("aws:\n  response_codes:\n    - 429\n    - throttling\n", ".yaml", "a.yaml")
    assert document.data == {"aws": {"response_codes": [429, "throttling"]}}
    assert str(document.places[("aws", "response_codes", 1)]) == "a.yaml:4:7"


def test_yaml_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"cloudretry\[yaml\]"):
        read_text("aws: {}", ".yaml", "a")


def test_a_document_knows_its_tables() -> None:
    document = read_toml("[tool.cloudretry.aws]\nmode = 'x'\n", "p.toml")
    inner = document.inside("tool", "cloudretry")
    assert isinstance(inner, Document)
    assert str(inner.places[("aws", "mode")]) == "p.toml:2:1"
    assert document.inside("tool", "other") is None
