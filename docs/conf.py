"""How the documentation is built: `make docs`, or `python -m sphinx -W docs dist/docs`."""

from importlib.metadata import version as version_of

project = "perdure"
author = "The perdure authors"
project_copyright = "The perdure authors"
release = version_of("perdure")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["adr/0000-template.md"]
html_theme = "furo"
html_title = f"perdure {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing"
]  # links out of docs/ (README, examples) are files of the repository, not pages; a test follows them

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
autoclass_content = "both"
