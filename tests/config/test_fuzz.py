from __future__ import annotations

import os
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.pool_vocabulary import MEMBER, POOL
from cloudretry.config.vocabulary import ENTRY, MATCH_KEYS, SPELLINGS
from cloudretry.errors import ConfigurationError

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)

WORDS = [
    *SPELLINGS,
    *MATCH_KEYS,
    "aws",
    "azure",
    "match",
    "name",
    "unit",
    "pools",
    "pacing",
    "$schema",
    "http://a:1",
    "http://u:${env:P}@a:1",
    "10.0.0.1:443",
    *MEMBER.spellings,
    *ENTRY.inside("pacing").spellings,
    "custom",
    "exponential",
    "5s",
    "429",
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.booleans().map(lambda _: 10**5000),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(WORDS),
    st.binary(max_size=4),
    st.just(date(2020, 2, 2)),
    st.just("\ud800"),
    st.just("${env:X} ${a:b}"),
    st.builds(object),
)
KEYS = st.sampled_from(WORDS) | st.text(max_size=5) | st.just("\udfff")
STRUCTURES = st.recursive(
    ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
ENTRIES = st.dictionaries(st.sampled_from(sorted(SPELLINGS)), STRUCTURES, max_size=5)
PACING = st.dictionaries(st.sampled_from(sorted(ENTRY.inside("pacing").spellings)), STRUCTURES, max_size=3)
MEMBERS = st.lists(st.dictionaries(st.sampled_from(sorted(MEMBER.spellings)), STRUCTURES, max_size=3) | ODD, max_size=3)
INNER = [
    st.fixed_dictionaries(
        {}, optional={table: st.dictionaries(st.sampled_from(sorted(POOL.inside(table).spellings)), ODD, max_size=3)}
    )
    for table in sorted(POOL.tables)
]
TOP = sorted(name for name in POOL.spellings if "." not in name)
POOLS = st.dictionaries(
    KEYS | st.just("corp"),
    st.fixed_dictionaries({"members": MEMBERS})
    | st.one_of(INNER)
    | st.dictionaries(st.sampled_from(TOP), STRUCTURES, max_size=4),
    max_size=3,
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "aws": ENTRIES | STRUCTURES,
        "azure": ENTRIES | st.fixed_dictionaries({"pacing": PACING | STRUCTURES}),
        "pools": POOLS | STRUCTURES,
        "other": STRUCTURES,
    },
)
FRAGMENTS = [
    *("[aws]\n", "[[aws.overrides]]\n", "match = ", "aws", "max_retries", "1", "é", "\x00", "\u2028"),
    *("{", "}", "[", "]", '"', "'", '"""', "\\", "\n", "\t", " ", ".", "=", ",", ":", "#", "%"),
    *("- ", "&a", "*a", "!!", "<<", "? ", "|\n"),
]


def refused_or_loaded(source: Any = None, **variables: str) -> None:
    """Nothing but a Configuration or a ConfigurationError whose problems are lines."""
    try:
        outcome: object = load_configuration(source, environ=variables, cwd="/nowhere")
    except ConfigurationError as error:
        outcome = error.problems
    assert isinstance(outcome, Configuration) or (outcome and all(map(str.isprintable, outcome)))  # type: ignore[call-overload]


@EXAMPLES
@given(DOCUMENTS)
def test_no_structure_breaks_anything(document: dict[str, Any]) -> None:
    refused_or_loaded(document)


def test_a_structure_that_contains_itself_is_refused() -> None:
    inner: dict[str, Any] = {}
    inner["plugin_options"] = inner
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        load_configuration({"aws": inner}, environ={}, cwd="/nowhere")


@EXAMPLES
@given(
    st.sampled_from([".toml", ".json", ".yaml"]),
    st.binary(max_size=60) | st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
)
def test_no_file_breaks_anything(suffix: str, content: bytes | str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"c{suffix}")
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        refused_or_loaded(file)


@EXAMPLES
@given(
    st.sampled_from(
        [*(f"AWS.{name}" for name in sorted(SPELLINGS)), *(f"POOLS.CORP.{name}" for name in sorted(POOL.spellings))]
    ),
    st.text(st.characters(exclude_characters="\0"), max_size=20)
    | st.sampled_from(["[", '[{"match":1}]', "{", "9" * 5000, "[" * 9999]),
)
def test_no_variable_breaks_anything(setting: str, text: str) -> None:
    refused_or_loaded(**{f"CLOUDRETRY__{setting.upper().replace('.', '__')}": text})


@EXAMPLES
@given(st.text(st.characters(exclude_characters="\0"), max_size=20))
def test_no_name_of_a_variable_breaks_anything(name: str) -> None:
    refused_or_loaded(**{f"CLOUDRETRY__{name}": "1", f"CLOUDRETRY__POOLS__{name}": "1"})


def test_no_name_of_a_file_breaks_anything() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = os.fsencode(folder) + b"/\xff\n.toml"
        Path(os.fsdecode(file)).write_text("[aws]\nmax_retries = 'x'\n")
        refused_or_loaded(os.fsdecode(file))
