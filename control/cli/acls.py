"""`facestream acls`: the rights that each service needs, as commands for Kafka's own tools."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from control.cli.options import bootstrap_options, load_settings
from runtime import cluster
from runtime.acls import Actor, Grant, grants
from runtime.settings import Settings
from schemas.job import Lane


@click.command("acls")
@bootstrap_options
@click.option(
    "--admin-config",
    default="admin.properties",
    show_default=True,
    metavar="FILE",
    help="How Kafka's tools reach the cluster.",
)
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="WHO=NAME",
    help="Principal of control, ingest, swapper, assembler or user; default: User:<topic prefix>WHO.",
)
def command(bootstrap: str | None, admin_config: str, principals: tuple[str, ...]) -> None:
    """Print kafka-acls commands that give each service what it needs and nothing else."""
    settings = load_settings(bootstrap)
    named = dict(_pair(text) for text in principals)
    server = settings.kafka.bootstrap or "localhost:9092"
    reach = ["--bootstrap-server", server, "--command-config", admin_config]
    for actor in Actor:
        click.echo(f"# {actor}")
        principal = named.get(actor, f"User:{settings.topic_prefix}{actor}")
        for grant in grants(settings, actor):
            click.echo(shlex.join(["kafka-acls.sh", *reach, "--add", *_options(grant, principal)]))
    if not settings.kafka.configure_groups:
        click.echo("# groups, since kafka.configure_groups is off")
        for name, values in _groups(settings):
            settled = ",".join(f"{key}={value}" for key, value in values.items())
            options = ["--alter", "--entity-type", "groups", "--entity-name", name, "--add-config", settled]
            click.echo(shlex.join(["kafka-configs.sh", *reach, *options]))


def _pair(text: str) -> tuple[Actor, str]:
    who, sign, name = text.partition("=")
    if not sign or who not in list(Actor):
        raise click.BadParameter(f"{text!r} is not WHO=NAME", param_hint="--principal")
    return Actor(who), name if ":" in name.partition("=")[0] else f"User:{name}"


def _options(grant: Grant, principal: str) -> Iterator[str]:
    yield from ("--allow-principal", principal)
    for operation in grant.operations:
        yield from ("--operation", operation)
    yield from (f"--{grant.kind}",) if grant.kind == "cluster" else (f"--{grant.kind}", grant.name)
    if grant.prefixed:
        yield from ("--resource-pattern-type", "prefixed")


def _groups(settings: Settings) -> Iterator[tuple[str, dict[str, str | int]]]:
    prefix = settings.topic_prefix
    for name in ("ingest", "finish", *(f"assembler.{lane}" for lane in Lane)):
        yield prefix + name, cluster.group_values(settings)
    for lane in Lane:
        if settings.swapper.group == "share":
            yield f"{prefix}swapper.share.{lane}", cluster.share_group_values(settings)
        else:
            yield f"{prefix}swapper.{lane}", cluster.group_values(settings)
