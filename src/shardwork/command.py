"""The one shape of a script: parse, do, and end with the right exit code and one clear line."""

from __future__ import annotations

import argparse
import dataclasses
import io
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeVar, get_type_hints

from shardwork.errors import EXIT_BAD_INPUT, EXIT_FAULT, DataError, Fault, fault_from, print_error

T = TypeVar("T")


class _Parser(argparse.ArgumentParser):
    """argparse without its traps: no abbreviated flags, and one line for a mistake."""

    def error(self, message: str) -> NoReturn:
        print_error(DataError("bad_argument", self.prog, message, "the arguments that --help lists", f"see {self.prog} --help"))
        raise SystemExit(EXIT_BAD_INPUT)


def parser(doc: str | None, prog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser whose description is the first line of a module's docstring."""
    return _Parser(prog=prog, description=(doc or "").strip().split("\n")[0], allow_abbrev=False)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the clearing up
    raise SystemExit(128 + number)


def run(main: Callable[[argparse.Namespace], int], arguments: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Return the exit code of a program: main's own, 2 for bad input, 1 for a fault of the machine or the program.

    A SIGTERM (a job that is cancelled or out of time) ends through the same door, so that temporary files are cleared.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks must not end the program
    try:
        args = arguments.parse_args(argv)
    except DataError as error:  # raised by the reader of a flag's value
        print_error(error)
        return EXIT_BAD_INPUT
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        return main(args)
    except Fault as error:
        print_error(error)
        return EXIT_FAULT
    except DataError as error:
        for one in error.each():
            print_error(one)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAULT
    except Exception as error:  # noqa: BLE001 (the last door of a program: the trace for us, one clear line for the user)
        if not isinstance(error, OSError | MemoryError):
            traceback.print_exc()
        print_error(fault_from(error, arguments.prog))
        return EXIT_FAULT
    finally:
        signal.signal(signal.SIGTERM, before)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def whole(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers for argparse; smaller ones than `least` are refused."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return int(text)

    return read


def truth(text: str) -> bool:
    """Return the truth value that a flag's text says, for argparse."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def add_settings(arguments: argparse.ArgumentParser, settings: type[Any]) -> None:
    """Add one flag for each field of a settings dataclass; help and choices come from the field's metadata."""
    types = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        kind = types[field.name]
        arguments.add_argument(
            _flag(field.name),
            type=truth if kind is bool else kind,
            default=field.default,
            choices=field.metadata.get("choices"),
            help=f"{field.metadata.get('help', '')} (default: {str(field.default).lower() if kind is bool else field.default})".replace("%", "%%"),
        )


def settings_from(args: argparse.Namespace, settings: type[T]) -> T:
    """Return the settings dataclass that the flags of `add_settings` describe. Raises DataError where it refuses a value."""
    return settings(**{field.name: getattr(args, field.name) for field in dataclasses.fields(settings)})  # type: ignore[arg-type]


def as_flags(values: Mapping[str, object]) -> str:
    """Return values as shell-quoted flags in sorted order, in the form --name=value, which a leading dash cannot break."""
    words = [f"{_flag(name)}={str(value).lower() if isinstance(value, bool) else value}" for name, value in sorted(values.items())]
    return " ".join(shlex.quote(word) for word in words)
