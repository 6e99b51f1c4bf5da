"""Settings of the manual. `make docs` builds it from this folder, without internet."""

import sys
from pathlib import Path
from typing import Any

import dald_model

sys.path.insert(0, str(Path(__file__).parent))
import made
import mathematics
import references

project = "dald_model"
author = project_copyright = "The dald_model authors"
version = release = dald_model.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_design",  # the cards of the gallery
    "myst_nb",
]
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository, which tests check
    "ref.python",  # types in docstrings are prose, and two attributes may have one name
]
nitpicky = True
html_theme = "furo"
html_title = "dald_model"
html_copy_source = False
html_math_renderer = "mathml"
html_css_files = ["manual.css"]
html_static_path = ["static"]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # they are committed as executed, which tests check

autodoc_default_options = {"exclude-members": "report"}  # what `print` is made of
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what is meant
add_module_names = False
numpydoc_show_class_members = False  # autodoc lists them, with their text
numpydoc_xref_param_type = False  # a type here is a phrase, not a class to link to


def setup(app: Any) -> None:
    """What is not written by hand is made before anything is read."""
    app.connect("builder-inited", made.make)
    app.connect("autodoc-skip-member", _says_nothing)
    app.connect("missing-reference", references.plain_where_it_exists)
    app.add_html_math_renderer("mathml", mathematics.INLINE, mathematics.BLOCK)


def _says_nothing(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> Any:
    """Leave out what only tuples say of their fields, which stand under the attributes."""
    said = getattr(member, "__doc__", None) or ""
    return True if said.startswith("Alias for field number") else None
