"""`ottla log verify`: prints the report, shows the plan of a repair, and executes it."""

from ottla.cli.log.paths import LogPath, LogPathKind, locked_for_reading, locked_for_writing
from ottla.cli.log.verify.directory import Report, verify_path
from ottla.cli.log.verify.plan import RepairStep, plan_of
from ottla.cli.log.verify.repair import repair
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.seams.files import Files


def verify(
    files: Files, path: str, writer: RowWriter, *, wants_repair: bool, may_act: bool
) -> ExitCode:
    """Returns CHECK_FAILED if damage remains at the end."""
    log_path = LogPath.at(files, path)
    if log_path.kind is LogPathKind.FILE:
        raise Failure(
            f"{log_path.path} is a file",
            advice="name its partition directory or log directory",
            exit_code=ExitCode.USAGE,
        )
    if wants_repair and may_act and log_path.log_directory is not None:
        with locked_for_writing(files, log_path.log_directory):
            return _verify_and_repair(files, log_path, writer, may_act=True)
    with locked_for_reading(files, [log_path.log_directory]):
        if wants_repair:
            return _verify_and_repair(files, log_path, writer, may_act=may_act)
        report = verify_path(files, log_path)
        _print_damages(report, writer)
        writer.close()
        return _exit_code(report)


def _verify_and_repair(
    files: Files, log_path: LogPath, writer: RowWriter, *, may_act: bool
) -> ExitCode:
    report = verify_path(files, log_path)
    _print_damages(report, writer)
    steps = plan_of(report)
    for step in steps:
        writer.write(step.row())
    if steps and may_act:
        repair(files, steps)
        report = verify_path(files, log_path)
        say(f"repaired: {counted(len(steps), 'step')} done; verified again:")
        _print_damages(report, writer)
    elif steps:
        say(_dry_run_summary(steps))
    writer.close()
    return _exit_code(report)


def _print_damages(report: Report, writer: RowWriter) -> None:
    for damage in report.damages():
        writer.write(damage.row())
    for partition in report.partitions:
        if partition.damages_unlisted:
            say(f"{partition.name}: {partition.damages_unlisted} more not listed")
    found = counted(report.damages_count, "damage") if report.damages_count else "no damage"
    partitions = counted(len(report.partitions), "partition")
    say(f"{partitions}, {counted(report.batches_count, 'batch', 'batches')}: {found}")


def _dry_run_summary(steps: list[RepairStep]) -> str:
    return (
        f"nothing was changed: `--yes` executes {counted(len(steps), 'step')}; cut bytes are kept"
        " in files that end in .damaged"
    )


def _exit_code(report: Report) -> ExitCode:
    return ExitCode.CHECK_FAILED if report.damages_count else ExitCode.OK
