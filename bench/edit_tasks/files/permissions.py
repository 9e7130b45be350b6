"""Roles, the permissions they carry, and who has which role.

Permissions are written ``area:action``, for example ``orders:refund``. A role
can grant a whole area with ``orders:*``, and an administrator simply has ``*``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

log = logging.getLogger("permissions")


class PermissionDenied(Exception):
    def __init__(self, user: str, permission: str) -> None:
        super().__init__(f"{user} may not {permission}")
        self.user = user
        self.permission = permission


@dataclass(frozen=True)
class Role:
    name: str
    grants: frozenset[str]
    parent: str | None = None


class PermissionTable:
    """All roles and their members. A role inherits what its parent grants."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._members: dict[str, set[str]] = {}

    def define(self, name: str, grants: Iterable[str], parent: str | None = None) -> Role:
        if parent is not None and parent not in self._roles:
            raise KeyError(f"unknown parent role: {parent}")
        role = Role(name, frozenset(grants), parent)
        self._roles[name] = role
        return role

    def assign(self, user: str, role: str) -> None:
        if role not in self._roles:
            raise KeyError(f"unknown role: {role}")
        self._members.setdefault(user, set()).add(role)

    def revoke(self, user: str, role: str) -> None:
        self._members[user].remove(role)

    def grants_of(self, name: str) -> set[str]:
        """What a role grants, with everything it inherits."""
        grants: set[str] = set()
        role: Role | None = self._roles[name]
        while role is not None:
            grants |= role.grants
            role = self._roles[role.parent] if role.parent else None
        return grants

    def is_allowed(self, user: str, permission: str) -> bool:
        for role in self._members.get(user, ()):
            if any(matches(grant, permission) for grant in self.grants_of(role)):
                return True
        return False

    def require(self, user: str, permission: str) -> None:
        """Raise PermissionDenied unless is_allowed says otherwise."""
        if not self.is_allowed(user, permission):
            print(f"denied {permission} to {user}")
            raise PermissionDenied(user, permission)

    def users_with(self, permission: str) -> list[str]:
        return sorted(user for user in self._members if self.is_allowed(user, permission))


def matches(grant: str, permission: str) -> bool:
    """Whether a granted pattern covers a permission."""
    if grant == "*":
        return True
    else:
        if grant.endswith(":*"):
            return permission.startswith(grant[:-1])
        else:
            return grant == permission


def visible_actions(table: PermissionTable, user: str, area: str, actions: list[str]) -> list[str]:
    """The buttons to show to this user, in the order they were given."""
    return [action for action in actions if table.is_allowed(user, f"{area}:{action}")]
