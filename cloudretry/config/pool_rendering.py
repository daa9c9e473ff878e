"""A pool back to what a file would say, with written-out credentials masked. No I/O."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cloudretry.config.durations import write_duration
from cloudretry.config.pool_vocabulary import MEMBER, POOL
from cloudretry.core.pool_settings import Member
from cloudretry.core.proxy_url import masked_url

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import PoolSettings

__all__ = ["pool_document"]


def pool_document(pool: PoolSettings) -> dict[str, Any]:
    """Every setting, in the order of the vocabulary."""
    document: dict[str, Any] = {}
    for setting in POOL.settings:
        table, _, inner = setting.rpartition(".")
        value = getattr(getattr(pool, table) if table else pool, inner)
        if value is not None and value != ():
            place = document.setdefault(table, {}) if table else document
            place[inner] = _written(setting, value)
    return document


def _written(setting: str, value: Any) -> Any:
    if POOL.is_duration(setting):
        return write_duration(value)
    if setting == "members":
        return [_member(member) for member in value]
    return list(value) if isinstance(value, tuple) else value


def _member(member: Member) -> dict[str, Any]:
    """What differs from the defaults."""
    defaults = {item.name: item.default for item in fields(Member)}
    document = {name: getattr(member, name) for name in MEMBER.settings if getattr(member, name) != defaults[name]}
    if member.url is not None:
        document["url"] = masked_url(member.url)
    return document
