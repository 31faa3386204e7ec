"""Build the servers of the stack from their Go modules, once, and keep them in the user's cache.

``~/.cache/otelhooks/servers/NAME-HASH/`` holds the binaries of one server; the hash is that of
name, version and manifest, so that a change of either builds anew and the old ones stay. What was
printed meanwhile is in ``build.log`` beside them.

`go install` does not do for modules with replace directives, so the source is copied out of the
module cache and built there. No page of a server is built: that would need its JavaScript.

Kafka, which only the tests of a fleet need, is no Go module: its archives come from Maven.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otelhooks" / "servers"


class BuildError(Exception):
    """A server cannot be built here.

    Args:
        name: The server.
        cause: Why, in words.
    """

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"{name} cannot be built: {cause}")


@dataclass(frozen=True)
class Recipe:
    """How one server is built.

    Attributes:
        name: The server.
        module: Go module it comes from; for the collector that of the builder; for a server of
            Java its group of artifacts.
        version: Of the module, or of the group.
        binaries: What is built, each a command ``./cmd/BINARY`` of the module; for a server of Java
            the folder of its archives.
        tags: Build tags, by comma.
        page: Folder that has to hold a page, for a module whose own is not part of it.
        manifest: What the collector's builder puts together; None for the others.
        artifacts: For a server of Java, what it needs beside what these need themselves:
            ``NAME`` of its group and version, or ``GROUP:NAME:VERSION``.
    """

    name: str
    module: str
    version: str
    binaries: tuple[str, ...]
    tags: str = ""
    page: str | None = None
    manifest: Path | None = None
    artifacts: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where its binaries are kept."""
        manifest = self.manifest.read_text("utf-8") if self.manifest else ""
        facts = [self.name, self.module, self.version, self.tags, self.page, manifest]
        facts += self.artifacts
        key = json.dumps([*facts, platform.system(), platform.machine()])
        return CACHE / f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


RECIPES = (
    Recipe(
        "otelcol",
        "go.opentelemetry.io/collector/cmd/builder",
        "v0.158.0",
        ("otelcol",),
        manifest=ROOT / "collector" / "builder.yaml",
    ),
    Recipe(
        "alertmanager",
        "github.com/prometheus/alertmanager",
        "v0.34.2",
        ("alertmanager", "amtool"),
        tags="netgo",
        page="ui/app/dist",
    ),
    # v0.308.0 is Prometheus 3.8.0.
    Recipe(
        "prometheus",
        "github.com/prometheus/prometheus",
        "v0.308.0",
        ("prometheus", "promtool"),
        tags="netgo,remove_all_sd",
    ),
    Recipe("jaeger", "github.com/jaegertracing/jaeger", "v1.76.0", ("jaeger",)),
)
"""Every server of the stack, the quick ones to build first."""

KAFKA = Recipe(
    "kafka",
    "org.apache.kafka",
    "4.3.1",
    ("archives",),
    artifacts=("kafka_2.13", "kafka-tools", "org.slf4j:slf4j-simple:1.7.36"),
)
"""Not part of the stack: `make e2e-full` alone needs it."""


def built(recipe: Recipe) -> dict[str, Path] | None:
    """Return the binaries of a server by name if they are in the cache, else None."""
    binaries = {name: recipe.folder / name for name in recipe.binaries}
    return binaries if all(path.exists() for path in binaries.values()) else None


def build(recipe: Recipe) -> dict[str, Path]:
    """Return the binaries of a server by name, built first where the cache has none.

    Two processes that ask at the same time build once: the other one waits.

    Raises:
        BuildError: There is no Go, for Kafka no Maven or no Java 17, or it failed; the log's last
            lines are in the message.
    """
    if (found := built(recipe)) is not None:
        return found
    (_require_java if recipe.artifacts else _require_go)(recipe)
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(recipe), tempfile.TemporaryDirectory(dir=CACHE, prefix=".building-") as name:
        if (found := built(recipe)) is not None:
            return found
        made = Path(name, "made")
        made.mkdir()
        make = _gather if recipe.artifacts else _assemble if recipe.manifest else _compile
        make(recipe, Path(name), made)
        shutil.rmtree(recipe.folder, ignore_errors=True)
        made.rename(recipe.folder)
    return {name: recipe.folder / name for name in recipe.binaries}


def _require_go(recipe: Recipe) -> None:
    if shutil.which("go") is None:
        raise BuildError(
            recipe.name,
            "there is no `go` on the path\n"
            "hint: install Go 1.25 or newer, or use `docker compose up`, which needs none",
        )


def _require_java(recipe: Recipe) -> None:
    if missing := [name for name in ("java", "mvn") if shutil.which(name) is None]:
        raise BuildError(
            recipe.name,
            f"there is no `{missing[0]}` on the path\nhint: install Java 17 or newer, and Maven 3",
        )
    asked = subprocess.run(("java", "-version"), capture_output=True, text=True)
    said = asked.stderr or asked.stdout
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        first = said.strip().partition("\n")[0]
        raise BuildError(
            recipe.name,
            f"it needs Java 17 or newer, `java -version` says `{first}`\n"
            "hint: put a newer `java` first on the path",
        )


@contextmanager
def _locked(recipe: Recipe) -> Generator[None]:
    with open(CACHE / f".{recipe.folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _assemble(recipe: Recipe, work: Path, made: Path) -> None:
    """Let the collector's builder put a collector together from the manifest."""
    install = ("go", "install", "-trimpath", f"{recipe.module}@{recipe.version}")
    _run(recipe, made, install, work, {"GOBIN": str(work)})
    command = (str(work / "builder"), "--config", str(recipe.manifest), "--ldflags", "-s -w")
    _run(recipe, made, command, work)
    (work / "otelcol" / "otelcol").rename(made / "otelcol")


def _compile(recipe: Recipe, work: Path, made: Path) -> None:
    """Compile commands of a module in a copy of its source."""
    asked = ("go", "mod", "download", "-json", f"{recipe.module}@{recipe.version}")
    answer = subprocess.run(asked, cwd=work, capture_output=True, text=True)
    facts: dict[str, str] = json.loads(answer.stdout or "{}")
    if "Dir" not in facts:
        raise BuildError(recipe.name, facts.get("Error", answer.stderr).strip())
    source = work / "source"
    shutil.copytree(facts["Dir"], source, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(source):
        os.chmod(folder, 0o755)  # the module cache is read-only
    if recipe.page:
        page = source / recipe.page
        page.mkdir(parents=True, exist_ok=True)
        (page / "index.html").write_text("<p>There is no page here, the API is complete.")
    flags = ("-trimpath", "-tags", recipe.tags, "-ldflags", "-s -w", "-o", f"{made}{os.sep}")
    commands = (f"./cmd/{name}" for name in recipe.binaries)
    _run(recipe, made, ("go", "build", *flags, *commands), source)


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>otelhooks</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
    </dependency>"""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"


def _gather(recipe: Recipe, work: Path, made: Path) -> None:
    """Let Maven bring a server's archives, and all that they need."""
    own = f"{recipe.module}:{{}}:{recipe.version}"
    named = (each if ":" in each else own.format(each) for each in recipe.artifacts)
    dependencies = "".join(DEPENDENCY.format(*each.split(":")) for each in named)
    pom = work / "pom.xml"
    pom.write_text(POM.format(name=recipe.name, dependencies=dependencies), "utf-8")
    (folder,) = recipe.binaries
    options = ("-DincludeScope=runtime", f"-DoutputDirectory={made / folder}")
    _run(recipe, made, ("mvn", "--batch-mode", "--file", str(pom), COPY, *options), work)


def _run(
    recipe: Recipe,
    made: Path,
    command: tuple[str, ...],
    work: Path,
    more: Mapping[str, str] | None = None,
) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", **(more or {})}
    with open(made / "build.log", "a+", encoding="utf-8", errors="replace") as log:
        ended = subprocess.run(
            command, cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        if ended.returncode:
            log.seek(0)
            last = "".join(log.readlines()[-15:]).strip()
            raise BuildError(recipe.name, f"`{' '.join(command)}` failed:\n{last}")
