"""The notebooks run from top to bottom; each asserts what it says."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda it: it.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACKWISE_ROOT", str(ROOT))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in code), "outputs are not committed"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert all(cell.execution_count for cell in code)
    pictures = [out for cell in code for out in cell.outputs if "image/png" in out.get("data", {})]
    assert pictures, "a notebook shows something"


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 3
