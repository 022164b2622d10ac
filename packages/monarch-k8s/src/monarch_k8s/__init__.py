"""Monarch jobs on Kubernetes.

This version registers with the core and offers nothing yet: the names below raise
`monarch.errors.PluginError`.
"""

from monarch.plugins import not_yet_offered
from monarch_k8s.__about__ import __version__

__all__ = ["__version__"]

__getattr__ = not_yet_offered("monarch-k8s", __version__, "KubernetesJob")
