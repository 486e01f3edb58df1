#!/usr/bin/env bash
# Builds @tensorflow/tfjs-node from source where its install script cannot download libtensorflow:
#
#   scripts/buildTfjsNode.sh FOLDER
#
# FOLDER lies outside of the project (1.5 GB). Needed: npm, a C++17 compiler, and Python with pip, at a version that the wheel
# tensorflow-cpu exists for. What is there already is not done again. Linux only.
#
# The npm package brings the sources of its binding, Node its headers, and the wheel the library and its headers. Afterwards
#
#   ln -s FOLDER/node_modules/@tensorflow/tfjs-node node_modules/@tensorflow/tfjs-node
#   npm run test:backend -- tensorflow
#
# Node looks for an imported package in folders named node_modules only (NODE_PATH works for `require` alone), hence the link.
# The build uses the project's own copy of TensorFlow.js, so that both share one engine. `npm ci` removes the link.
set -euo pipefail

version=4.22.0
napi=8 # the newest that tfjs-node 4.22 asks for

if [ $# -ne 1 ]; then
  echo "usage: scripts/buildTfjsNode.sh FOLDER" >&2
  exit 1
fi
project=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
case "$folder/" in
  "$project"/*)
    echo "$folder lies inside the project" >&2
    exit 1
    ;;
esac
scope="$folder/node_modules/@tensorflow"
package="$scope/tfjs-node"
wheel="$folder/wheel"

if [ ! -f "$package/package.json" ]; then
  echo "installing @tensorflow/tfjs-node@$version, without its install script"
  [ -f "$folder/package.json" ] || echo '{ "private": true }' > "$folder/package.json"
  npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error "@tensorflow/tfjs-node@$version"
fi

for own in "$project"/node_modules/@tensorflow/tfjs "$project"/node_modules/@tensorflow/tfjs-[bcdl]*; do
  name=$(basename "$own")
  if [ ! -L "$own" ] && [ ! -L "$scope/$name" ]; then
    rm -rf "${scope:?}/$name"
    ln -s "$own" "$scope/$name"
  fi
done

if [ ! -f "$wheel/tensorflow/libtensorflow_cc.so.2" ]; then
  echo "unpacking the library of tensorflow-cpu"
  mkdir -p "$wheel"
  ls "$wheel"/*.whl > /dev/null 2>&1 || python3 -m pip download --quiet --no-deps --dest "$wheel" tensorflow-cpu
  python3 - "$wheel" << 'PYTHON'
import glob, sys, zipfile
[path] = glob.glob(sys.argv[1] + '/*.whl')
with zipfile.ZipFile(path) as wheel:
    wanted = ('tensorflow/libtensorflow', 'tensorflow/include/')
    wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if name.startswith(wanted)])
PYTHON
  rm -f "$wheel"/*.whl
fi

headers=$(node -p 'require("node:path").resolve(process.execPath, "../../include/node")')
if [ ! -f "$headers/node_api.h" ]; then
  npm install --prefix "$folder" --no-audit --no-fund --loglevel=error node-api-headers
  headers="$folder/node_modules/node-api-headers/include"
fi

binding="$package/lib/napi-v$napi/tfjs_binding.node"
if [ ! -f "$binding" ]; then
  echo "compiling the binding"
  mkdir -p "$(dirname "$binding")"
  "${CXX:-c++}" -std=c++17 -O2 -shared -fPIC -w "-DNAPI_VERSION=$napi" -DNODE_GYP_MODULE_NAME=tfjs_binding \
    -I"$wheel/tensorflow/include" -I"$headers" -I"$package" \
    "$package/binding/tfjs_backend.cc" "$package/binding/tfjs_binding.cc" -o "$binding" \
    -L"$wheel/tensorflow" -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 "-Wl,-rpath,$wheel/tensorflow"
fi

node -e '
const tf = require(process.argv[1])
const [product] = tf.matMul(tf.tensor2d([[3]]), tf.tensor2d([[5]])).dataSync()
if (product !== 15) throw new Error(`3 * 5 is ${product}`)
' "$package" 2> "$folder/check.log" || {
  cat "$folder/check.log" >&2
  exit 1
}
echo "built. To use it in the project:"
echo "  ln -s $package node_modules/@tensorflow/tfjs-node"
