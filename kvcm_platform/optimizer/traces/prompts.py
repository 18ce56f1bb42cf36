"""Prompts, as logs of front ends and engines have them: text or tokens, one JSON object a line.

The prompt is the first of `tokens`, `token_ids`, `prompt_token_ids` (ids, or the texts of tokens), `prompt`,
`text` (a string, or ids) and `messages` (`role` and `content` each). The time is `timestamp_us`,
`timestamp_ns`, `timestamp` or `created` (seconds, milliseconds or microseconds by how large it is, or a
date); without it requests are a second apart. `instance_id`, `model`, `session_id`, `user`, `type`,
`output_len`, `output_length` and `completion_tokens` are used where they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import members

Tokenize = Callable[[str], Sequence[int | str]]

_PROMPT = ("tokens", "token_ids", "prompt_token_ids", "prompt", "text", "messages")
_WORD = re.compile(r"\s*\S+")
_SECONDS_BELOW = 10**11
_MILLISECONDS_BELOW = 10**14


@dataclass(frozen=True, slots=True)
class Prompt:
    at_us: int
    tokens: Sequence[int | str]
    instance: str
    session: str
    type: str
    output_tokens: int


def words(text: str) -> list[str]:
    """The words of a text, each with the space before it: tokens for who has no tokenizer at hand.

    Equal prefixes stay equal; lengths are in words, not in tokens of a model.
    """
    return _WORD.findall(text)


def is_prompt(record: Any) -> bool:
    """Whether a record has the text or the tokens of a prompt, and no keys."""
    return isinstance(record, dict) and not record.get("keys") and any(record.get(name) for name in _PROMPT)


def prompt_of(number: int, record: dict[str, Any], tokenize: Tokenize) -> Prompt:
    """Raises ValueError."""
    return Prompt(
        at_us=_at_us(number, record),
        tokens=_tokens(record, tokenize),
        instance=_label(record, "instance_id", "model"),
        session=_label(record, "session_id", "user"),
        type=_label(record, "type"),
        output_tokens=_first_number(record, "output_len", "output_length", "completion_tokens"),
    )


def _tokens(record: dict[str, Any], tokenize: Tokenize) -> Sequence[int | str]:
    name = next((name for name in _PROMPT if record.get(name)), None)
    if name is None:
        raise ValueError(f"none of {', '.join(_PROMPT)} is there")
    value = record[name]
    if name == "messages":
        value = _conversation(value)
    if isinstance(value, str):
        return tokenize(value)
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return value
    return members.token_ids(value, name)


def _conversation(messages: Any) -> str:
    if not isinstance(messages, list):
        raise ValueError("messages is not a list")
    parts = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ValueError("a message has no role")
        content = message.get("content")
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        parts.append(f"<{message['role']}> {content or ''}")
    return "\n".join(parts)


def _at_us(number: int, record: dict[str, Any]) -> int:
    if "timestamp_us" in record:
        return members.whole(record, "timestamp_us")
    if "timestamp_ns" in record:
        return members.whole(record, "timestamp_ns") // 1000
    value = record.get("timestamp", record.get("created"))
    if value is None:
        return (number - 1) * 1_000_000
    if isinstance(value, str):
        try:
            return round(datetime.fromisoformat(value).timestamp() * 1e6)
        except ValueError:
            raise ValueError(f"timestamp {value!r:.40} is no date") from None
    at_us = members.seconds_us(value, "timestamp")
    if abs(value) < _SECONDS_BELOW:
        return at_us
    return at_us // 1000 if abs(value) < _MILLISECONDS_BELOW else at_us // 1_000_000


def _label(record: dict[str, Any], *names: str) -> str:
    value = next((record[name] for name in names if record.get(name) not in (None, "")), "")
    if isinstance(value, str | int):
        return str(value)
    raise ValueError(f"{names[0]} is neither a string nor a number")


def _first_number(record: dict[str, Any], *names: str) -> int:
    return next((members.whole(record, name) for name in names if record.get(name) is not None), 0)
