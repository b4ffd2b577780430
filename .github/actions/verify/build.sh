#!/usr/bin/env bash
# build.sh PREFIX: build the corun of this action in PREFIX/bin, unless it is there.
set -euo pipefail

prefix=$1
if [ -x "$prefix/bin/corun" ]; then
    exit
fi
cd "$(dirname "$0")/../../.."
make build
make install PREFIX="$prefix"
