"""The command line of each of our commands: argparse, with one kind of help and of errors."""

from __future__ import annotations

import argparse
import os
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

_WIDTH_MAX = 100
_NAMES_MAX = 30  # longer names of an option get a line of their own
_WRONG_USE = 2


class Number:
    """Reads a number of a range. As text it is the range."""

    def __init__(
        self, kind: type[int] | type[float], least: float, most: float = float("inf")
    ) -> None:
        self._kind, self._least, self._most = kind, least, most

    def __str__(self) -> str:
        bounded = self._most != float("inf")
        return f"{self._least} to {self._most}" if bounded else f"at least {self._least}"

    def __call__(self, text: str) -> float:
        """Return the number."""
        try:
            number = self._kind(text)
        except ValueError:
            kind = "whole number" if self._kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is no {kind}") from None
        if not self._least <= number <= self._most:
            raise argparse.ArgumentTypeError(f"{text} is out of range: {self}")
        return number


class Choice:
    """Reads one of some words, in any case. As text it is the words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __str__(self) -> str:
        return " or ".join(self._words)

    def __call__(self, text: str) -> str:
        """Return the word as it stands in the list."""
        if text.lower() not in self._words:
            raise argparse.ArgumentTypeError(f"{text!r} is not {self}")
        return text.lower()


class Parser(argparse.ArgumentParser):
    """Reads the words behind the name of a command, which `prog` is.

    `text` is what the help says of the command. Its indented lines stay as they are.
    """

    def __init__(
        self, prog: str, words: str, text: str, commands: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(prog=prog, allow_abbrev=False, add_help=False)
        self._shown = f"Usage: {prog} [OPTIONS] {words}".rstrip()
        self._text = text
        self._arguments: list[tuple[str, str]] = []
        self._commands = list((commands or {}).items())
        self._options: list[tuple[str, str]] = []
        self.with_value: set[str] = set()  # the options whose value is the next word
        self._variables: list[tuple[str, str, Any, Any]] = []
        self.add_argument("-h", "--help", action="help")

    def argument(self, name: str, shown: str, text: str, **told: Any) -> None:
        """Take a word that is no option."""
        self.add_argument(name, metavar=shown, **told)
        self._arguments.append((shown, text))

    def flag(self, *names: str, text: str, **told: Any) -> None:
        """Take an option without a value."""
        self.add_argument(*names, **({"action": "store_true"} | told))
        self._options.append((", ".join(names), text))

    def option(
        self,
        *names: str,
        shown: str,
        text: str,
        variable: str = "",
        default: Any = None,
        kind: Any = None,
        **told: Any,
    ) -> None:
        """Take an option with a value. The environment's `variable` stands in for the option."""
        first = None if variable else default
        added = self.add_argument(*names, metavar=shown, default=first, type=kind, **told)
        if variable:
            self._variables.append((added.dest, variable, kind, default))
        self.with_value.update(names)
        facts = [
            str(kind) if isinstance(kind, Number) else "",
            f"default: {default}" if default not in (None, "", []) else "",
            f"variable: {variable}" if variable else "",
        ]
        known = "; ".join(fact for fact in facts if fact)
        text = f"{text} [{known}]" if known else text
        self._options.append((f"{', '.join(names)} {shown}", text))

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return what the words say; with wrong words or with --help the process ends."""
        said = self.parse_args(words)
        for name, variable, kind, default in self._variables:
            if getattr(said, name) is not None:
                continue
            told = os.environ.get(variable)
            try:
                setattr(said, name, kind(told) if told else default)
            except argparse.ArgumentTypeError as error:
                self.error(f"the variable {variable}: {error}")
        return said

    def read_before_program(self, words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return what the options say, and the program that follows them with its arguments."""
        options = []
        rest = list(words)
        while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
            option = rest.pop(0)
            if option in self.with_value and rest:
                option = f"{option}={rest.pop(0)}"  # also a value with a dash
            options.append(option)
        said = self.read(options)
        return said, rest[1:] if rest[:1] == ["--"] else rest

    def print_help(self, file: Any = None) -> None:
        """Print the help, as wide as the terminal, but not so wide that nobody reads it."""
        options = [*self._options, ("-h, --help", "Show this message and exit.")]
        tables = {"Arguments": self._arguments, "Options": options, "Commands": self._commands}
        parts = [_filled(part) for part in self._text.strip().split("\n\n")]
        parts += [_table(title, rows) for title, rows in tables.items() if rows]
        print("\n".join([f"{self._shown}\n", *parts]), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """End the process because of wrong words."""
        self.exit(_WRONG_USE, f"{self._shown}\n{self.prog}: {message}. See {self.prog} --help\n")


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDTH_MAX) - 1


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of a name and a text."""
    names = min(max(len(name) for name, _ in rows), _NAMES_MAX)
    lines = [f"{title}:"]
    for name, text in rows:
        told = textwrap.wrap(text, max(20, _width() - names - 4), break_on_hyphens=False)
        first = told.pop(0) if len(name) <= names else ""
        lines.append(f"  {name:<{names}}  {first}".rstrip())
        lines += [f"{'':<{names + 4}}{line}" for line in told]
    return "\n".join(lines) + "\n"


def _filled(part: str) -> str:
    """Return a paragraph in lines of this width; one that has indented lines as it is."""
    if "\n  " in part:
        return f"{part}\n"
    words = " ".join(part.split())
    return textwrap.fill(words, max(20, _width()), break_on_hyphens=False) + "\n"
