"""The GraphQL playground for browsers: GraphiQL, from our own origin where it was installed.

`python -m graphql_api.install_playground` installs it. Without that the page loads the same files
from a public host, bound to the same hashes, and says so. The page holds no data and needs no key:
what is typed into its headers is sent with each query, and is not stored in the browser.
"""

import base64
import hashlib
from pathlib import Path
from typing import NamedTuple

ROUTE = "/graphql/assets"
CDN = "https://unpkg.com"
HERE = Path(__file__).parent
INSTALLED = HERE / "playground_assets"
STARTER = "playground.js"
MIME_TYPES = {".js": "text/javascript", ".css": "text/css"}


class Asset(NamedTuple):
    """A file of an npm package. `digest`: its SHA-384 in base64."""

    package: str
    version: str
    path: str
    digest: str

    @property
    def name(self) -> str:
        """What it is called here. The version in it lets browsers keep it for ever."""
        return f"{self.package}-{self.version}{Path(self.path).suffix}"

    def is_intact(self, content: bytes) -> bool:
        """Whether this is the file that the digest was made of."""
        return base64.b64encode(hashlib.sha384(content).digest()).decode() == self.digest


ASSETS = (
    Asset(
        "graphiql",
        "3.8.3",
        "graphiql.min.css",
        "Mq3vbRBY71jfjQAt/DcjxUIYY33ksal4cgdRt9U/hNPvHBCaT2JfJ/PTRiPKf0aM",
    ),
    Asset(
        "react",
        "18.2.0",
        "umd/react.production.min.js",
        "tMH8h3BGESGckSAVGZ82T9n90ztNXxvdwvdM6UoR56cYcf+0iGXBliJ29D+wZ/x8",
    ),
    Asset(
        "react-dom",
        "18.2.0",
        "umd/react-dom.production.min.js",
        "bm7MnzvK++ykSwVJ2tynSE5TRdN+xL418osEVF2DE/L/gfWHj91J2Sphe582B1Bh",
    ),
    Asset(
        "graphiql",
        "3.8.3",
        "graphiql.min.js",
        "HbRVEFG0JGJZeAHCJ9Xm2+tpknBQ7QZmNlO/DgZtkZ0aJSypT96YYGRNod99l9Ie",
    ),
)

_NOTICE = (
    f"<p>These scripts come from {CDN}, because they are not installed here. "
    "<code>make setup</code> installs them, where there is npm.</p>"
)


class Playground:
    """The page and the files that it loads, looked for once in `folder`."""

    def __init__(self, folder: Path = INSTALLED) -> None:
        found = {
            asset.name: folder / asset.name for asset in ASSETS if _is_installed(asset, folder)
        }
        self.is_local = len(found) == len(ASSETS)
        self.files = {STARTER: HERE / STARTER, **(found if self.is_local else {})}
        """Each file that is served, by its name."""
        self.html = self._html()
        self.policy = self._policy()

    def _html(self) -> str:
        template = (HERE / "playground.html").read_text("utf-8")
        tags = [self._tag(asset) for asset in ASSETS]
        return (
            template.replace("<!-- styles -->", "\n".join(t for t in tags if t.startswith("<link")))
            .replace("<!-- scripts -->", "\n".join(t for t in tags if t.startswith("<script")))
            .replace("<!-- notice -->", "" if self.is_local else _NOTICE)
        )

    def _tag(self, asset: Asset) -> str:
        url = f"{ROUTE}/{asset.name}"
        if not self.is_local:
            url = f"{CDN}/{asset.package}@{asset.version}/{asset.path}"
        checked = f'integrity="sha384-{asset.digest}" crossorigin="anonymous"'
        if asset.path.endswith(".css"):
            return f'<link rel="stylesheet" href="{url}" {checked}>'
        return f'<script src="{url}" {checked}></script>'

    def _policy(self) -> str:
        """The page's Content-Security-Policy. GraphiQL's editor sets styles on its elements."""
        origins = "'self'" if self.is_local else f"'self' {CDN}"
        return (
            f"default-src 'none'; script-src {origins}; style-src {origins} 'unsafe-inline'; "
            f"font-src {origins} data:; img-src 'self' data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )


def _is_installed(asset: Asset, folder: Path) -> bool:
    path = folder / asset.name
    return path.is_file() and asset.is_intact(path.read_bytes())
