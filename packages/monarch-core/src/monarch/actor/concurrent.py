"""Another documented home of `concurrent_endpoint`."""

from monarch._actor import concurrent_endpoint

__all__ = ["concurrent_endpoint"]
