"""What people look at after a run: pictures, tables, curves."""

from dowse.report.picture import Attempt, Row, contact_sheet

__all__ = ["Attempt", "Row", "contact_sheet"]
