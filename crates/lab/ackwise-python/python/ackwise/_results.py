"""The results of runs, as tables."""

from __future__ import annotations

import html
import json
import os
import typing
from pathlib import Path

from ackwise import _native
from ackwise._errors import Error

if typing.TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from collections.abc import Iterator


class Column(typing.NamedTuple):
    """A column of a table.

    Attributes
    ----------
    name : str
        Its name, which ends in the unit if it has one, e.g. ``rtt_p50_us``.
    type : {'int64', 'float64', 'bool', 'string', 'list<string>'}
        The type of its cells.
    nullable : bool
        Whether a cell may be empty, for what an engine does not know.
    unit : str
        Its unit, e.g. ``'bit/s'``; empty for counts, shares and texts.
    description : str
        What it is.
    """

    name: str
    type: str
    nullable: bool
    unit: str
    description: str


_PANDAS = {
    ("int64", False): "int64",
    ("int64", True): "Int64",
    ("float64", False): "float64",
    ("float64", True): "float64",
    ("bool", False): "bool",
    ("bool", True): "boolean",
    ("string", False): "string",
    ("string", True): "string",
    ("list<string>", False): "object",
}


class Table:
    """A table of :class:`Results`; any library that knows Arrow's PyCapsule interface reads it.

    Examples
    --------
    >>> import ackwise
    >>> results = ackwise.Scenario.example().run(arms="baseline")
    >>> queues = results.table("queues")
    >>> queues
    <ackwise.Table: 2 rows, 12 columns>
    >>> queues.columns[3]
    Column(name='max_packets', type='int64', nullable=True, unit='packets', description='Longest')
    """

    def __init__(self, results: Results, name: str) -> None:
        self._made_of = (results, name)
        self._table = results._record.table(name)

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return Table, self._made_of

    def __repr__(self) -> str:
        return f"<ackwise.Table: {len(self)} rows, {len(self.columns)} columns>"

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export by the Arrow PyCapsule interface.

        Parameters
        ----------
        requested_schema : object, optional
            Ignored: the schema is that of :attr:`columns`.

        Returns
        -------
        PyCapsule
            An ``arrow_array_stream``.
        """
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema by the Arrow PyCapsule interface.

        Returns
        -------
        PyCapsule
            An ``arrow_schema``; fields have ``unit`` and ``description`` in their metadata.
        """
        return self._table.__arrow_c_schema__()

    @property
    def columns(self) -> list[Column]:
        """Name, type, unit and meaning of each column."""
        return [Column(*column) for column in self._table.columns()]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame, shape (rows, columns)
            Whole numbers that may be missing are ``Int64``, others ``int64``; missing numbers with
            a fraction are NaN. ``attrs['units']`` and ``attrs['descriptions']`` have what
            :attr:`columns` says, by column.
        """
        import pandas

        values = self._table.to_dict()
        columns = self.columns
        frame = pandas.DataFrame(
            {
                it.name: pandas.Series(values[it.name], dtype=_PANDAS[it.type, it.nullable])
                for it in columns
            }
        )
        frame.attrs["units"] = {it.name: it.unit for it in columns if it.unit}
        frame.attrs["descriptions"] = {it.name: it.description for it in columns}
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return a data frame of polars, which has to be installed.

        Returns
        -------
        polars.DataFrame, shape (rows, columns)
            Shares its memory with this table.
        """
        try:
            import polars
        except ImportError as error:
            raise _needs("polars", "to_polars") from error
        return polars.DataFrame(self._table)

    def to_arrow(self) -> pyarrow.Table:
        """Return a table of pyarrow, which has to be installed.

        Returns
        -------
        pyarrow.Table, shape (rows, columns)
            Shares its memory with this table; fields have ``unit`` and ``description`` in their
            metadata.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise _needs("pyarrow", "to_arrow") from error
        return pyarrow.table(self._table)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file, by pyarrow or polars, one of which has to be installed.

        Parameters
        ----------
        path : path-like
            The file; existing contents are replaced. Written by pyarrow, its fields have ``unit``
            and ``description`` in their metadata.
        """
        try:
            import pyarrow.parquet
        except ImportError:
            pass
        else:
            pyarrow.parquet.write_table(self.to_arrow(), Path(path))
            return
        try:
            import polars
        except ImportError as error:
            raise _needs("pyarrow or polars", "to_parquet") from error
        polars.DataFrame(self._table).write_parquet(Path(path))

    def to_dict(self) -> dict[str, list[typing.Any]]:
        """Return the values by column.

        Returns
        -------
        dict of str to list, each of shape (rows,)
            ``None`` where a cell is empty.
        """
        return self._table.to_dict()

    def to_dicts(self) -> list[dict[str, typing.Any]]:
        """Return the rows.

        Returns
        -------
        list of dict, shape (rows,)
            By column; ``None`` where a cell is empty.
        """
        return self._table.to_dicts()


def _needs(package: str, method: str) -> ImportError:
    install = package.partition(" ")[0]
    return ImportError(f"{method} needs {package}: pip install {install}", name=install)


class Results:
    """The runs of a scenario, in the order of the scenario.

    An Arrow table of one row for each run, with the figures of ``ackwise-lab run --format json``;
    :meth:`table` has more tables. Printed, it is the comparison that the program prints.

    Parameters
    ----------
    record : object
        A record of the native module; :meth:`load` and :meth:`from_json` make one.

    Examples
    --------
    >>> import ackwise
    >>> results = ackwise.Scenario.example().run()
    >>> results
    <ackwise.Results: 2 runs of 'example' on sim>
    >>> for row in results.to_dicts():
    ...     print(row["arm"], round(row["goodput_bps"] / 1e6, 1), "Mbit/s")
    baseline 8.0 Mbit/s
    adaptive 42.6 Mbit/s
    """

    def __init__(self, record: _native.Record) -> None:
        self._record = record

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return Results.from_json, (self.to_json(),)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read a record.

        Parameters
        ----------
        text : str
            What ``ackwise-lab run --format json`` printed, or :meth:`to_json` returned.

        Returns
        -------
        Results
            Its runs.

        Raises
        ------
        Error
            The text is not a record that this version reads, or is one of low-power radio.
        """
        return cls(_native.Record.from_json(text))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read a record from a file.

        Parameters
        ----------
        path : path-like
            What ``ackwise-lab run --output`` wrote.

        Returns
        -------
        Results
            Its runs.

        Raises
        ------
        Error
            The file is not a record that this version reads, or is one of low-power radio.
        OSError
            It cannot be opened.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (Error, UnicodeDecodeError) as error:
            said = error if isinstance(error, Error) else "this is not a report of ackwise: not UTF-8"
            raise Error(f"{os.fspath(path)}: {said}") from None

    def __repr__(self) -> str:
        count = f"{len(self)} run" + ("" if len(self) == 1 else "s")
        return f"<ackwise.Results: {count} of '{self.scenario}' on {self.engine}>"

    def __str__(self) -> str:
        return self._record.comparison()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __len__(self) -> int:
        return len(self._record)

    def __iter__(self) -> Iterator[dict[str, typing.Any]]:
        return iter(self.to_dicts())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the runs by the Arrow PyCapsule interface.

        Parameters
        ----------
        requested_schema : object, optional
            Ignored.

        Returns
        -------
        PyCapsule
            An ``arrow_array_stream``.
        """
        return self.table().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema of the runs by the Arrow PyCapsule interface.

        Returns
        -------
        PyCapsule
            An ``arrow_schema``.
        """
        return self.table().__arrow_c_schema__()

    @property
    def engine(self) -> str:
        """``'sim'``, ``'virtual'`` or ``'live'``."""
        return self._record.engine

    @property
    def version(self) -> str:
        """The version of ackwise that ran it."""
        return self._record.version

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return self._record.scenario

    @property
    def notes(self) -> list[str]:
        """What a reader should know about these numbers, in sentences."""
        return self._record.notes

    @property
    def errors(self) -> dict[str, list[str]]:
        """The errors by run id; runs without errors are left out."""
        return {run: errors for run, errors in self._record.errors() if errors}

    @property
    def record(self) -> dict[str, typing.Any]:
        """The whole record as ``ackwise-lab run --format json`` prints it."""
        record: dict[str, typing.Any] = json.loads(self.to_json())
        return record

    @staticmethod
    def tables() -> list[str]:
        """Return the names of the tables.

        Returns
        -------
        list of str
            What :meth:`table` takes.
        """
        return _native.Record.tables()

    def table(self, name: str = "runs") -> Table:
        """Return one of the tables.

        Parameters
        ----------
        name : str
            ``'runs'``: a row for each run; ``'flows'``: for each flow of each run; ``'series'``:
            for each flow and time; ``'queues'``: for each direction of a link; ``'queue_series'``:
            for each of those and time; ``'stretch'``: for each number of segments that ACKs
            acknowledged; ``'nodes'``: for each node. The column ``id`` names the run.

        Returns
        -------
        Table
            The table.
        """
        return Table(self, name)

    def to_pandas(self, table: str = "runs") -> pandas.DataFrame:
        """Return a table as a data frame of pandas; see :meth:`Table.to_pandas`.

        Parameters
        ----------
        table : str
            The table's name, as :meth:`table` takes it.

        Returns
        -------
        pandas.DataFrame, shape (rows, columns)
            For ``'runs'`` a row for each run.

        Examples
        --------
        >>> import ackwise
        >>> frame = ackwise.Scenario.example().run().to_pandas()
        >>> frame[["arm", "acks_on_wire", "rtt_p50_us"]].round(1)
                arm  acks_on_wire  rtt_p50_us
        0  baseline          1855    230162.4
        1  adaptive           784     86245.4
        >>> frame.attrs["units"]["rtt_p50_us"]
        'µs'
        """
        return self.table(table).to_pandas()

    def to_polars(self, table: str = "runs") -> polars.DataFrame:
        """Return a table as a data frame of polars, which has to be installed.

        Parameters
        ----------
        table : str
            The table's name, as :meth:`table` takes it.

        Returns
        -------
        polars.DataFrame, shape (rows, columns)
            For ``'runs'`` a row for each run.
        """
        return self.table(table).to_polars()

    def to_arrow(self, table: str = "runs") -> pyarrow.Table:
        """Return a table of pyarrow, which has to be installed.

        Parameters
        ----------
        table : str
            The table's name, as :meth:`table` takes it.

        Returns
        -------
        pyarrow.Table, shape (rows, columns)
            For ``'runs'`` a row for each run.
        """
        return self.table(table).to_arrow()

    def to_parquet(self, path: str | os.PathLike[str], table: str = "runs") -> None:
        """Write a table as a Parquet file, by pyarrow or polars; see :meth:`Table.to_parquet`.

        Parameters
        ----------
        path : path-like
            The file; existing contents are replaced.
        table : str
            The table's name, as :meth:`table` takes it.
        """
        self.table(table).to_parquet(path)

    def to_dicts(self, table: str = "runs") -> list[dict[str, typing.Any]]:
        """Return the rows of a table.

        Parameters
        ----------
        table : str
            The table's name, as :meth:`table` takes it.

        Returns
        -------
        list of dict, shape (rows,)
            By column; ``None`` where a cell is empty.
        """
        return self.table(table).to_dicts()

    def to_json(self) -> str:
        """Return the record as ``ackwise-lab run --format json`` prints it.

        Returns
        -------
        str
            JSON, byte for byte the same.
        """
        return self._record.to_json()

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page with plots that ``ackwise-lab run --html`` writes.

        Parameters
        ----------
        path : path-like
            The file; it opens without a network.
        """
        Path(path).write_bytes(self._record.to_html().encode())
