#!/usr/bin/env bash
# Makes the folder of about 40 MB that start.sh needs on a machine without a network: `pack.sh FOLDER`.
#
# It has the Node of this machine, Tandem as it is published, bench/gpu.ts, SkyRL with those of its
# packages that the machine lacks (WHEELS, for Python 3.12), and the loaders of Vulkan. Needs npm's,
# Python's and Debian's registries, and a built checkout.
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WHEELS=${WHEELS:-skyrl==0.3.0 fastapi starlette uvicorn sqlmodel sqlalchemy greenlet aiosqlite cloudpathlib pydantic==2.14.4
  pydantic-core==2.50.5 annotated-types typing-extensions typing-inspection opentelemetry-api}

compress() { # NAME, and the folder that it is packed from
  tar -C "$2" --sort=name --mtime=@0 --owner=0 --group=0 -c . | xz --x86 --lzma2=preset=9e,dict=64MiB > "$folder/$1.tar.xz"
}

mkdir -p "$work/node/bin"
cp "$(node -p process.execPath)" "$work/node/bin/node"
strip "$work/node/bin/node"
compress node "$work/node"

mkdir -p "$work/tarballs" "$work/app"
for each in . packages/{base,gguf,host,parquet,text,tfjs-onnxruntime,tinker}; do # the kernel, its needs, and the client
  (cd "$each" && npm pack --ignore-scripts --silent --pack-destination "$work/tarballs" > /dev/null)
done
(cd "$work/app" && echo '{"private":true}' > package.json && ONNXRUNTIME_NODE_INSTALL=skip npm install --silent --no-audit --no-fund "$work"/tarballs/*.tgz)
npx esbuild bench/gpu.ts --bundle --platform=node --format=esm --external:onnxruntime-node --external:@tensorflow/tfjs-node* \
  --banner:js='import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url)' \
  --log-level=error --outfile="$work/app/gpuBench.mjs"
(
  cd "$work/app/node_modules"
  find onnxruntime-node/bin -type f -not -path '*/linux/x64/*' -delete
  find . -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.md' -o -name '*_test.js' \) -delete
  find @tensorflow -mindepth 3 -maxdepth 3 -type d -exec rm -r {} + # Node loads one file of each package
  find @tensorflow -name 'tf-*.js' -not -name '*.node.js' -delete
  rm -rf fp-ts/es6 tandem-rl/docs tandem-rl/models
)
compress app "$work/app"

pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_24_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$work/wheels" $WHEELS
mkdir -p "$work/site/site"
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/site/site"; done
find "$work/site/site/sqlalchemy" -name '*.so' -delete # faster forms of files that are there too
compress site "$work/site"

(cd "$folder" && apt-get download libvulkan1 libegl1 libglvnd0 libopengl0 libgl1 libglx0 libgles2)
ls -l "$folder"
