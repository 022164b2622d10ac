"""Writes the Python code of `proto/` into the packages that own it.

    hatch run wire:gen              write
    hatch run wire:gen --check      list what is stale, exit 1 if anything is

The path of a .proto file is its protobuf package and its Python package, so
`proto/monarch/wire/v1/envelope.proto` becomes `monarch.wire.v1.envelope_pb2`. The owner is the
package under `packages/` that has the first folder of that path under its `src/`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
_SERVICE = re.compile(r"^service\s+\w+", re.MULTILINE)


def proto_files() -> list[Path]:
    """Return every .proto file, relative to `proto/`."""
    return sorted(path.relative_to(PROTO) for path in PROTO.rglob("*.proto"))


def owner_of(proto: Path) -> Path:
    """Return the `src` folder that the code of `proto` (relative to `proto/`) belongs in."""
    owners = [src for src in ROOT.glob("packages/*/src") if (src / proto.parts[0]).is_dir()]
    if len(owners) != 1:
        raise SystemExit(
            f"proto/{proto}: {len(owners)} packages have src/{proto.parts[0]}, it needs exactly one"
        )
    return owners[0]


def committed_files() -> set[Path]:
    """Return all generated code in the packages."""
    return {path for suffix in _SUFFIXES for path in ROOT.glob(f"packages/*/src/**/*{suffix}")}


def generate(into: Path) -> dict[Path, bytes]:
    """Run the compiler with `into` as scratch folder; return the content of each target path."""
    import grpc_tools

    plain, services = [], []
    for proto in proto_files():
        (services if _SERVICE.search((PROTO / proto).read_text()) else plain).append(proto)
    messages_only = [f"--python_out={into}", f"--mypy_out=quiet:{into}"]
    with_stubs = [*messages_only, f"--grpc_python_out={into}", f"--mypy_grpc_out=quiet:{into}"]
    for protos, outputs in ((plain, messages_only), (services, with_stubs)):
        if protos:
            _protoc(Path(grpc_tools.__file__).parent / "_proto", outputs, protos)
    return {
        owner_of(proto) / path.relative_to(into): path.read_bytes()
        for proto in (*plain, *services)
        for suffix in _SUFFIXES
        if (path := into / proto.parent / (proto.stem + suffix)).exists()
    }


def _protoc(well_known: Path, outputs: list[str], protos: list[Path]) -> None:
    # The compiler looks for the mypy plugins on PATH, and an environment need not be activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"-I{well_known}", *outputs]
    done = subprocess.run([*command, *map(str, protos)], env={**os.environ, "PATH": path}, timeout=300)
    if done.returncode:
        raise SystemExit(done.returncode)


def main() -> int:
    """Write the code, or with `--check` say what differs."""
    parser = argparse.ArgumentParser(description="Write the Python code of proto/ into the packages.")
    parser.add_argument("--check", action="store_true", help="write nothing; list stale files and exit 1")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        wanted = generate(Path(scratch))
    stale = [path for path, content in wanted.items() if not path.exists() or path.read_bytes() != content]
    orphans = [path for path in committed_files() if path not in wanted]
    for path in sorted({*stale, *orphans}):
        print("stale" if check else "wrote" if path in wanted else "removed", path.relative_to(ROOT))
        if check:
            continue
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path])
        else:
            path.unlink()
    return 1 if check and (stale or orphans) else 0


if __name__ == "__main__":
    raise SystemExit(main())
