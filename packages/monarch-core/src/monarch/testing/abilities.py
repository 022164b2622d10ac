"""What a backend may be able to do beyond what every backend promises.

A suite tests an ability where the subclass declares it by name, and skips those tests elsewhere. A new
test of an ability breaks nobody, while a new test of a promise is a new minor version of the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import pytest

from monarch.errors import WrongArgument

__all__ = ["LAUNCHER", "TRANSPORT", "Suite", "needs"]

TRANSPORT: Mapping[str, str] = {
    "strangers": "Whoever reaches an address can send it bytes without this transport's code; "
    "the method `stranger` returns a socket that did.",
}
"""Abilities of transports, each with what it means."""

LAUNCHER: Mapping[str, str] = {
    "binds_memory": "`LaunchSpec.memory_nodes` is obeyed on this machine, which has NUMA node 0.",
    "kills_sessions": "`Process.kill` also ends what the process started in sessions of their own.",
}
"""Abilities of launchers, each with what it means."""

_Test = TypeVar("_Test", bound=Callable[..., Any])


def needs(ability: str) -> Callable[[_Test], _Test]:
    """Mark a test of a suite: it runs only where `ability` is declared."""

    def mark(test: _Test) -> _Test:
        test.ability = ability  # type: ignore[attr-defined]
        return test

    return mark


class Suite:
    """What all suites have in common."""

    abilities: ClassVar[frozenset[str]] = frozenset()
    """Names of the abilities that the backend has; none if the subclass says nothing."""

    known_abilities: ClassVar[Mapping[str, str]] = {}
    """The abilities there are for this kind of backend."""

    patience: ClassVar[float] = 20.0
    """Seconds that the suite waits for what must happen."""

    def __init_subclass__(cls) -> None:
        unknown = sorted(cls.abilities - cls.known_abilities.keys())
        if unknown:
            raise WrongArgument(
                f"{cls.__name__} declares abilities that do not exist: {', '.join(unknown)}; "
                f"there are: {', '.join(sorted(cls.known_abilities))}"
            )

    @pytest.fixture(autouse=True)
    def _only_declared_abilities(self, request: pytest.FixtureRequest) -> None:
        ability = getattr(request.function, "ability", None)
        if ability is not None and ability not in self.abilities:
            pytest.skip(f"{type(self).__name__} does not declare the ability {ability!r}")
