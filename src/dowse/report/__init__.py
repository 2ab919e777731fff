"""What people read after a run: one page, text for papers and programs, and the comparison of two stores."""

from dowse.report.html.page import write_html
from dowse.report.text import FORMATS, write_text
from dowse.report.text.compare import compare_stores

__all__ = ["FORMATS", "compare_stores", "write_html", "write_text"]
