"""The rule about skips in conftest.py, tried on small test files."""

from __future__ import annotations

from pathlib import Path

import pytest

RULE = (Path(__file__).resolve().parents[2] / "conftest.py").read_text()


@pytest.fixture
def run(pytester, monkeypatch):
    def _run(reason: str, *, ci: bool, module: bool = False):
        monkeypatch.setenv("CI", "true" if ci else "")
        pytester.makeconftest(RULE)
        skip = f"pytest.skip({reason!r}, allow_module_level=True)"
        pytester.makepyfile(f"import pytest\n{skip}" if module else f"import pytest\ndef test_it(): {skip}")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider")

    return _run


def test_a_declared_reason_is_a_skip_on_a_developers_machine(run):
    run("needs root: it makes network namespaces", ci=False).assert_outcomes(skipped=1)


def test_an_undeclared_reason_is_a_failure(run):
    result = run("did not feel like it", ci=False)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines("*skipped for a reason that conftest.py does not allow*did not feel like it*")


def test_ci_has_what_a_developer_may_lack(run):
    run("needs root", ci=True).assert_outcomes(failed=1)


def test_ci_may_lack_what_is_declared_for_it(run):
    run("needs an accelerator", ci=True).assert_outcomes(skipped=1)


def test_a_skip_of_a_whole_module_follows_the_same_rule(run):
    run("did not feel like it", ci=False, module=True).assert_outcomes(errors=1)
