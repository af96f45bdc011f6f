"""The classes of options, arguments and commands: no blank values, values of the project file, completion of names.

``options`` defines the options with them, and each command has the class that says what it takes from the project file
(``TopicCommand``, ``ClusterCommand``, or plain ``Command`` for nothing).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from topiarist.cli import terminal
from topiarist.errors import Diagnostic, InvalidManifests
from topiarist.runs.settings import WrongSettings

if TYPE_CHECKING:
    from topiarist.cli.project import Project


# Completion of the names of clusters and topics, from the manifests of the command line or project file.
#
# ``options`` gives these functions to the options that take names. They read files only, never a cluster, and say
# nothing about what is wrong in them: a shell has no place for messages while a user types.

_PATH_OPTIONS = ("paths", "clusters", "platform")


def complete_cluster(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters that begin with a text."""
    return _complete(ctx, "Cluster", incomplete)


def complete_topic(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of topics in Kafka that begin with a text."""
    return _complete(ctx, "Topic", incomplete)


def _complete(ctx: click.Context, kind: str, incomplete: str) -> list[str]:
    try:
        return sorted({name for name in _read_names(ctx, kind) if name.startswith(incomplete)})
    except Exception:
        return []  # whatever is wrong with the files, the command itself says it


def _read_names(ctx: click.Context, kind: str) -> Iterator[str]:
    """Yield the names of the documents of a kind, in the paths of the command or project file, or below the folder."""
    from topiarist.adapters.manifests.loader import load_manifests
    from topiarist.cli.project import PATH_KEYS, Project, load_project
    from topiarist.model.spec import topic_name

    given = [str(path) for name in _PATH_OPTIONS for path in ctx.params.get(name) or ()]
    given += ctx.args  # while an option still lacks its value, click has not taken the arguments
    given = [path for path in given if path != "-"]
    if not given and isinstance(project := load_project(), Project):
        given = [path for key in PATH_KEYS for path in project.get(key) or ()]
    for manifest in load_manifests(given or ["."]).manifests:
        if manifest.kind == kind:
            yield topic_name(manifest) if kind == "Topic" else manifest.name


EXPLICIT_SOURCES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

_PATH_HELP = "PATH is a file or folder with manifests (in a folder: *.yaml, *.yml), or - for standard input."


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)


class NonBlankOption(click.Option):
    """An option that accepts no blank value from the command line or the environment.

    A blank value usually comes from an unset variable. Without this check it would lift a restriction: ``--cluster ""``
    would mean every cluster, ``--without-brokers ""`` no broker.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Read the variable; raise ``click.UsageError`` if it is set and blank."""
        blank = isinstance(self.envvar, str) and not os.environ.get(self.envvar, "-").strip()
        if blank and not ctx.resilient_parsing:
            raise click.UsageError(f"{self.envvar} is set, but empty: unset it, or give it a value", ctx)
        return super().resolve_envvar_value(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value to the option's type.

        Raises ``click.BadParameter`` if the value, or an element of it, is blank.
        """
        given = self.name and ctx.get_parameter_source(self.name) in EXPLICIT_SOURCES
        if given and any(isinstance(part, str) and not part.strip() for part in _as_sequence(value)):
            raise click.BadParameter("found an empty value: leave the option out, or give it a value", ctx, self)
        return super().type_cast_value(ctx, value)


class NonBlankArgument(click.Argument):
    """An argument that accepts no blank value."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the values to the argument's type; raise ``click.BadParameter`` if one is blank."""
        if any(isinstance(part, str) and not part.strip() for part in _as_sequence(value)):
            raise click.BadParameter("found an empty value: leave it out, or give it a value", ctx, self)
        return super().type_cast_value(ctx, value)


class Command(click.Command):
    """A command that explains in its help PATH and the environment variables."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of its settings is a usage error, which says how to leave out a project file."""
        try:
            return super().invoke(ctx)
        except WrongSettings as error:
            project = ctx.meta.get(_META_KEY)
            without = f"; --project none leaves out the values of {project.file.name}" if project else ""
            raise click.UsageError(f"{error}{without}", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the argument PATH, the options, and one sentence about environment variables.

        A variable beside each option would double the length of the help page.
        """
        if any(param.name == "paths" for param in self.params):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(_PATH_HELP)
        super().format_options(ctx, formatter)
        options = [param for param in self.params if isinstance(param, click.Option) and not param.hidden]
        examples = [each for each in options if each.envvar and not each.show_envvar and each.name != "project_file"]
        if examples:
            excluded = ", ".join(max(each.opts, key=len) for each in options if not each.envvar)
            sentence = f"All options except {excluded} can also be set as environment variables, for example "
            sentence += f"{examples[-1].opts[0]} as {examples[-1].envvar}."
            formatter.write_paragraph()
            for line in wrap(sentence, formatter.width - 2, break_on_hyphens=False):
                formatter.write(f"  {line}\n")


class ClusterCommand(Command):
    """A command that reads Cluster documents and no Topics, and takes values from the project file.

    The values are its clusters, its owner, and the other fields that the command has an option for.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(
            NonBlankOption(
                ["--project", "project_file"],
                help="Project file to use, in place of a topiarist.yaml here or in a folder above; none for no file.",
                envvar="TOPIARIST_PROJECT",
                type=click.Path(),
                metavar="FILE|none",
                show_envvar=False,
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and take from the project file what it and the environment do not give."""
        rest = super().parse_args(ctx, args)
        given = ctx.params.pop("project_file", None)
        if not ctx.resilient_parsing:
            apply_project(ctx, given)
        return rest

    def reads_topics(self, ctx: click.Context) -> bool:
        """Return whether the run reads Topic manifests."""
        return False


class TopicCommand(ClusterCommand):
    """A command that reads Topic manifests, and takes paths and other values from the project file."""

    def reads_topics(self, ctx: click.Context) -> bool:
        """Return whether the run reads Topic manifests: ``apply --plan`` does not."""
        return ctx.params.get("plan_file") is None


def apply_project(ctx: click.Context, given: str | None) -> None:
    """Set the parameters of a command that are not given to the values of the project file.

    Their source is then ``DEFAULT_MAP``. Raises ``InvalidManifests`` for an invalid file, or an invalid value of it,
    with its location, and ``click.UsageError`` for options that exclude a value of it.
    """
    from topiarist.cli.project import UnusedFile, load_project

    assert isinstance(ctx.command, ClusterCommand)
    if ctx.params.get("demo") is not None:  # drift --demo makes its own inputs
        return
    project = load_project(given)
    verbosity = -1 if ctx.params.get("quiet") else ctx.params.get("verbose", 0)
    if isinstance(project, UnusedFile):
        if verbosity >= 0:
            terminal.log(f"{project.name}: is a Kubernetes document, and not used as a project file")
        return
    if project is None:
        return
    ctx.meta[_META_KEY] = project
    used = [name for name in _choose_values(ctx, project) if name]
    if verbosity > 0:
        fields = f" ({', '.join(used)})" if used else ", which gives nothing to this run"
        terminal.log(f"project file: {project.file.name}{fields}")


_META_KEY = "topiarist.project"


def _choose_values(ctx: click.Context, project: Project) -> list[str]:
    """Set the parameters that the project file gives, and return the names of the fields that were used."""
    assert isinstance(ctx.command, ClusterCommand)
    if ctx.command.reads_topics(ctx):
        given_platform = _is_given(ctx, "platform")
        if _is_given(ctx, "clusters") and not given_platform and "platform" in project.file.fields:
            raise click.UsageError(
                f"--clusters cannot be combined with platform in {project.locate('platform')}: "
                f"give its files with --platform, or --project none",
                ctx,
            )
        used = [
            _set(ctx, project, "paths", "manifests"),
            _set(ctx, project, "clusters", "clusters") if not given_platform else "",
            _set(ctx, project, "platform", "platform"),
        ]
    elif any(_is_given(ctx, name) for name in ("paths", "clusters", "platform")):
        used = []  # the clusters that the user names are all clusters of the run
    else:
        fields = (key for key in ("clusters", "platform", "manifests") if key in project.file.fields)
        used = [_set(ctx, project, "clusters", next(fields, "clusters"))]
    used += [_set(ctx, project, name, name) for name in ("cluster", "owner")]
    if not ctx.params.get("summary"):
        used.append(_set(ctx, project, "form", "format"))
    return used


def _is_given(ctx: click.Context, name: str) -> bool:
    return bool(ctx.params.get(name)) and ctx.get_parameter_source(name) in EXPLICIT_SOURCES


def _set(ctx: click.Context, project: Project, name: str, key: str) -> str:
    """Set a parameter to a field, and return the name of the field; empty if it is given, or has no value."""
    param = next((each for each in ctx.command.params if each.name == name), None)
    if param is None or _is_given(ctx, name) or key not in project.file.fields:
        return ""
    value = project.get(key)
    if isinstance(param.type, click.Choice) and value not in param.type.choices:
        return ""
    ctx.set_parameter_source(name, ParameterSource.DEFAULT_MAP)
    try:
        ctx.params[name] = param.process_value(ctx, value)
    except click.BadParameter as error:
        raise InvalidManifests([Diagnostic(project.locate(key), f"{key}: {error.message}")]) from None
    return key
