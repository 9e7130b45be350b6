from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.edit_sets.errors import BadSet
from bench.edit_sets.reader import read, read_all

import bench.edit_sets
from tests.bench.edit_sets.made_up import PYTHON

FORMAT = Path(bench.edit_sets.__file__).with_name("FORMAT.md")
EXAMPLES = re.findall(r"```toml\n(.*?)```", FORMAT.read_text("utf-8"), re.DOTALL)
WHOLE = PYTHON.replace("@SHA256@", "0" * 64)


def written(folder: Path, text: str, name: str = "shop.toml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_the_examples_for_writers_are_read_one_for_every_language(tmp_path: Path) -> None:
    paths = [written(tmp_path, text, f"{n}.toml") for n, text in enumerate(EXAMPLES)]
    sets = read_all(paths)
    assert len({task.language for each in sets for task in each.tasks}) == len(sets) == 8


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('language = "python"', 'language = "cobol"', "task shop-no-negative: .*`language`"),
        ('expect = "edit"', 'expects = "edit"', "task shop-no-negative: .*expect"),
        ('tag = "wrong"', 'tag = "bad"', r"`wrong\[0\].tag`"),
        ('"one place", "add"', '"add"', 'kinds: an edit has either "one place"'),
        ('why = "No rate is in the file."', "", "task shop-which: why"),
        ("format = 1", "format = 2", "format: must be 1"),
        ('file = "shop/basket.py"', 'file = "../basket.py"', "file: a path inside"),
        ("0" * 64, "abc", "package: sha256"),
        ('id = "shop-which"', 'id = "shop-no-negative"', "id stands in"),
        ('kinds = ["ask back"]', 'kinds = ["vague"]', "task shop-which: kinds: says why to stop"),
        ("[task.check]\n", "[task.check]\nmay_tuoch = []\n", "may_tuoch"),
    ],
)
def test_an_error_names_the_task_and_the_field(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(BadSet, match=told) as refused:
        read_all([path])
    assert "shop.toml" in str(refused.value)


def test_one_wrong_edit_is_too_few(tmp_path: Path) -> None:
    one = re.sub(
        r'\[\[task.wrong]]\ntag = "damage".*?(?=\[task.check])', "", WHOLE, flags=re.DOTALL
    )
    with pytest.raises(BadSet, match="wrong: at least 2"):
        read(written(tmp_path, one))


def test_an_id_stands_once_in_a_whole_set(tmp_path: Path) -> None:
    written(tmp_path, WHOLE, "a.toml")
    written(tmp_path, WHOLE, "b.toml")
    with pytest.raises(BadSet, match=r"stands in .*a\.toml too"):
        read_all([tmp_path])
