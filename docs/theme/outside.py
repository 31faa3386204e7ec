"""A hook of MkDocs: anchors as on a forge, and pages of the repository that lie outside docs.

These are under ``repository/`` there, so a relative link that crosses the border of docs is
rewritten; one that leads to no file of the site fails a strict build.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent.parent
OUTSIDE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "collector/README.md",
    "dashboards/README.md",
    "tests/upstream/README.md",
)

# A fenced block, a code span, or a link to a relative target.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]*`|(?P<text>\]\()(?P<target>(?![a-z]+:|#)[^)\s#]+)",
    re.MULTILINE | re.DOTALL,
)


def slug(heading: str, separator: str) -> str:
    """Return the anchor that a heading has where the repository is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    """Make anchors the way the links of the pages name them."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs."""
    for name in OUTSIDE:
        files.append(File.generated(config, f"repository/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links between docs and the rest of the repository lead there in the site."""
    here = _of_repository(page.file.src_uri)

    def rewritten(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        target = os.path.normpath(here.parent / found["target"])
        inside = _of_site(PurePosixPath(target).as_posix())
        return found["text"] + os.path.relpath(inside, PurePosixPath(page.file.src_uri).parent)

    return _LINK.sub(rewritten, markdown)


def _of_repository(src_uri: str) -> PurePosixPath:
    return (
        PurePosixPath(src_uri.removeprefix("repository/"))
        if _is_outside(src_uri)
        else (PurePosixPath("docs", src_uri))
    )


def _of_site(path: str) -> str:
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def _is_outside(src_uri: str) -> bool:
    return src_uri.startswith("repository/")
