"""Generate `kvcm_platform/pb` from the .proto files of this folder.

    .venv/bin/python proto/generate.py            write the modules
    .venv/bin/python proto/generate.py --check    exit 1 if the committed ones differ

The folder is mapped to `kvcm_platform/pb` for the compiler, so the generated imports are
absolute (`from kvcm_platform.pb import …`) without any rewriting.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

SOURCE = Path(__file__).resolve().parent
TARGET = SOURCE.parent / "kvcm_platform" / "pb"
PACKAGE = "kvcm_platform/pb"
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def compile_to(folder: Path) -> None:
    """Run the compiler for every .proto file; modules land in `folder/kvcm_platform/pb`."""
    names = sorted(path.name for path in SOURCE.glob("*.proto"))
    arguments = [
        "protoc",
        f"--proto_path={PACKAGE}={SOURCE}",
        f"--proto_path={WELL_KNOWN}",
        f"--python_out={folder}",
        f"--pyi_out={folder}",
        f"--grpc_python_out={folder}",
        *(f"{PACKAGE}/{name}" for name in names),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("the protocol compiler failed")


def read_generated(folder: Path) -> dict[str, str]:
    """Name and text of every generated module in `folder`."""
    return {
        path.name: path.read_text(encoding="utf-8")
        for pattern in GENERATED
        for path in sorted(folder.glob(pattern))
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate kvcm_platform/pb from proto/*.proto.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    check = parser.parse_args().check

    with tempfile.TemporaryDirectory() as scratch:
        compile_to(Path(scratch))
        fresh = read_generated(Path(scratch) / PACKAGE)
    committed = read_generated(TARGET)
    changed = sorted(
        name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name)
    )

    if check:
        for name in changed:
            sys.stderr.write(f"kvcm_platform/pb/{name} does not match proto/: run make proto\n")
        return 1 if changed else 0
    for name in changed:
        if name in fresh:
            (TARGET / name).write_text(fresh[name], encoding="utf-8")
        else:
            (TARGET / name).unlink()
        sys.stdout.write(f"kvcm_platform/pb/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
