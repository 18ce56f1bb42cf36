"""The one table that an operator sees when everything is ready."""

from __future__ import annotations

from kvcm_platform.settings.env import Env

from .prepare import Login


def announcement(env: Env, login: Login, seconds: float) -> str:
    """Where everything answers and how to log in; the password only when it was made just now."""
    host = "127.0.0.1" if env.bind in {"0.0.0.0", "localhost"} else env.bind  # noqa: S104
    host = f"[{host}]" if ":" in host else host
    web = f"http://{host}:{env['KVCM_WEB_PORT']}"
    account = f"{login.username} / {login.password or '(as before)'}"
    rows = [
        ("Web UI", f"{web}/"),
        ("REST API", f"{web}/api/v1/"),
        ("Health, metrics", f"{web}/healthz/ready   {web}/metrics"),
        ("MetaService", _door(host, env["KVCM_META_RPC_PORT"], env["KVCM_META_HTTP_PORT"])),
        ("AdminService", _door(host, env["KVCM_ADMIN_RPC_PORT"], env["KVCM_ADMIN_HTTP_PORT"])),
        ("Login", account),
        ("Data, logs", f"{env.data_dir}"),
    ]
    if env["KVCM_DEBUG_SERVICE"]:
        rows.insert(5, ("DebugService", _door(host, env["KVCM_ADMIN_RPC_PORT"], env.debug_http_port)))
    if login.password:
        rows.insert(rows.index(("Login", account)) + 1, ("", "This password is shown only this once."))
    width = max(len(name) for name, _ in rows)
    table = "\n".join(f"  {name:<{width}}  {value}".rstrip() for name, value in rows)
    return f"\nKVCM Platform is ready after {seconds:.1f} s. Ctrl-C stops everything.\n\n{table}\n"


def _door(host: str, rpc_port: int, http_port: int) -> str:
    return f"grpc {host}:{rpc_port}   http://{host}:{http_port}"
