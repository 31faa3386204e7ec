"""What a command may do to the files in its words."""

from __future__ import annotations

import pytest

from otelhooks.policy.commands import programs, shell
from otelhooks.policy.commands.shell import UNKNOWN as U


def _read(text: str) -> list[shell.Command]:
    return programs.executed(shell.commands(text))


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("x=a", True),
        ("do x=a cat b", True),
        ("/bin/cat b", True),
        ("xargs -n 1 -I {} grep b", True),
        ("xargs", True),
        ("git commit b", True),
        ("git diff b", False),
        ("git", False),
        ("python3 b", True),
        ("find a", True),
        ("find a -exec cat {} +", True),
        ("find a -exec rm {} +", False),
        ("find a -delete", False),
        ('find "$none_of_this"', False),
        ("touch b", False),
        ("ca? b", False),
        ('"$none_of_this" b', False),
        ("{cat,rm} b", False),
        ("alias cat=rm; cat b", False),
        ("<b", True),
        (">b", False),
        ("3<b", False),
    ],
)
def test_what_only_reads(text: str, reads: bool) -> None:
    found = [each for each in _read(text) if each[:1] != ["alias"]]
    assert programs.only_reads(found[0]) is reads


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rm a b", ["a", "b"]),
        ("/bin/r? a", ["a"]),
        ('"$none_of_this" a', ["a"]),
        ("x=a", []),
        ("cat a", []),
        ("sudo rm a", ["a"]),
        ("xargs rm", [U]),
        ("cp a b", []),
        ("cp -al a b", ["-al", "a", "b"]),
        ("git clean -f", ["clean", "-f", "."]),
        ("git clean -f a", ["clean", "-f", "a"]),
        ("git rm a", ["rm", "a"]),
        ("git log a", []),
        ("find a b -delete", ["a", "b"]),
        ("find -delete", ["."]),
        ("find a", []),
        ("tar --remove-files a", ["--remove-files", "a"]),
    ],
)
def test_folders_that_are_taken_as_a_whole(text: str, words: list[str]) -> None:
    assert programs.trees(_read(text)[0]) == words


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("find -name '*.a' -delete", "*.a"),
        ("find -iname a", "a"),
        ("find -name a -o -name b", None),
        ('find -name a "$none_of_this"', None),
        ("find a", None),
    ],
)
def test_names_that_are_found(text: str, name: str | None) -> None:
    assert programs.only_names(_read(text)[0]) == name


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("echo 'a b'", False),
        ("sh -c 'a b'", True),
        ("env sh -c 'a b'", True),
        ("echo 'a b' | sh", True),
        ('"$none_of_this" "a b"', True),
        ("eval 'a b'", True),
        ("echo eval 'a b'", False),
    ],
)
def test_a_text_is_run_if_a_program_takes_it(text: str, runs: bool) -> None:
    (found,) = [each for each in _read(text) if each == ["a", "b"]]
    assert found.runs is runs


def test_files_that_a_script_of_sed_writes() -> None:
    assert "a.yaml" in programs.arguments(["sed", "s/x/y/wa.yaml"])
    assert "a.yaml" not in programs.arguments(["cat", "s/x/y/wa.yaml"])
    assert U in programs.arguments(["sed", "w" * 100])
