#!/usr/bin/env bash
# Runs gpu.py on a machine without Node, network and SkyRL, from the folder that pack.sh made: `start.sh FOLDER`.
set -euo pipefail
carried=$(realpath "$1")
place=$(mktemp -d)
for file in "$carried"/*.tar.xz; do
  tar -xJf "$file" -C "$place" || python3 -m tarfile -e "$file" "$place" # where xz is missing
done
if [ "${GPU_DEVICE:-cuda}" != cpu ]; then # loaders of Vulkan, which WebGPU needs
  for file in "$carried"/*.deb; do dpkg -x "$file" / || echo "not unpacked: $file"; done
  ldconfig || true
  driver=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
  if [ -e "$driver" ]; then export VK_DRIVER_FILES=$driver; fi
fi
export PATH="$place/bin:$PATH" PYTHONPATH="$place/site" PYTHONUNBUFFERED=1 XDG_RUNTIME_DIR="$place"
export GPU_TANDEM="node $place/node_modules/tandem-rl/dist/cli/tandem.js" GPU_BENCH="node $place/gpuBench.mjs"
exec python3 "$(dirname "$0")/../gpu.py"
