import importlib
import sys

import pytest

from otelhooks.patching import versions


def _publish(path, name, version, files=()):
    info = path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file in files:  # newer Pythons list only the files that are there
        (path / file).parent.mkdir(exist_ok=True)
        (path / file).touch()
    if files:
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("version", "supported", "inside"),
    [
        ("1.22.0", ">=1.22,<3", True),
        ("2.3.0", ">=1.22,<3", True),
        ("1.21.9", ">=1.22,<3", False),
        ("3", ">=1.22,<3", False),
        ("3.0.0rc1", ">=1.22,<3", False),
        ("3.0.dev4", ">=1.22,<3", False),
        ("2.0.0rc1", ">=1.22,<3", True),
        ("1.22rc1", ">=1.22,<3", False),
        ("1.22.0.post1", ">=1.22,<3", True),
        ("0.24.0+local.1", ">=0.10.5,<1", True),
        ("0.10.4", ">=0.10.5,<1", False),
        ("0.9.3", ">=0.10.5,<1", False),
        ("1.0", "==1", True),
        ("2.1.0", ">=2,!=2.1,<3", False),
        ("2.1.1", ">=2,!=2.1,<3", True),
        ("2", ">1,<=2.0.0", True),
        ("2.0.1", ">1,<=2", False),
        ("1!2.0", ">=1,<3", False),
        ("unknown", ">=1,<3", False),
        ("", ">=0", False),
    ],
)
def test_a_version_lies_in_its_range_as_pep_440_says(version, supported, inside):
    assert versions.supports(version, supported) is inside


def test_versions_sort_from_dev_over_pre_releases_to_post():
    order = ["1.0.dev1", "1.0a1", "1.0a2", "1.0b1", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.10"]

    assert sorted(order[::2] + order[1::2], key=versions.parse) == order


def test_our_order_is_that_of_packaging():
    from packaging.version import Version

    texts = ["0.6.1", "0.10.5", "1.0", "1.0rc2", "1.0.post3", "2.0.0a1", "2.0.dev1", "10.0", "v1.2"]

    assert sorted(texts, key=versions.parse) == sorted(texts, key=Version)


@pytest.mark.parametrize("supported", ["", "1.2", "=>1", ">=x", ">=1;<2"])
def test_a_range_that_cannot_be_read_is_an_error(supported):
    with pytest.raises(ValueError, match="version range cannot be read"):
        versions.supports("1.0", supported)


def test_an_unreadable_version_counts_as_the_newest():
    assert versions.at_least("", "99")
    assert versions.at_least("2.0", "2")
    assert not versions.at_least("1.9", "2")
    with pytest.raises(ValueError, match="version cannot be read"):
        versions.at_least("1.0", "two")


def test_the_version_is_that_of_the_first_distribution_that_is_installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    _publish(tmp_path, "fake-slim", "4.1.0")

    assert versions.installed(("fake-full", "fake-slim"), "fakepkg") == ("fake-slim", "4.1.0")
    assert versions.installed(("fake-full",), "fakepkg") == ("fake-full", "")


def test_of_two_installed_distributions_the_one_that_owns_the_module_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    _publish(tmp_path, "fake-full", "4.0.0", ["fake_full.py"])
    _publish(tmp_path, "fake-slim", "4.1.0", ["fakepkg/__init__.py", "fakepkg/x.py"])

    assert versions.installed(("fake-full", "fake-slim"), "fakepkg") == ("fake-slim", "4.1.0")


def test_a_module_is_found_without_importing_its_parents(tmp_path, monkeypatch):
    package = tmp_path / "noisy" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "noisy" / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "leaf.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "space" / "part").mkdir(parents=True)
    (tmp_path / "space" / "part" / "leaf.py").touch()
    (tmp_path / "single.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    found = [
        versions.exists(name)
        for name in ("noisy.sub.leaf", "noisy.sub.gone", "space.part.leaf", "single.leaf", "nope.x")
    ]

    assert found == [True, False, True, False, False]
    assert "noisy" not in sys.modules


def test_a_module_whose_import_is_blocked_does_not_exist(monkeypatch):
    monkeypatch.setitem(sys.modules, "blocked_fake", None)

    assert not versions.exists("blocked_fake")
    assert not versions.exists("blocked_fake.child")


def test_a_loaded_package_is_searched_where_it_was_loaded_from():
    assert versions.exists("importlib.metadata")
    assert not versions.exists("importlib.metadata.no_such_module")
