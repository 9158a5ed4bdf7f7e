"""Files are whole or not there; folders that cannot be made are told in a sentence."""

import pytest

from discreg.base.errors import InputError
from discreg.comparison.running.store import make_folder, remove_drafts, write_whole


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    write_whole(path, "new σ")
    assert path.read_text(encoding="utf-8") == "new σ"
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path):
    taken = tmp_path / "page.html"
    taken.mkdir()
    with pytest.raises(OSError, match=r"page\.html"):
        write_whole(taken, "new")
    assert list(tmp_path.iterdir()) == [taken]


def test_a_folder_that_is_there_stays(tmp_path):
    (tmp_path / "kept").touch()
    make_folder(tmp_path)
    make_folder(tmp_path / "a" / "b")
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "a"}


def test_folders_that_cannot_be_made_are_told_in_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        make_folder(tmp_path / "file")
    with pytest.raises(InputError, match=r"file/b cannot be created \(Not a directory\). Give"):
        make_folder(tmp_path / "file" / "b")


def test_drafts_of_a_file_are_removed_and_other_files_stay(tmp_path):
    kept = {"page.html", ".page", ".page.html.swp", ".other.html.12"}
    for name in (".page.html.12", ".page.html.7", *kept):
        (tmp_path / name).touch()
    remove_drafts(tmp_path / "page.html")
    assert {path.name for path in tmp_path.iterdir()} == kept
