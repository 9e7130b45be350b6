"""llama.cpp's own server out of the ``xllamacpp`` wheel, as a process of its own.

For machines without a ``llama-server`` on PATH. It takes that program's options and variables, as
far as we use them, and lives as long as its standard input is open.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import xllamacpp

__all__ = ["main"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--ctx-size", type=int, required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--n-gpu-layers", type=int, required=True)
    parser.add_argument("--spec-type", choices=["ngram-simple"])
    parser.add_argument("--chat-template-file")
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = [options.host]
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    params.n_batch = options.batch_size
    params.cache_ram_mib = int(os.environ["LLAMA_ARG_CACHE_RAM"])
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.n_gpu_layers = options.n_gpu_layers
    params.use_jinja = True
    params.endpoint_slots = True
    params.ui = False
    if options.spec_type:
        kind = xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE
        params.speculative.types = [kind]
    if options.chat_template_file:
        params.chat_template = Path(options.chat_template_file).read_text("utf-8")
    server = xllamacpp.Server(params)
    sys.stdin.buffer.read()
    del server


if __name__ == "__main__":
    main()
