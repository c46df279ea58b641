"""The command `facestream`: exit codes and the list of commands.

0 done · 1 a job or a service failed, the reason is the last line · 2 the command was used wrongly ·
3 no face in a source picture · 130 interrupted
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from runtime.redact import cleaned
from schemas.errors import FacestreamError

INTERRUPTED = 130

_COMMANDS = {
    "swap": "control.cli.swap",
    "up": "control.cli.up",
    "submit": "control.cli.submit",
    "status": "control.cli.status",
    "cancel": "control.cli.change:cancel",
    "pause": "control.cli.change:pause",
    "resume": "control.cli.change:resume",
    "replay": "control.cli.replay",
    "topics": "control.cli.topics",
    "dead": "control.cli.dead",
    "worker": "control.cli.worker",
    "models": "control.cli.models",
    "acls": "control.cli.acls",
    "doctor": "control.cli.doctor",
}


class _Lazy(click.Group):
    """Imports a command's module when it is called: each service loads only what it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute or "command")
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="facestream")
def cli() -> None:
    """Swap faces in video, through Apache Kafka."""


def main(args: list[str] | None = None) -> None:
    """Entry point; ends the process with the exit code of what happened."""
    sys.exit(_run(args))


def _run(args: list[str] | None) -> int:
    try:
        result: Any = cli.main(args, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("facestream: interrupted", err=True)
        return INTERRUPTED
    except FacestreamError as error:
        click.echo(cleaned(f"facestream: {error}"), err=True)
        return error.exit_code
    except BrokenPipeError:
        return 0  # somebody closed our output, as `head` does
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
