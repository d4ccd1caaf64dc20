"""How the documentation is built: `make docs`, or `python -m sphinx -W docs dist/docs`."""

from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

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


class Rules(Directive):
    """Lists every rule with its tests, as they stand when the page is built: `perdure rules` in a page."""

    def run(self) -> list[nodes.Node]:
        from perdure.proof.page import page
        from perdure.proof.results import read_results
        from perdure.proof.standing import RESULTS, standings

        root = Path(__file__).parents[1]
        left = root / RESULTS
        found = standings(read_results(left) if left.exists() else {}, root / "tests", root)
        section = nodes.Element()
        self.state.nested_parse(StringList(page(found), "perdure rules"), self.content_offset, section, match_titles=True)
        return section.children


def setup(app: Sphinx) -> None:
    app.add_directive("perdure-rules", Rules)
