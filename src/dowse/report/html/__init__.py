"""The report as a page: templates filled with the report's data, a script that draws, pictures as text."""

from dowse.report.html.page import write_html

__all__ = ["write_html"]
