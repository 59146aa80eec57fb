"""Tables: what other libraries read is what the record has."""

from __future__ import annotations

import copy
import json
import math
import pickle
import re
import sys
from pathlib import Path

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import ROOT, Program

import ackwise
from ackwise import Results, Scenario


@pytest.fixture(scope="module")
def results() -> Results:
    scenario = Scenario.load(ROOT / "scenarios/lossy.toml")
    return scenario.run(cc="cubic", arms=["baseline", "adaptive"], seed=[1, 2], duration="2 s")


@pytest.mark.parametrize("name", Results.tables())
def test_every_library_reads_the_same(results: Results, name: str) -> None:
    rows = results.to_dicts(name)
    table = results.table(name)
    assert len(table) == len(rows)
    assert pyarrow.table(table).to_pylist() == rows
    assert results.to_arrow(name).to_pylist() == rows
    assert results.to_polars(name).to_dicts() == rows
    assert polars.DataFrame(table).to_dicts() == rows
    by_column = table.to_dict()
    assert [dict(zip(by_column, cells)) for cells in zip(*by_column.values())] == rows
    frame = results.to_pandas(name)
    assert list(frame.columns) == [it.name for it in table.columns]
    for column in frame.columns:
        for cell, row in zip(frame[column], rows):
            known = row[column]
            if known is None:
                assert cell is pandas.NA or math.isnan(cell)
            else:
                assert cell == known


def test_the_runs_are_what_results_export(results: Results) -> None:
    assert pyarrow.table(results).to_pylist() == results.to_dicts() == list(results)
    assert pyarrow.schema(results) == pyarrow.table(results).schema


def test_types_do_not_hang_on_what_was_run() -> None:
    kinds = set()
    for file in ("quick", "wifi", "lossy"):
        results = Scenario.load(ROOT / f"scenarios/{file}.toml").run(cc="cubic", arms="adaptive", duration="1 s")
        types = results.to_pandas().dtypes.astype(str).to_dict()
        kinds.add(tuple(it for it in types.items() if not str(it[0]).startswith("point.")))
    assert len(kinds) == 1
    types = dict(kinds.pop())
    assert types["bytes"] == "int64" and types["timeouts"] == "Int64"
    assert types["goodput_bps"] == "float64" and types["content_ok"] == "boolean"


@pytest.mark.parametrize("name", Results.tables())
def test_columns_have_units_and_say_what_they_are(results: Results, name: str) -> None:
    columns = results.table(name).columns
    fields = {field.name: field for field in pyarrow.table(results.table(name)).schema}
    ends = {"_us": "µs", "_s": "s", "_bps": "bit/s", "_hz": "1/s", "_packets": "packets", "_j": "J"}
    for column in columns:
        metadata = fields[column.name].metadata
        assert metadata[b"description"].decode() == column.description != ""
        assert metadata.get(b"unit", b"").decode() == column.unit
        assert fields[column.name].nullable == column.nullable
        for end, unit in ends.items():
            if column.name.endswith(end):
                assert column.unit == unit, column
    frame = results.to_pandas(name)
    assert frame.attrs["units"] == {it.name: it.unit for it in columns if it.unit}


def test_the_page_documents_every_column() -> None:
    page = (ROOT / "docs/python.md").read_text()
    quick = Scenario.load(ROOT / "scenarios/quick.toml").run(duration="1 s")
    for name in Results.tables():
        section = re.search(rf"^### `{name}`$(.*?)(?=^##|\Z)", page, re.M | re.S)
        assert section is not None, name
        rows = re.findall(r"^\| `([^`]+)` \| ([^|]*?) \| ([^|]*?) \|$", section[1], re.M)
        columns = quick.table(name).columns
        assert rows == [(it.name, it.unit, it.description) for it in columns], name


def test_a_parquet_file_is_read_again(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.parquet"
    results.to_parquet(file)
    assert pyarrow.parquet.read_table(file).to_pylist() == results.to_dicts()
    assert polars.read_parquet(file).to_dicts() == results.to_dicts()
    assert pyarrow.parquet.read_schema(file).field("rtt_p50_us").metadata[b"unit"].decode() == "µs"
    with pytest.raises(FileNotFoundError):
        results.to_parquet(tmp_path / "none" / "x.parquet")
    # With polars alone, and with neither.
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    other = tmp_path / "polars.parquet"
    results.to_parquet(other)
    assert polars.read_parquet(other).to_dicts() == results.to_dicts()
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="to_parquet needs pyarrow or polars: pip install pyarrow"):
        results.to_parquet(other)


def test_an_unknown_table_is_refused(results: Results) -> None:
    with pytest.raises(ackwise.Error, match="^there is no table 'run'; there are runs, flows"):
        results.table("run")


def test_a_record_of_radio_is_known_for_one(lab: Program) -> None:
    file = "scenarios/papers/ayadi-2013/grid.toml"
    options = ["--arm", "tcp", "--seed", "1", "--duration", "1s", "--format", "json"]
    text = lab.run("run", file, *options)[0]
    record = json.loads(text)
    assert record["world"] == "radio" and record["runs"]
    for given in (text, json.dumps(record | {"runs": []}), json.dumps(record | {"schema": 99})):
        with pytest.raises(ackwise.Error) as caught:
            Results.from_json(given)
        assert str(caught.value) == (
            "this is a record of low-power radio, whose runs have no tables in Python\n"
            "  `ackwise-lab report` shows it"
        )


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    for data in (b"{}", b"not JSON", bytes([0xD4, 0xC3, 0xB2, 0xA1])):
        file.write_bytes(data)
        with pytest.raises(ackwise.Error) as caught:
            Results.load(file)
        assert str(caught.value).startswith(f"{file}: th")


def test_results_are_pickled(results: Results) -> None:
    again = pickle.loads(pickle.dumps(results))
    assert again.to_json() == results.to_json()
    assert copy.deepcopy(results).to_dicts() == results.to_dicts()
    queues = results.table("queues")
    table = pickle.loads(pickle.dumps(queues))
    assert (table.columns, table.to_dicts()) == (queues.columns, queues.to_dicts())
    error = pickle.loads(pickle.dumps(ackwise.RunError("1 of 4 runs had errors", results)))
    assert str(error) == "1 of 4 runs had errors"
    assert error.results.to_json() == results.to_json()


def test_a_page_is_written(results: Results, tmp_path: Path) -> None:
    results.to_html(tmp_path / "page.html")
    assert "lossy" in (tmp_path / "page.html").read_text()
    assert "<pre>" in results._repr_html_()


def test_what_is_missing_is_named(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="to_polars needs polars: pip install polars"):
        results.to_polars()
