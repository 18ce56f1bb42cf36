#!/usr/bin/env bash
# System packages that tests need: a browser, a C compiler, HTTP/2 tools, a mount that can hang, and a library of the Mooncake client;
# with "long" also what clients in C++ and Go are built with.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
for tool in curl openssl; do
  command -v $tool >/dev/null || missing+=("$tool")
done
command -v bindfs >/dev/null || missing+=(bindfs)
command -v h2load >/dev/null || missing+=(nghttp2-client)
if [ "${1:-}" = long ]; then
  command -v g++ >/dev/null || missing+=(g++)
  command -v pkg-config >/dev/null || missing+=(pkg-config)
  command -v protoc >/dev/null || missing+=(protobuf-compiler)
  command -v grpc_cpp_plugin >/dev/null || missing+=(protobuf-compiler-grpc)
  [ -e /usr/include/grpcpp/grpcpp.h ] || missing+=(libgrpc++-dev)
  command -v go >/dev/null || missing+=(golang-go)
  [ -e /usr/share/gocode/src/google.golang.org/grpc ] || missing+=(golang-google-grpc-dev)
fi
command -v chromium >/dev/null || missing+=(chromium)
ldconfig -p 2>/dev/null | grep -q 'libibverbs\.so\.1' || missing+=(libibverbs1)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && exit 0
fi
echo "The tests need these Debian packages: ${missing[*]}" >&2
exit 1
