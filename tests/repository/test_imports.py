"""What importing Monarch does not bring with it."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "numpy",
    "grpc",
    "monarch_rdma",
    "monarch_fs",
    "monarch_telemetry",
    "monarch_k8s",
    "monarch_slurm",
)
OPTIONAL = {"torch", "numpy"}


@pytest.mark.parametrize(
    "module", ["monarch", "monarch.actor", "monarch.cli", "monarch.plugins", "monarch.hookspecs"]
)
def test_importing_it_brings_neither_torch_nor_a_plugin(module):
    program = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_no_module_of_the_core_imports_torch_or_numpy_by_being_imported(source_modules):
    offenders = [
        f"{path}:{node.lineno}"
        for path in source_modules
        if "monarch-core" in str(path)
        for node in _imported_at_once(ast.parse(path.read_text()))
        if _packages(node) & OPTIONAL
    ]
    assert offenders == []


def _imported_at_once(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports that run with the module: not those in functions or under TYPE_CHECKING."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}
