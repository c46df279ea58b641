"""Write `jars.toml`: the class path of Kafka with sizes and hashes. Run after changing a version:

python -m runtime.broker.pin
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from runtime import settings
from runtime.broker.jars import KAFKA, LOG_BINDING, Jar, maven

_HEADER = "# Written by `python -m runtime.broker.pin`: the class path of the embedded broker.\n"


def resolve(mirror: str) -> list[Jar]:
    """Walk the dependency tree with jgo and fetch all that is needed at run time."""
    with tempfile.TemporaryDirectory() as repository:
        context = maven(mirror, Path(repository))
        roots, transitive = context.resolver.resolve([context.create_dependency(KAFKA)])
        needed = [d for d in transitive if d.scope in ("compile", "runtime")]
        binding = context.create_dependency(LOG_BINDING)
        jars = [_pin(d.artifact) for d in [*roots, *needed, binding]]
    return sorted(jars, key=lambda jar: jar.coordinate)


def render(jars: list[Jar]) -> str:
    """The text of `jars.toml`."""
    entries = (
        f'\n[[jar]]\ncoordinate = "{j.coordinate}"\nsize = {j.size}\nsha256 = "{j.sha256}"\n' for j in jars
    )
    return _HEADER + "".join(entries)


def _pin(artifact: object) -> Jar:
    path: Path = artifact.resolve()  # type: ignore[attr-defined]
    group, name, _, version = str(artifact).split(":")
    data = path.read_bytes()
    return Jar(f"{group}:{name}:{version}", len(data), hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    target = Path(__file__).with_name("jars.toml")
    target.write_text(render(resolve(settings.load().maven_repo)))
