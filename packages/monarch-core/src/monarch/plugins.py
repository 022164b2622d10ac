"""Finds the plugins, checks that they speak our interface, and asks them for what they make.

Plugins load once, when the first of them is needed: importing this module loads none. What ships
with the core comes in by the same door as everybody else's, and is checked the same way. All
questions are asked at set-up; no message ever passes through here.

A plugin for another version of the interface is left out, with a warning: that is what half an
upgrade looks like, and what does not need it goes on. Any other fault of a plugin is an error at once.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import pluggy

from monarch import hookspecs
from monarch.__about__ import __version__
from monarch.errors import PluginError, PluginVersionError
from monarch.hookspecs import API_VERSION, PluginInfo

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from monarch.abc import Launcher, Transport

__all__ = [
    "BUILTINS",
    "ENTRY_POINT_GROUP",
    "installed",
    "interfaces",
    "launcher_for",
    "left_out",
    "not_yet_offered",
    "transport_for",
]

ENTRY_POINT_GROUP = "monarch.plugins"
BUILTINS = ("monarch._builtin.ipc_transport", "monarch._builtin.local_launcher")
_CORE = "monarch-core"
_log = logging.getLogger(__name__)


def transport_for(scheme: str) -> Transport:
    """Return a new transport for `scheme`. Keep it: each call asks the plugins again.

    Raises:
        PluginError: if no plugin has one, naming the schemes there are and what to install, and
            the plugins that are left out for their version.
    """
    made: Transport | None = _loaded().manager.hook.monarch_make_transport(scheme=scheme)
    if made is None:
        _refuse("transport", scheme)
    return made


def launcher_for(scheme: str) -> Launcher:
    """Return a new launcher for `scheme`. Keep it: each call asks the plugins again.

    Raises:
        PluginError: if no plugin has one, naming the schemes there are and what to install, and
            the plugins that are left out for their version.
    """
    made: Launcher | None = _loaded().manager.hook.monarch_make_launcher(scheme=scheme)
    if made is None:
        _refuse("launcher", scheme)
    return made


def installed() -> list[PluginInfo]:
    """Return every distribution that plugs in here, the core included, ordered by name."""
    plugins = _loaded()
    # A plugin need not introduce itself: its metadata names it all the same.
    found = {name: PluginInfo(name, version) for name, version in plugins.versions.items()}
    for info in plugins.manager.hook.monarch_plugin_info():
        earlier = found.get(info.distribution, info).offers
        offers = tuple(sorted({*earlier, *info.offers}))
        found[info.distribution] = PluginInfo(info.distribution, info.version, offers)
    return [found[name] for name in sorted(found)]


def interfaces() -> dict[str, tuple[int, int]]:
    """Return the interface version that each distribution speaks; the greatest, if its plugins differ."""
    return dict(_loaded().interfaces)


def left_out() -> list[PluginVersionError]:
    """Return why plugins are not used that are for another version of the interface."""
    return list(_loaded().left_out)


def not_yet_offered(distribution: str, version: str, *names: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a plugin's package whose features `names` are still to come."""
    package = distribution.replace("-", "_")

    def refuse(name: str) -> NoReturn:
        if name in names:
            raise PluginError(
                f"{distribution} {version} does not offer {name} yet; "
                f"its changelog says which version does: upgrade {distribution} then"
            )
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse


class _Plugins:
    """The plugins of this process, each loaded, checked and registered."""

    def __init__(self, entry_points: Iterable[EntryPoint]) -> None:
        self.manager = pluggy.PluginManager(hookspecs.hookspec.project_name)
        self.manager.add_hookspecs(hookspecs)
        self.versions: dict[str, str] = {}
        self.interfaces: dict[str, tuple[int, int]] = {}
        self.left_out: list[PluginVersionError] = []
        origins: dict[str, str] = {}
        for entry_point in entry_points:
            distribution, version = _origin(entry_point)
            where = f"plugin {entry_point.name!r} of {distribution} ({entry_point.value})"
            if entry_point.name in origins:
                raise PluginError(
                    f"two plugins have the name {entry_point.name!r}: {origins[entry_point.name]} and "
                    f"{distribution}; uninstall one of them"
                )
            origins[entry_point.name] = distribution
            plugin = _load(entry_point, where)
            try:
                speaks = _check_version(plugin, entry_point.name, distribution, version, where)
            except PluginVersionError as refusal:
                _log.warning("%s", refusal)
                self.left_out.append(refusal)
                continue
            self._register(plugin, entry_point.name, where)
            self.versions[distribution] = version
            self.interfaces[distribution] = max(speaks, self.interfaces.get(distribution, speaks))

    def _register(self, plugin: object, name: str, where: str) -> None:
        # ValueError: the same module under two names. The other one: a hook that does not exist,
        # or an argument that the hook does not have.
        try:
            self.manager.register(plugin, name=name)
            self.manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"{where} cannot be registered: {error}") from error


_lock = threading.RLock()
_plugins: _Plugins | None = None
_loading = False


def _loaded() -> _Plugins:
    global _plugins, _loading
    if _plugins is None:
        with _lock:
            # The lock lets its own thread in again: that is a plugin which asks while it is imported.
            if _loading:
                raise PluginError("a plugin asked for plugins while it was being imported; ask later")
            if _plugins is None:
                _loading = True
                try:
                    _plugins = _Plugins(_entry_points())
                finally:
                    _loading = False
    return _plugins


def _entry_points() -> list[EntryPoint]:
    # Imported here: it costs more than this whole module, and a process may need no plugin at all.
    from importlib.metadata import EntryPoint, entry_points

    ours = [EntryPoint(name=module, value=module, group=ENTRY_POINT_GROUP) for module in BUILTINS]
    return [*ours, *sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda found: found.name)]


def _origin(entry_point: EntryPoint) -> tuple[str, str]:
    distribution = entry_point.dist
    return (distribution.name, distribution.version) if distribution else (_CORE, __version__)


def _load(entry_point: EntryPoint, where: str) -> Any:
    try:
        return entry_point.load()
    except Exception as error:  # a plugin may raise anything; none of it may pass unnamed
        remedy = "repair it or uninstall it"
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "monarch":
            remedy = f"it is written for another {_CORE} than {__version__}: upgrade one of the two"
        raise PluginError(f"{where} cannot be imported: {type(error).__name__}: {error}; {remedy}") from error


def _check_version(plugin: object, name: str, distribution: str, version: str, where: str) -> tuple[int, int]:
    ours = API_VERSION
    match getattr(plugin, "MONARCH_API", None):
        case (int(major), int(minor)):
            theirs = (major, minor)
        case other:
            raise PluginError(
                f"{where} states no interface version: MONARCH_API is {other!r} and must be a pair of "
                f"numbers, such as {ours}"
            )
    if theirs > ours:
        remedy = f"upgrade {_CORE}, which is {__version__}, or install an older {distribution}"
    elif theirs[0] < ours[0]:
        remedy = f"upgrade {distribution}, or install a {_CORE} older than {__version__}"
    else:
        return theirs
    raise PluginVersionError(name, f"{distribution} {version}", theirs, ours, remedy)


def _refuse(kind: str, scheme: str) -> NoReturn:
    here = installed()
    offered = [name.partition(":") for info in here for name in info.offers]
    schemes = sorted(name for its_kind, _, name in offered if its_kind == kind)
    known, left_out = _own_plugins(), _loaded().left_out
    remedies = [str(refusal) for refusal in left_out]
    if scheme in known and any(info.distribution == known[scheme] for info in here):
        remedies = [f"the installed {known[scheme]} does not offer it: upgrade {known[scheme]}"]
    elif scheme in known:
        remedies.append(f"pip install {known[scheme]}")
    elif not left_out:
        ours = f" (of this project: {', '.join(known.values())})" if known else ""
        remedies = [f"install the plugin that brings it{ours}"]
    raise PluginError(
        f"no plugin offers a {kind} for {scheme!r}, installed are: {', '.join(schemes) or 'none'}; "
        + "; ".join(remedies)
    ) from (left_out[0] if left_out else None)


def _own_plugins() -> dict[str, str]:
    """Map each extra of the core that stands for a plugin to the plugin's distribution.

    The packaging metadata is the only place that knows: the code of the core names no plugin.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires(_CORE) or []
    except PackageNotFoundError:  # a source tree on sys.path that nobody installed
        return {}
    extras = (re.match(r"""(monarch-[\w-]+).*extra == ['"]([\w-]+)""", line) for line in requirements)
    return {found[2]: found[1] for found in extras if found}
