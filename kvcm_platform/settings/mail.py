"""Where e-mail goes, out of one address. No Django: the table of variables checks with it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """`kind` is smtp, file (then `folder` says where) or console."""

    kind: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    starts_tls: bool = False
    is_tls: bool = False
    folder: str = ""


def parse_mail_url(text: str) -> MailServer:
    """Raises ValueError with what is wrong, without the password."""
    parts = urlsplit(text)
    if parts.scheme == "console":
        return MailServer("console")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ValueError("a folder is written file:///folder")
        return MailServer("file", folder=unquote(parts.path))
    if parts.scheme not in _PORTS:
        raise ValueError("must begin with smtp://, smtp+starttls://, smtps://, file:/// or console:")
    if not parts.hostname or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"is written {parts.scheme}://[user:password@]host[:port]")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError("the port is no number below 65536") from error
    return MailServer(
        "smtp",
        host=parts.hostname,
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starts_tls=parts.scheme == "smtp+starttls",
        is_tls=parts.scheme == "smtps",
    )
