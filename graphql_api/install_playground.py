"""Install the files of the playground: `python -m graphql_api.install_playground`.

They come out of npm packages of fixed versions, and are kept only if their hashes are right.
Without npm, or without a network, nothing is installed, which is said and is no failure.
"""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import typer

from graphql_api.playground import ASSETS, INSTALLED, Asset, Playground

TIMEOUT_S = 120


def main() -> None:
    """Install what is missing."""
    npm = shutil.which("npm")
    if Playground(INSTALLED).is_local:
        return
    if npm is None:
        typer.echo("npm is not here: the GraphQL playground will be loaded from its public host.")
        return
    INSTALLED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            _pack(npm, Path(folder))
        except (OSError, subprocess.SubprocessError):
            typer.echo("npm cannot fetch the GraphQL playground: it will be loaded from its host.")
            return
        for asset in ASSETS:
            (INSTALLED / asset.name).write_bytes(_content(asset, Path(folder)))


def _pack(npm: str, folder: Path) -> None:
    packages = sorted({f"{asset.package}@{asset.version}" for asset in ASSETS})
    subprocess.run(  # noqa: S603 - npm as it was found, with names from the table
        [npm, "pack", "--silent", "--ignore-scripts", *packages],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )


def _content(asset: Asset, folder: Path) -> bytes:
    with tarfile.open(folder / f"{asset.package}-{asset.version}.tgz") as archive:
        member = archive.extractfile(f"package/{asset.path}")
        content = member.read() if member else b""
    if not asset.is_intact(content):
        raise SystemExit(f"{asset.package}@{asset.version}/{asset.path} is not what it was.")
    return content


if __name__ == "__main__":
    main()
