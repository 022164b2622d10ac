"""Generated code: who owns it, and which libraries it asks of our users."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What each kind of generated file says about the library it needs, and that library.
FLOORS = {
    "protobuf": ("_pb2.py", re.compile(r"Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+),")),
    "grpcio": ("_pb2_grpc.py", re.compile(r"GRPC_GENERATED_VERSION = '(\d+)\.(\d+)\.(\d+)'")),
}


@pytest.fixture(scope="module")
def gen_wire():
    spec = importlib.util.spec_from_file_location("gen_wire", ROOT / "tools" / "gen_wire.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared_floor(package: Path, library: str) -> tuple[int, ...]:
    """Return the lowest version of `library` that `package` says it works with."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    requirements = [*project["dependencies"], *(line for extra in extras for line in extra)]
    floors = [found[1] for line in requirements if (found := re.match(rf"{library}>=([\d.]+)", line))]
    assert floors, f"{package.name} has generated code that needs {library}, and does not declare it"
    numbers = [int(part) for part in floors[0].split(".")]
    return tuple([*numbers, 0, 0][:3])


@pytest.mark.parametrize("library", FLOORS)
def test_the_declared_floor_is_the_one_the_generated_code_enforces(library):
    suffix, stated = FLOORS[library]
    for code in ROOT.glob(f"packages/*/src/**/*{suffix}"):
        needed = tuple(map(int, stated.search(code.read_text()).groups()))
        package = ROOT / "packages" / code.relative_to(ROOT / "packages").parts[0]
        assert declared_floor(package, library) == needed, code


def test_all_generated_code_comes_from_a_proto_file(gen_wire):
    owned = {gen_wire.owner_of(proto) / proto.with_suffix("") for proto in gen_wire.proto_files()}
    found = {path.with_name(path.name.partition("_pb2")[0]) for path in gen_wire.committed_files()}
    assert found == owned


def test_generated_code_lies_in_a_versioned_wire_package(gen_wire):
    assert [
        path
        for path in gen_wire.committed_files()
        if not re.search(r"/wire/v\d+/\w+$", str(path.with_suffix("")))
    ] == []
