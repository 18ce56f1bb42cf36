"""The rules for what operators and engines configure, in one place for every door.

Functions return the accepted form or raise INVALID_ARGUMENT that names the field as REST spells
it; the protocol's door translates the spelling. What WIRE.md A accepts "with a warning" is
returned by `groups.group_warnings`, never raised.
"""
