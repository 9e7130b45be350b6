"""Which model is run on which machine, and what is said when none can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hub import Hub
from vivace import models
from vivace.cli.choice import Choice, check_memory, choose, engine_for
from vivace.cli.machine import Machine
from vivace.download.wanted import Wanted
from vivace.errors import ConfigError, DownloadError

GIB = 1 << 30
CODER = "qwen2.5-coder-0.5b"


def machine(memory: int = 16, *, free: float | None = None, kind: models.Kind = "cpu") -> Machine:
    available = int((memory if free is None else free) * GIB)
    return Machine(kind=kind, memory=memory * GIB, available=available, cores=4, gpu="A GPU")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def wanted(choice: Choice) -> Wanted:
    (only,) = choice.wanted
    return only


# -- nothing was asked for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "memory"), [("cpu", 8), ("cpu", 32), ("apple", 16), ("nvidia", 8), ("nvidia", 24)]
)
def test_the_table_chooses_and_the_machine_is_the_reason(kind: models.Kind, memory: int) -> None:
    here = machine(memory, kind=kind)
    choice = choose(None, here)
    advised = models.recommend(here.memory, kind)
    assert advised is not None
    assert choice.name == advised.fast.name
    assert here.describe() in choice.why


@pytest.mark.parametrize(
    "row",
    [row for row in models.RECOMMENDED if not row.served],
    ids=lambda row: f"{row.kind}-{row.gib}",
)
def test_what_the_table_chooses_fits_with_the_options_it_starts_with(row: models.Choice) -> None:
    here = machine(row.gib, free=models.SHARE[row.kind] * row.gib, kind=row.kind)
    check_memory(choose(None, here), here, 2 * models.FAST_CONTEXT, 1)


def test_a_machine_too_small_for_any_model_is_told_so() -> None:
    with pytest.raises(ConfigError, match="too little"):
        choose(None, machine(1))


# -- on vLLM --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "installed", "engine"),
    [
        ("nvidia", True, "vLLM"),
        ("nvidia", False, "llama.cpp"),
        ("cpu", True, "llama.cpp"),
        ("apple", True, "llama.cpp"),
    ],
)
def test_an_nvidia_gpu_with_vllm_installed_is_served_by_it(
    kind: models.Kind, installed: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = object() if installed else None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    assert engine_for(None, machine(24, kind=kind)) == engine


def test_weights_say_which_engine_can_load_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert engine_for("some.gguf", machine(24, kind="nvidia")) == "llama.cpp"
    assert engine_for(str(tmp_path), machine()) == "vLLM"


@pytest.mark.parametrize("memory", [8, 16, 24, 32, 48, 80])
def test_what_vllm_loads_fits_into_the_gpu(memory: int) -> None:
    here = machine(memory, kind="nvidia")
    choice = choose(None, here, "vLLM")
    assert choice.engine == "vLLM"
    assert choice.model is not None
    assert str(choice.path) == choice.model.served.repo
    assert choice.wanted == ()  # vLLM fetches it
    check_memory(choice, here, models.FAST_CONTEXT, 64)


def test_a_model_too_large_for_one_gpu_is_spread_over_as_few_as_hold_it() -> None:
    eight = Machine(kind="nvidia", memory=640 * GIB, available=600 * GIB, cores=8, gpus=8)
    small, large = models.find("qwen2.5-coder-7b"), models.find("qwen3-coder-480b-a35b")
    assert small is not None
    assert large is not None
    assert choose(small.name, eight, "vLLM").gpus == 1
    assert choose(large.name, eight, "vLLM").gpus == 8


def test_a_folder_of_ones_own_is_served_by_vllm(tmp_path: Path) -> None:
    choice = choose(str(tmp_path), machine(), engine_for(str(tmp_path), machine()))
    assert choice.path == tmp_path
    assert choice.engine == "vLLM"


def test_a_hub_id_outside_of_the_table_is_left_to_vllm() -> None:
    choice = choose("someone/Their-Model", machine(24, kind="nvidia"), "vLLM")
    assert (choice.name, str(choice.path)) == ("their-model", "someone/Their-Model")


# -- by name --------------------------------------------------------------------------------------


def test_a_name_of_ours_gets_its_verified_file(cache: Path) -> None:
    choice = choose(CODER, machine())
    row = models.find(CODER)
    assert row is not None
    assert row.gguf is not None
    assert choice.name == CODER
    assert choice.model == row
    assert choice.path.parent == cache / "models"
    assert wanted(choice).sha256 == row.gguf.sha256
    assert wanted(choice).url.startswith(f"http://127.0.0.1:9/{row.gguf.repo}/resolve/main/")


def test_the_hub_id_of_a_model_in_the_table_is_that_model() -> None:
    row = models.find(CODER)
    assert row is not None
    assert choose(row.hub, machine()).name == CODER


def test_a_model_without_gguf_leads_to_vllm() -> None:
    large = next(model for model in models.MODELS if model.gguf is None)
    with pytest.raises(ConfigError, match="vLLM"):
        choose(large.name, machine())


def test_a_name_nearly_right_leads_to_the_right_one() -> None:
    with pytest.raises(ConfigError, match=f"Did you mean '{CODER}'"):
        choose("qwen2.5-coder-05b", machine())


def test_a_name_far_from_all_leads_to_the_list() -> None:
    with pytest.raises(ConfigError, match=CODER):
        choose("zzz", machine())


# -- by path --------------------------------------------------------------------------------------


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "My own.gguf"
    path.touch()
    choice = choose("My own.gguf", machine())
    assert choice.path == path.resolve()
    assert choice.wanted == ()
    assert choice.model is None
    assert choice.name == "My own"


def test_a_file_that_we_know_keeps_what_we_know_of_it(tmp_path: Path) -> None:
    row = models.find(CODER)
    assert row is not None
    assert row.gguf is not None
    assert row.gguf.file is not None
    path = tmp_path / row.gguf.file
    path.touch()
    assert choose(str(path), machine()).model == row


def test_a_path_without_a_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"There is no file .*none\.gguf"):
        choose("none.gguf", machine())


def test_any_piece_of_a_split_file_leads_to_the_first(tmp_path: Path) -> None:
    pieces = [tmp_path / f"own-0000{number}-of-00002.gguf" for number in (1, 2)]
    pieces[1].touch()
    with pytest.raises(ConfigError, match=r"There is no file .*own-00001-of-00002\.gguf"):
        choose(str(pieces[1]), machine())
    pieces[0].touch()
    for piece in pieces:
        assert choose(str(piece), machine()).path == pieces[0]


def test_a_folder_that_happens_to_have_a_models_name_is_not_in_its_way(tmp_path: Path) -> None:
    (tmp_path / CODER).mkdir()
    assert choose(CODER, machine()).name == CODER


# -- by hub id ------------------------------------------------------------------------------------


def held(hub: Hub, folder: Path, repo: str, *names: str) -> None:
    for name in names:
        path = folder / name
        path.touch()
        hub.hold(repo, path)


def test_of_a_repository_the_usual_quantisation_in_one_piece_is_chosen(
    hub: Hub, cache: Path, tmp_path: Path
) -> None:
    held(
        hub,
        tmp_path,
        "someone/Small-Coder-GGUF",
        "README.md",
        "small-coder-Q8_0.gguf",
        "small-coder-Q4_K_M-00001-of-00002.gguf",
        "small-coder-Q4_K_M.gguf",
        "small-coder-extra-long-Q4_K_M.gguf",
    )
    choice = choose("someone/Small-Coder-GGUF", machine())
    assert choice.name == "small-coder"
    assert wanted(choice).url.endswith("/small-coder-Q4_K_M.gguf")
    assert cache in choice.path.parents


def test_a_model_that_is_only_there_in_pieces_is_brought_in_all_of_them(
    hub: Hub, cache: Path, tmp_path: Path
) -> None:
    names = [f"Q4_K_M/large-Q4_K_M-0000{number}-of-00002.gguf" for number in (1, 2)]
    (tmp_path / "empty").touch()
    for name in [*names, "large-Q2_K.gguf"]:
        hub.hold("someone/Large-GGUF", tmp_path / "empty", name=name)
    choice = choose("someone/Large-GGUF", machine())
    assert [each.url for each in choice.wanted] == [
        f"{hub.url}/someone/Large-GGUF/resolve/main/{name}" for name in names
    ]
    assert choice.path == choice.wanted[0].path
    assert {each.path.parent for each in choice.wanted} == {cache / "models/someone--Large-GGUF"}
    choice.path.parent.mkdir(parents=True)
    choice.wanted[0].path.touch()  # a run that was ended after the first
    assert choose("someone/Large-GGUF", machine()).wanted == choice.wanted
    choice.wanted[1].path.touch()
    hub.leave()
    assert choose("someone/Large-GGUF", machine()).path == choice.path


def test_a_row_of_the_table_may_be_in_pieces() -> None:
    choice = choose("gpt-oss-120b", machine(128))
    assert [each.path.name for each in choice.wanted] == [
        f"gpt-oss-120b-mxfp4-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]
    assert {each.size for each in choice.wanted} == {None}


def test_a_repository_with_terms_is_listed_to_who_accepted_them(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(hub, tmp_path, "someone/gated", "model-q4_k_m.gguf")
    hub.gated["someone/gated"] = "hf_mine"
    with pytest.raises(DownloadError) as caught:
        choose("someone/gated", machine())
    assert f"accept its terms: do so at {hub.url}/someone/gated, set HF_TOKEN" in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", "hf_of_another")
    with pytest.raises(DownloadError, match="as the person whose token is used here"):
        choose("someone/gated", machine())
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert choose("someone/gated", machine()).wanted


def test_files_of_one_name_from_two_repositories_do_not_meet(hub: Hub, tmp_path: Path) -> None:
    for repo in ("one/model", "two/model"):
        held(hub, tmp_path, repo, "model-q4_k_m.gguf")
    assert choose("one/model", machine()).path != choose("two/model", machine()).path


def test_a_repository_without_such_a_file_leads_to_one_that_has_it(
    hub: Hub, tmp_path: Path
) -> None:
    names = ["model.safetensors", "model-q4_k_m-00001-of-99999.gguf"]  # the others are not there
    held(hub, tmp_path, "someone/model", *names)
    with pytest.raises(ConfigError, match=r"no Q4_K_M GGUF file.*-GGUF"):
        choose("someone/model", machine())


def test_a_repository_that_is_not_there_leads_to_the_spelling(hub: Hub) -> None:
    with pytest.raises(DownloadError, match=r"404.*Check the spelling"):
        choose("someone/nothing", machine())


def test_a_hub_that_is_not_there_leads_to_a_local_file() -> None:
    with pytest.raises(DownloadError, match="--model PATH"):
        choose("someone/model", machine())


def test_a_hub_model_in_the_cache_is_chosen_without_a_network(hub: Hub, tmp_path: Path) -> None:
    held(hub, tmp_path, "someone/model", "model-q4_k_m.gguf")
    before = choose("someone/model", machine())
    before.path.parent.mkdir(parents=True)
    before.path.touch()
    hub.leave()
    assert choose("someone/model", machine()).path == before.path


# -- memory ---------------------------------------------------------------------------------------


def test_what_fits_passes() -> None:
    here = machine(16)
    check_memory(choose(CODER, here), here, 8192, 1)


def test_what_does_not_fit_is_refused_with_a_model_that_does() -> None:
    here = machine(16, free=3)
    with pytest.raises(ConfigError) as caught:
        check_memory(choose("qwen2.5-coder-14b", here), here, 8192, 1)
    said = str(caught.value)
    assert "3.0 GiB are free" in said
    named = said.split("--model ")[1].split(",")[0]
    suggested = models.find(named)
    assert suggested is not None
    assert not suggested.test_only
    assert models.memory_needed(suggested, 8192) <= here.available


@pytest.mark.parametrize("free", [2, 4, 8, 16, 32])
def test_what_does_not_fit_is_never_answered_with_a_larger_model(free: int) -> None:
    """A long context may cost another model less; that does not make it the smaller choice."""
    here = machine(128, free=free)
    too_large = [
        model
        for model in models.MODELS
        if model.gguf is not None
        and model.gguf.file is not None
        and models.memory_needed(model, 32_768) > here.available
    ]
    assert too_large
    for model in too_large:
        with pytest.raises(ConfigError) as caught:
            check_memory(choose(model.name, here), here, 32_768, 1)
        suggested = models.find(str(caught.value).partition("--model ")[2].partition(",")[0])
        assert suggested is not None
        assert suggested.weights.size < model.weights.size, str(caught.value)


def test_a_model_that_only_completes_is_said_to_and_never_suggested() -> None:
    assert "was not taught to answer" in choose("mellum2-12b-a2.5b", machine(32)).why
    here = machine(32, free=9)  # it would fit, and is the largest that does
    with pytest.raises(ConfigError, match=r"Try --model qwen2\.5-coder-7b"):
        check_memory(choose("qwen2.5-coder-14b", here), here, 8192, 1)


def test_when_nothing_fits_memory_is_to_be_freed() -> None:
    here = machine(16, free=0.1)
    with pytest.raises(ConfigError, match="Close other programs"):
        check_memory(choose(CODER, here), here, 8192, 1)


def test_a_file_that_we_know_nothing_of_is_left_to_llama_cpp(tmp_path: Path) -> None:
    (tmp_path / "own.gguf").touch()
    here = machine(16, free=0.1)
    check_memory(choose("own.gguf", here), here, 8192, 1)
