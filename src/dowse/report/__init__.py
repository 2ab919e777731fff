"""What people look at after a run: pictures, tables, curves, and the report that holds them all."""

from dowse.report.html import write_html
from dowse.report.picture import Attempt, Row, contact_sheet
from dowse.report.text import FORMATS, write_text
from dowse.report.versus import compare_stores

__all__ = ["FORMATS", "Attempt", "Row", "compare_stores", "contact_sheet", "write_html", "write_text"]
