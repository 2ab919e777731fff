"""The report as a page: templates filled with the report's data, a script that draws, pictures as text."""
