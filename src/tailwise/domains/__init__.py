"""Named, documented problems, ready to run."""

from tailwise.domains.registry import Domain, list_domains, make, register

__all__ = ["Domain", "list_domains", "make", "register"]
