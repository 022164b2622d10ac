"""What this version of the package says honestly of itself."""

from __future__ import annotations

import pytest

import monarch_k8s
from monarch.errors import PluginError


@pytest.mark.parametrize("name", ["KubernetesJob"])
def test_a_feature_to_come_is_refused_with_this_version(name):
    with pytest.raises(PluginError, match=f"{monarch_k8s.__version__} does not offer {name} yet"):
        getattr(monarch_k8s, name)
