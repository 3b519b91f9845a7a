"""llama.cpp's own server over a model of random weights: text is noise, tokens, usage and streams are real.

`python tests/engines/tiny_llama.py [--embedding]` prints the server's address and runs until its input ends.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH = 32
LAYERS = 1
HEADS = 2
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
CONTROLS = ("<|begin|>", "<|stop|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")


def _letters() -> list[str]:
    """A printable character for each byte, as byte-level BPE vocabularies spell them."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def write_model(path: Path) -> None:
    """A GGUF file of the llama architecture, the same at each call."""
    tokens = [*_letters(), *CONTROLS, "th", "the"]
    kinds = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * len(CONTROLS) + [gguf.TokenType.NORMAL] * 2
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)
    for name, shape in _tensors(len(tokens)):
        writer.add_tensor(name, _weights(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(vocabulary: int) -> list[tuple[str, tuple[int, ...]]]:
    named: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (vocabulary, WIDTH)),
        ("output_norm.weight", (WIDTH,)),
        ("output.weight", (vocabulary, WIDTH)),
    ]
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        named += [(f"{block}.{norm}_norm.weight", (WIDTH,)) for norm in ("attn", "ffn")]
        named += [(f"{block}.attn_{part}.weight", (WIDTH, WIDTH)) for part in ("q", "k", "v", "output")]
        named += [(f"{block}.ffn_{part}.weight", (2 * WIDTH, WIDTH)) for part in ("gate", "up")]
        named.append((f"{block}.ffn_down.weight", (WIDTH, 2 * WIDTH)))
    return named


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        return np.ones(shape, dtype=np.float32)
    return np.random.default_rng(len(shape) + sum(shape)).normal(0, 0.05, shape).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedding", action="store_true")
    embedding = parser.parse_args().embedding
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.gguf"
        write_model(path)
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = 2048
        params.n_parallel = 2
        params.cpuparams.n_threads = 1
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.embedding = embedding
        if embedding:
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        server = xllamacpp.Server(params)
        print(server.listening_address, flush=True)  # noqa: T201  the address is what it is asked for
        sys.stdin.read()


if __name__ == "__main__":
    main()
