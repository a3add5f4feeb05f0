"""The command line: python -m reelmill config | doctor | estimate | generate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwork import command
from shardwork.errors import EXIT_FAULT, EXIT_OK, DataError

DEFAULT_CONFIG = Path(__file__).resolve().parents[2] / "config" / "config.yaml"
"""The demo's, which Snakemake reads too if no other is named."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 good, 1 something to mend was found, 2 bad input."""
    return command.run(lambda options: int(options.run(options)), _parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = command.parser("Look after a Reelmill workflow.", "python -m reelmill")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    config = commands.add_parser("config", help="check a configuration and print it with every default filled in")
    _add_configfile(config, [DEFAULT_CONFIG])
    config.set_defaults(run=_config)

    doctor = commands.add_parser("doctor", help="check this machine and, if given, a configuration; exits 1 if something must be mended")
    _add_configfile(doctor, [])
    doctor.add_argument("--json", action="store_true", help="print the checks as JSON")
    doctor.add_argument("--libraries", action="store_true", help="print only the missing Debian packages that rendering needs, on one line")
    doctor.set_defaults(run=_doctor)

    estimate = commands.add_parser("estimate", help="say what a run will take before it starts: jobs, CPU hours, disk")
    _add_configfile(estimate, [DEFAULT_CONFIG])
    estimate.set_defaults(run=_estimate)

    generate = commands.add_parser("generate", help="make config/README.md, the JSON Schema and docs/troubleshooting.md from the code")
    mode = generate.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the pages that are out of date")
    mode.add_argument("--check", action="store_true", help="only show how they differ; exits 1 if they do")
    generate.set_defaults(run=_generate)
    return parser


def _add_configfile(parser: argparse.ArgumentParser, default: list[Path]) -> None:
    shown = " (default: the demo's)" if default else ""
    parser.add_argument("--configfile", type=Path, nargs="+", default=default, metavar="FILE", help=f"configuration files, later ones over earlier ones{shown}")


def _config(options: argparse.Namespace) -> int:
    import yaml

    from reelmill.config import load

    print(yaml.safe_dump(load(options.configfile).model_dump(exclude_none=True), sort_keys=False, allow_unicode=True), end="")
    return EXIT_OK


def _doctor(options: argparse.Namespace) -> int:
    if options.libraries:
        from reelmill import syslibs

        return syslibs.main()
    from reelmill.doctor import examine, failed, lines

    checks = examine(options.configfile)
    print(json.dumps([check.as_dict() for check in checks], indent=1) if options.json else "\n".join(lines(checks)))
    return EXIT_FAULT if failed(checks) else EXIT_OK


def _estimate(options: argparse.Namespace) -> int:
    from reelmill import estimate, estimate_assets, estimate_latents, machine
    from reelmill.config import load

    config = load(options.configfile)
    disk, cores = machine.disk_at(config.folder), machine.usable_cores()
    events = estimate.estimate(config)
    shown = [estimate.lines(events)] if events else []
    shown += [estimate_assets.lines(part, disk, cores) for part in estimate_assets.parts_of(config)]
    if config.latents and (latents := estimate_latents.latents_of(config)):
        shown.append(estimate_latents.lines(latents, config.latents, disk, cores))
    if not shown:
        where = ", ".join(str(path) for path in options.configfile)
        raise DataError("bad_argument", where, "no section with a table", "a section to estimate", "add one, such as events: with its table")
    print("\n\n".join("\n".join(lines) for lines in shown))
    return EXIT_OK


def _generate(options: argparse.Namespace) -> int:
    from reelmill.generate import COMMAND, differences, write

    if options.write:
        for path in write():
            print(f"wrote {path}")
        return EXIT_OK
    if not (found := differences()):
        return EXIT_OK
    print("\n".join([*found, "", f"mend it with: {COMMAND}"]))
    return EXIT_FAULT


if __name__ == "__main__":
    sys.exit(main())
