"""Excel workbooks, through openpyxl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailwise.errors import FormatError, require
from tailwise.formats.frames import read_frame
from tailwise.formats.list_options import ListOptions
from tailwise.formats.registry import register_format
from tailwise.models import TabularMDP


def read_excel(path: Path, **options: Any) -> TabularMDP:
    """Transition list, first sheet of an Excel workbook (openpyxl)."""
    excel: Any = require("openpyxl", "excel", f"reading {path}")
    try:
        with path.open("rb") as file:
            sheet = excel.load_workbook(file, read_only=True, data_only=True).worksheets[0]
            rows = list(enumerate(sheet.iter_rows(values_only=True), 1))
    except Exception as error:  # openpyxl raises many types
        raise FormatError(f"{path}: not a readable workbook: {str(error)[:200]}") from None
    rows = [(k, cells) for k, cells in rows if any(cell is not None for cell in cells)]
    if not rows:
        raise FormatError(f"{path}, row 1: the first sheet is empty")
    names = ["" if cell is None else str(cell) for cell in rows[0][1]]
    columns = {name: [cells[k] for _, cells in rows[1:]] for k, name in enumerate(names) if name}

    def place(entry: int) -> str:
        return f"{path}, row {rows[entry + 1][0]}"

    return read_frame(columns, ListOptions(**options), source=str(path), place=place, path=path)


register_format("excel", read_excel, extensions=(".xlsx", ".xlsm"), options=ListOptions)
