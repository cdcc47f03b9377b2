"""Only files that lie in the folder are read, and the links of the hub's own cache."""

from pathlib import Path

import pytest

from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.hf_folder import HuggingFaceFolder, check_free, check_no_code


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}", encoding="utf-8")
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "config.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(
        ModelFolderError, match=r"config.json is a symlink to .*secret.json, outside the folder"
    ):
        HuggingFaceFolder(inner).config()
    (inner / "config.json").unlink()
    (inner / "1_Pooling").symlink_to(tmp_path)
    with pytest.raises(ModelFolderError, match="outside the folder"):
        HuggingFaceFolder(inner).find("1_Pooling/secret.json")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x"])
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="leads outside"):
        HuggingFaceFolder(tmp_path).find(name)


def test_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "abc").write_text('{"model_type": "x"}', encoding="utf-8")
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    assert HuggingFaceFolder(snapshot).config() == {"model_type": "x"}
    (tmp_path / "secret").write_text('{"model_type": "y"}', encoding="utf-8")
    (blobs / "def").symlink_to(tmp_path / "secret")
    (snapshot / "other.json").symlink_to("../../blobs/def")
    with pytest.raises(ModelFolderError, match="outside the folder"):
        HuggingFaceFolder(snapshot).find("other.json")


def test_a_folder_that_is_itself_a_link_is_as_good_as_any(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "x"}', encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert HuggingFaceFolder(tmp_path / "link").config() == {"model_type": "x"}


def test_a_config_is_a_table(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFolderError, match=r"config.json is missing or empty.*\nThe folder contains: nothing"
    ):
        HuggingFaceFolder(tmp_path).config()
    (tmp_path / "config.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(ModelFolderError, match="is not a JSON object"):
        HuggingFaceFolder(tmp_path).config()
    (tmp_path / "config.json").write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(ModelFolderError, match="is already a clearhead model folder"):
        HuggingFaceFolder(tmp_path).config()
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ModelFolderError, match="is not a file"):
        HuggingFaceFolder(tmp_path).config()


def test_code_of_a_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"x\.json has an auto_map"):
        check_no_code("x.json", {"auto_map": {}})


def test_nothing_is_written_over(tmp_path: Path) -> None:
    check_free(tmp_path / "new")
    check_free(tmp_path)
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(ModelFolderError, match="is not an empty folder"):
            check_free(place)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ModelFolderError, match="is not an empty folder"):
        check_free(tmp_path / "link")
