"""Enumerations of accounts, in the form that model fields take."""

from apps.common.actor import Role

ROLES = [(role.value, role.value) for role in Role]
THEMES = [(theme, theme) for theme in ("system", "light", "dark")]
