"""Layers of text become frozen settings, with the place where each was written. The only room that knows pydantic."""

from __future__ import annotations

from cloudretry.config.configuration import Configuration
from cloudretry.config.loading import load_configuration, switched_off
from cloudretry.config.place import Place

__all__ = ["Configuration", "Place", "load_configuration", "switched_off"]
