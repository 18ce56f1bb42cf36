"""Enumerations of accounts, in the form that model fields take."""

from apps.common.actor import Role
from apps.common.choices import choices_of

ROLES = choices_of(Role)
THEMES = [(theme, theme) for theme in ("system", "light", "dark")]
