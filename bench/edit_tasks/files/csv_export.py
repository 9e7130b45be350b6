"""Exports report rows as CSV that opens cleanly in Excel and LibreOffice."""

import csv
import io
import os
from datetime import date, datetime

DELIMITER = ";"
FORMULA_STARTS = ("=", "+", "-", "@")


class Column:
    """One column of a report: which value it shows, and under which title."""

    def __init__(self, key, title=None, decimals=2):
        self.key = key
        self.title = title or key.replace("_", " ").capitalize()
        self.decimals = decimals

    def render(self, row):
        value = row.get(self.key)
        if isinstance(value, str):
            return escape_formula(value)
        return format_value(value, self.decimals)


class CsvExporter:
    """Writes rows (dictionaries) with a fixed set of columns.

    The files start with a byte order mark, because Excel takes them for
    Latin-1 otherwise.
    """

    def __init__(self, columns, delimiter=DELIMITER):
        self.columns = columns
        self.delimiter = delimiter
        self.rows_written = 0

    def header(self):
        titles = []
        for column in self.columns:
            titles.append(column.title)
        return titles

    def write(self, path, rows):
        f = open(path, "w", newline="", encoding="utf-8-sig")
        writer = csv.writer(f, delimiter=self.delimiter)
        writer.writerow(self.header())
        for row in rows:
            writer.writerow([column.render(row) for column in self.columns])
            self.rows_written += 1
        f.close()
        return self.rows_written

    def preview(self, rows, limit):
        """The header and the first few rows as text."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=self.delimiter, lineterminator="\n")
        writer.writerow(self.header())
        for row in rows[:limit]:
            writer.writerow([column.render(row) for column in self.columns])
        return buffer.getvalue()


def format_value(value, decimals=2):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{decimals}f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def escape_formula(text):
    """Keep spreadsheets from running text that looks like a formula."""
    if text[0] in FORMULA_STARTS:
        return "'" + text
    return text


def default_filename(report, day):
    slug = report.strip().lower().replace(" ", "-")
    return f"{slug}_{day:%Y%m%d}.csv"


def export_message(path, count):
    # Shown in the status bar, so without the folder.
    return "Wrote " + str(count) + " rows to " + os.path.basename(path)
