"""The classes of options, arguments and commands: no blank values, values of the project file, completion of names.

``options`` defines the options with them, and each command has the class that says what it takes from the project file
(``TopicCommand``, ``ClusterCommand``, or plain ``Command`` for nothing).

The project file of a run is found above the working folder, or named by ``--project``. ``apply_project`` takes values
from it for the options and arguments that are not given; names are completed from the same manifests.
``adapters.manifests.files`` parses the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec import Struct

from topiarist.cli import terminal
from topiarist.errors import Diagnostic, InvalidManifests, Location
from topiarist.runs.settings import WrongSettings
from topiarist.text import printable, quote

if TYPE_CHECKING:
    from topiarist.adapters.manifests.files import ProjectFile
    from topiarist.adapters.manifests.source import File

PROJECT_FILE = "topiarist.yaml"
"""The name of ``adapters.manifests.files``, which imports the YAML library: most folders have no such file."""

NO_PROJECT = "none"
"""The value of ``--project`` for a run without a project file."""

PATH_KEYS = ("manifests", "clusters", "platform")


class Project(Struct, frozen=True):
    """A project file, and the folder that its paths start from: text to put before a path, empty or with a slash."""

    file: ProjectFile
    prefix: str

    def get(self, key: str) -> Any:
        """Return the value of a field, or None if the file has none.

        Paths are as the user would give them in the working folder. Raises ``InvalidManifests`` for paths that do not
        exist, or that lead out of the git repository.
        """
        value = self.file.fields.get(key)
        if value is None or key not in PATH_KEYS:
            return value
        paths = [_join(self.prefix, each) for each in value]
        if errors := [*self._find_path_errors(key, value, paths)]:
            raise InvalidManifests(errors)
        return paths

    def locate(self, *path: str | int) -> Location:
        """Return the location of a field, or of an item of its list."""
        return self.file.locate(*path)

    def _find_path_errors(self, key: str, values: list[str], paths: list[str]) -> Iterator[Diagnostic]:
        root = find_repository(self.prefix or ".")
        for index, (value, path) in enumerate(zip(values, paths, strict=True)):
            if _leads_out(root, path):
                message = f"{key}: found {quote(value)}, which leads out of the git repository {printable(root, 200)}"
                yield Diagnostic(self.locate(key, index), message, "give such a path as an option or argument")
            elif not os.path.exists(path):  # noqa: PTH110 - a given path may be text that pathlib would change
                message = f"{key}: found {quote(value)}, but there is no file or folder {printable(path, 200)}"
                yield Diagnostic(self.locate(key, index), message, "paths are relative to the folder of this file")


class UnusedFile(Struct, frozen=True):
    """A file that has the name of a project file and is a Kubernetes document."""

    name: str


def load_project(given: str | None = None) -> Project | UnusedFile | None:
    """Return the project of a run: that of the file ``given``, or of the nearest one above the working folder.

    The search ends at the folder with ``.git``, or at the root of the file system. Returns None if there is no project
    file or ``given`` is ``NO_PROJECT``, and ``UnusedFile`` if the only file of that name is a Kubernetes document.
    Raises ``InvalidManifests`` with every error of the file.
    """
    if given == NO_PROJECT:
        return None
    if given is not None:
        return _load_file(given)
    unused = None
    for prefix in _search_folders():
        path = prefix + PROJECT_FILE
        if os.path.lexists(path):
            from topiarist.adapters.manifests.files import is_project_file, parse_project_file

            file = _read_file(path, prefix)
            if is_project_file(file):
                return Project(parse_project_file(file), prefix)
            unused = unused or UnusedFile(file.name)
    return unused


def find_repository(folder: str) -> str:
    """Return the nearest folder with ``.git``, at or above ``folder``; empty if there is none."""
    found = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(found, ".git")):  # noqa: PTH118
        above = os.path.dirname(found)  # noqa: PTH120
        if above == found:
            return ""
        found = above
    return found


def _search_folders() -> Iterator[str]:
    """Yield the working folder and those above it, as the start of a path: empty, ``../``, ``../../``, ..."""
    try:
        depth = os.getcwd().rstrip("/").count("/")  # noqa: PTH109
    except OSError:  # the working folder was deleted
        return
    for level in range(depth + 1):
        prefix = "../" * level
        yield prefix
        if os.path.lexists(f"{prefix}.git"):
            return


def _load_file(path: str) -> Project:
    from topiarist.adapters.manifests.files import file_location, is_project_file, parse_project_file

    prefix = path[: path.rfind("/") + 1]
    file = _read_file(path, prefix)
    if not is_project_file(file._replace(name=PROJECT_FILE)):
        hint = "a project file has no apiVersion; give manifests as arguments"
        raise InvalidManifests([Diagnostic(file_location(path), "found a manifest, wanted a project file", hint)])
    return Project(parse_project_file(file), prefix)


def _read_file(path: str, prefix: str) -> File:
    """Return the content of a project file; raise ``InvalidManifests`` if it is no regular, readable file.

    A link is followed only inside its git repository: another file would show in error messages.
    """
    from topiarist.adapters.manifests.files import file_location, read_files
    from topiarist.adapters.manifests.source import File

    root = find_repository(prefix or ".")
    if _leads_out(root, path):
        message = f"found a symbolic link to a target outside the git repository {printable(root, 200)}"
        raise InvalidManifests([Diagnostic(file_location(path), message, "replace the link by its target")])
    if os.path.isdir(path):  # noqa: PTH112
        raise InvalidManifests([Diagnostic(file_location(path), "found a folder, wanted a project file")])
    found = next(iter(read_files([path if path != "-" else "./-"])))
    if not isinstance(found, File):
        raise InvalidManifests([found if isinstance(found, Diagnostic) else found.warning])
    return found


def _leads_out(root: str, path: str) -> bool:
    real = os.path.realpath(path)
    return bool(root) and real != root and not real.startswith(root.rstrip("/") + "/")


def _join(prefix: str, path: str) -> str:
    joined = path if path.startswith("/") else prefix + path
    return "./-" if joined == "-" else joined  # alone, it would mean standard input


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

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name for an error of the value: that of the variable, if the value is from the environment."""
        source = ctx.get_parameter_source(self.name) if ctx and self.name else None
        is_variable = source is ParameterSource.ENVIRONMENT and isinstance(self.envvar, str)
        return f"'{self.envvar}'" if is_variable else super().get_error_hint(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value to the option's type.

        Raises ``click.BadParameter`` if the value, or an element of it, is blank, or a ``-`` in place of a file.
        """
        given = self.name and ctx.get_parameter_source(self.name) in EXPLICIT_SOURCES
        parts = _as_sequence(value) if given else ()
        if any(isinstance(part, str) and not part.strip() for part in parts):
            raise click.BadParameter("found an empty value: leave the option out, or give it a value", ctx, self)
        if "-" in parts and isinstance(self.type, click.Path) and not self.type.allow_dash:
            raise click.BadParameter('found "-", wanted a file or a folder: one of this name is ./-', ctx, self)
        return super().type_cast_value(ctx, value)


def reject_options(names: Sequence[str], purpose: str) -> None:
    """Raise ``click.UsageError`` if the command line has one of these options: it would have no effect.

    A variable of the environment is for all runs, and is no error where it has none.
    """
    context = click.get_current_context()
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{'/'.join((max(param.opts, key=len), *param.secondary_opts))} is {purpose}")


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
            known = [max(each.opts, key=len) for each in options if each.envvar]
            excluded = [max(each.opts, key=len) for each in options if not each.envvar]
            which = f"All options except {', '.join(excluded)}" if len(excluded) <= len(known) else ", ".join(known)
            sentence = f"{which} can also be set as environment variables, for example "
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
        given = ctx.meta[_GIVEN_KEY] = ctx.params.pop("project_file", None)
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
    used = [name for name in _choose_values(ctx, project) if name]
    ctx.meta[_META_KEY] = project if used else None
    if verbosity > 0:
        fields = f" ({', '.join(used)})" if used else ", which gives nothing to this run"
        terminal.log(f"project file: {project.file.name}{fields}")


_META_KEY, _GIVEN_KEY = "topiarist.project", "topiarist.given-project"


def project_words() -> list[str]:
    """Return the option with which another command uses the project file of this one, or none; empty if not given."""
    given = click.get_current_context().meta[_GIVEN_KEY]
    return ["--project", given] if given else []


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
