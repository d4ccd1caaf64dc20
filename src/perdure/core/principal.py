"""Who speaks to a node, and what the role it was given lets it do. Pure: how somebody proves who they are is the server's matter."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from perdure.core.errors import PermissionDenied

Role: TypeAlias = Literal["admin", "operator", "read-only", "worker"]
Permission: TypeAlias = Literal["read", "operate", "work", "administer"]

ROLES: Final[dict[Role, frozenset[Permission]]] = {
    "admin": frozenset({"read", "operate", "work", "administer"}),
    "operator": frozenset({"read", "operate"}),
    "read-only": frozenset({"read"}),
    "worker": frozenset({"work"}),
}
"""What each role may do. `read`: look at runs and the node; `operate`: start runs and talk to them; `work`: take tasks and report;
`administer`: change the node itself."""


@dataclass(frozen=True)
class Principal:
    """Somebody the node has let in: the name of their key, and its role."""

    name: str
    role: Role

    def may(self, permission: Permission) -> bool:
        """True when the role includes the permission."""
        return permission in ROLES[self.role]

    def require(self, permission: Permission) -> None:
        """Raises `PermissionDenied`, naming the key and its role, when the role does not include the permission."""
        if not self.may(permission):
            can = " or ".join(role for role, permissions in ROLES.items() if permission in permissions)
            raise PermissionDenied(
                f"the key {self.name!r} has the role {self.role}, which may not {permission}: it takes {can}"
            )
