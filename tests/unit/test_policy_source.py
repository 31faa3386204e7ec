"""Finding and reading policy files: which are read, and which are refused."""

from __future__ import annotations

import logging
import os
import pathlib
import types

import pytest

from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.policy.files import source

ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


@pytest.fixture(autouse=True)
def _strict_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES", raising=False)


def _write(path: pathlib.Path, content: str | bytes = "policies: []\n") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_folder_gives_its_policy_files_in_the_order_of_their_names(
    tmp_path: pathlib.Path,
) -> None:
    for name in ("20-b.yml", "10-a.yaml", "30-c.md", "40-D.YAML"):
        _write(tmp_path / name)
    found = source.read_all([tmp_path])
    assert [each.policy_id for each in found] == ["10-a", "20-b", "30-c", "40-D"]
    assert [each.is_markdown for each in found] == [False, False, True, False]
    assert found[0].path == str(tmp_path / "10-a.yaml")


def test_other_files_of_a_folder_are_left_out_with_a_debug_line(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(tmp_path / "a.yaml")
    for name in ("README.txt", ".hidden.yaml", "a.yaml~", "cases/one.yaml", "b.yaml.bak"):
        _write(tmp_path / name)
    (tmp_path / ".#a.yaml").symlink_to("nobody@nowhere")  # an editor's lock
    with caplog.at_level(logging.DEBUG, "otelhooks.policy"):
        assert [each.policy_id for each in source.read_all([tmp_path])] == ["a"]
    assert "`README.txt` is not a policy file" in caplog.text


def test_a_file_of_an_unknown_kind_that_is_named_is_an_error(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "policy.json")
    with pytest.raises(PolicyFileError, match=r"policy\.json:1:1: no policy file\nhint: its name"):
        source.read_all([path])


def test_a_folder_without_policy_files_is_an_error(tmp_path: pathlib.Path) -> None:
    _write(tmp_path / "deeper/a.yaml")
    with pytest.raises(PolicyFileError, match=r"no policy files\nhint: .*folders in it are not"):
        source.read_all([tmp_path])


@pytest.mark.parametrize("name", ["gone.yaml", "gone", "a\0b.yaml"])
def test_what_is_not_there_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(PolicyFileError, match=r":1:1: cannot be read: .*\nhint: ") as caught:
        source.read_all([os.path.join(tmp_path, name)])
    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, ValueError)


def test_a_file_that_vanishes_after_its_folder_was_listed_is_an_error(
    tmp_path: pathlib.Path,
) -> None:
    path = _write(tmp_path / "rules/a.yaml")
    names = source.find([path.parent])
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(PolicyFileError, match=r"a\.yaml:1:1: cannot be read: No such file"):
        source.read(names[0])


def test_a_link_that_leads_to_itself_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(PolicyFileError, match=r"loop\.yaml:1:1: cannot be read: "):
        source.read_all([tmp_path])
    (tmp_path / "folder").symlink_to(tmp_path / "folder", target_is_directory=True)
    with pytest.raises(PolicyFileError, match="cannot be read: "):
        source.read_all([tmp_path / "folder"])


def test_a_dangling_link_in_a_folder_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "gone.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(PolicyFileError, match="cannot be read: No such file"):
        source.read_all([tmp_path])


def test_files_that_are_links_into_a_hidden_folder_are_read(tmp_path: pathlib.Path) -> None:
    """The way in which Kubernetes mounts a ConfigMap."""
    _write(tmp_path / "..2026/a.yaml", "version: 1\n")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert [each.text for each in source.read_all([tmp_path])] == ["version: 1\n"]


def test_a_pipe_is_refused_and_does_not_block(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(PolicyFileError, match="no ordinary file"):
        source.read_all([tmp_path])


def test_a_file_that_is_named_twice_is_read_once(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "a.yaml")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/same.yaml").symlink_to(path)
    found = source.read_all([path, tmp_path, tmp_path / "other"])
    assert [each.path for each in found] == [str(path)]


def test_two_files_with_one_policy_id_are_an_error(tmp_path: pathlib.Path) -> None:
    _write(tmp_path / "one/a.yaml")
    _write(tmp_path / "two/a.md")
    with pytest.raises(PolicyFileError, match=r"two/a\.md:1:1: .*one/a\.yaml` is called `a` as"):
        source.read_all([tmp_path / "one", tmp_path / "two"])


@pytest.mark.parametrize("name", source.RESERVED)
def test_a_file_with_the_name_of_another_source_is_an_error(
    tmp_path: pathlib.Path, name: str
) -> None:
    _write(tmp_path / f"{name}.yaml")
    with pytest.raises(PolicyFileError, match=f"`{name}` is what telemetry calls rules"):
        source.read_all([tmp_path])


def test_the_version_is_a_hash_of_the_content(tmp_path: pathlib.Path) -> None:
    first = source.read(str(_write(tmp_path / "a.yaml", "version: 1\n")))
    same = source.read(str(_write(tmp_path / "b.yaml", "version: 1\n")))
    other = source.read(str(_write(tmp_path / "c.yaml", "version: 1 \n")))
    assert first.version == same.version != other.version
    assert len(first.version) == 12
    assert int(first.version, 16) >= 0


def test_byte_order_mark_and_windows_line_ends_are_taken_away(tmp_path: pathlib.Path) -> None:
    path = _write(
        tmp_path / "a.yaml", b"\xef\xbb\xbfversion: 1\r\nmode: enforce\r\ndefault: deny\n"
    )
    assert source.read(str(path)).text == "version: 1\nmode: enforce\ndefault: deny\n"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"version: 1\nreason: caf\xe9\n", "2:12: byte 22 (0xe9) is not UTF-8"),
        ("version: 1\n".encode("utf-16"), "1:1: byte 0 (0xff) is not UTF-8"),
        (b"a: 1\r\nb: \xed\xa0\x80\n", "2:4: byte 9 (0xed) is not UTF-8"),
        (b"\x80", "1:1: byte 0 (0x80) is not UTF-8"),
    ],
)
def test_what_is_not_utf_8_is_an_error_at_its_byte(
    tmp_path: pathlib.Path, content: bytes, place: str
) -> None:
    path = _write(tmp_path / "a.yaml", content)
    with pytest.raises(PolicyFileError) as caught:
        source.read(str(path))
    assert str(caught.value) == f"{path}:{place}\nhint: save the file as UTF-8"


@pytest.mark.parametrize(
    ("content", "place", "code"),
    [
        ('# harmless\u2028- allow: "*"\n', "1:11", "2028"),
        ("a: 1\n# \x85allow\n", "2:3", "0085"),
        ("reason: ok \u202e yned\n", "1:12", "202E"),
        ("a: \x1b[2J\n", "1:4", "001B"),
        ("a: 1\n\0\n", "2:1", "0000"),
    ],
)
def test_characters_that_hide_what_a_policy_says_are_an_error(
    tmp_path: pathlib.Path, content: str, place: str, code: str
) -> None:
    path = _write(tmp_path / "a.yaml", content)
    with pytest.raises(PolicyFileError, match=f":{place}: .* U\\+{code} .*\nhint: "):
        source.read(str(path))


def test_a_file_that_is_too_large_is_an_error(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "a.yaml", b"#" * source.MAX_BYTES)
    assert len(source.read(str(path)).text) == source.MAX_BYTES
    path.write_bytes(b"#" * 10_000_000)
    with pytest.raises(PolicyFileError, match=r"larger than 1048576 bytes\nhint: split"):
        source.read(str(path))


def test_a_file_that_everybody_may_write_is_refused(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "a.yaml")
    path.chmod(0o666)
    with pytest.raises(
        PolicyFileError, match=r"every user may write `.*a\.yaml`\nhint: run `chmod"
    ):
        source.read_all([tmp_path])


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "rules/a.yaml")
    path.parent.chmod(0o777)
    for named in (path.parent, path):
        with pytest.raises(PolicyFileError, match=r"every user may write `.*rules`"):
            source.read_all([named])
    path.parent.chmod(0o1777)  # as /tmp: other users cannot replace my file
    assert source.read_all([path])


def test_a_folder_that_everybody_may_write_is_read_where_it_is_mounted_read_only(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a ConfigMap is; tests/processes/test_kubernetes.py mounts a real one."""
    path = _write(tmp_path / "rules/a.yaml")
    path.parent.chmod(0o777)
    os_says = os.statvfs(path.parent)
    read_only = types.SimpleNamespace(f_flag=os_says.f_flag | os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda place: read_only)
    assert source.read_all([path.parent])


def test_a_link_to_a_file_in_a_folder_that_everybody_may_write_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    target = _write(tmp_path / "open/a.yaml")
    target.parent.chmod(0o777)
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe/a.yaml").symlink_to(target)
    with pytest.raises(PolicyFileError, match=r"every user may write `.*open`"):
        source.read_all([tmp_path / "safe"])


@ROOT_ONLY
def test_files_and_folders_of_another_user_are_refused(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "rules/a.yaml")
    os.chown(path, 12345, -1)
    with pytest.raises(PolicyFileError, match=r"belongs to another user \(uid 12345\)\nhint: let"):
        source.read_all([path])
    os.chown(path, 0, -1)
    os.chown(path.parent, 12345, -1)
    with pytest.raises(PolicyFileError, match=r"`.*rules` belongs to another user"):
        source.read_all([path])


@ROOT_ONLY
def test_files_of_root_are_fine_for_every_user(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "a.yaml")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert source.read_all([path])


def test_unsafe_files_are_read_where_the_operator_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "a.yaml")
    path.chmod(0o666)
    monkeypatch.setenv("OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES", "1")
    assert source.read_all([path])
    monkeypatch.setenv("OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES", "0")
    with pytest.raises(PolicyFileError):
        source.read_all([path])


def test_files_that_came_with_the_code_are_read_for_any_owner(tmp_path: pathlib.Path) -> None:
    path = _write(tmp_path / "a.yaml")
    path.chmod(0o666)
    tmp_path.chmod(0o777)
    assert source.read_all([tmp_path], trusted=True)


def test_a_relative_path_is_read_from_the_working_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "a.yaml")
    monkeypatch.chdir(tmp_path)
    assert source.read_all(["a.yaml"])[0].path == "a.yaml"
    tmp_path.chmod(0o777)
    with pytest.raises(PolicyFileError, match=r"every user may write `\.`"):
        source.read_all(["a.yaml"])
