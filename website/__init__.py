"""What makes the documentation site out of the pages in docs/, the code and the report's style: see mkdocs.yml."""
