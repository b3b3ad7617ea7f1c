"""What `ottla log verify` does with its report: prints it, shows a plan, acts when told to."""

from ottla.cli.log.paths import Place, PlaceKind, held_for_reading, held_for_writing
from ottla.cli.log.verify.directory import Report, verify_place
from ottla.cli.log.verify.plan import Step, plan_of
from ottla.cli.log.verify.repair import repair
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.seams.files import Files


def verify(
    files: Files, path: str, writer: RowWriter, *, wants_repair: bool, may_act: bool
) -> ExitCode:
    """CHECK_FAILED if something is damaged when this ends."""
    place = Place.at(files, path)
    if place.kind is PlaceKind.FILE:
        raise Failure(
            f"{place.path} is a file",
            advice="name the directory of its partition, or the log directory",
            exit_code=ExitCode.USAGE,
        )
    if wants_repair and may_act and place.log_directory is not None:
        with held_for_writing(files, place.log_directory):
            return _verify_and_repair(files, place, writer, may_act=True)
    with held_for_reading(files, [place.log_directory]):
        if wants_repair:
            return _verify_and_repair(files, place, writer, may_act=may_act)
        report = verify_place(files, place)
        _print_damages(report, writer)
        writer.close()
        return _exit_code(report)


def _verify_and_repair(files: Files, place: Place, writer: RowWriter, *, may_act: bool) -> ExitCode:
    report = verify_place(files, place)
    _print_damages(report, writer)
    steps = plan_of(report)
    for step in steps:
        writer.write(step.row())
    if steps and may_act:
        repair(files, steps)
        report = verify_place(files, place)
        say(f"repaired: {counted(len(steps), 'step')} done; checked again:")
        _print_damages(report, writer)
    elif steps:
        say(_intention(steps))
    writer.close()
    return _exit_code(report)


def _print_damages(report: Report, writer: RowWriter) -> None:
    for damage in report.damages():
        writer.write(damage.row())
    for partition in report.partitions:
        if partition.damages_unlisted:
            say(f"{partition.name}: {partition.damages_unlisted} more are not listed")
    found = counted(report.damages_count, "damage") if report.damages_count else "no damage"
    partitions = counted(len(report.partitions), "partition")
    say(f"{partitions}, {counted(report.batches_count, 'batch', 'batches')}: {found}")


def _intention(steps: list[Step]) -> str:
    return (
        f"nothing was changed: `--yes` does {counted(len(steps), 'step')} as shown; what is cut is"
        " kept in files that end in .damaged"
    )


def _exit_code(report: Report) -> ExitCode:
    return ExitCode.CHECK_FAILED if report.damages_count else ExitCode.OK
