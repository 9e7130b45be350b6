from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import _tiny_model

VOCABULARY = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "max_position_embeddings": 32768,
        "vocab_size": 151936,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    for name in VOCABULARY:
        (folder / name).write_text(f"{name} of the real one")
    return folder


def test_it_is_of_the_real_ones_kind_but_small_and_long(real: Path, tmp_path: Path) -> None:
    described = _tiny_model.write(tmp_path / "tiny", real)
    config = json.loads((tmp_path / "tiny" / "config.json").read_text())
    assert config["architectures"] == ["Qwen2ForCausalLM"]
    assert config["vocab_size"] == 151936
    assert config["num_hidden_layers"] == 2
    assert config["max_position_embeddings"] == _tiny_model.SETTINGS["max_model_len"] == 131_072
    assert config["hidden_size"] % config["num_attention_heads"] == 0
    assert "2 layers" in described
    assert "random weights" in described


def test_it_speaks_the_real_ones_tokens_and_has_none_of_its_weights(
    real: Path, tmp_path: Path
) -> None:
    _tiny_model.write(tmp_path / "tiny", real)
    written = {path.name for path in (tmp_path / "tiny").iterdir()}
    assert written == {"config.json", *VOCABULARY}
    for name in VOCABULARY:
        assert (tmp_path / "tiny" / name).read_text() == f"{name} of the real one"
