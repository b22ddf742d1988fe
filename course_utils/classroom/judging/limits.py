"""What a submission may take (``Limits``)."""

from dataclasses import dataclass

from course_utils.classroom.course.submissions import LARGEST_BYTES


@dataclass(frozen=True)
class Limits:
    """What a submission may take, beside what holds for each of its processes.

    Seconds are those that it uses: CPU time, and time in which it waits for something. Time in which the machine was
    busy with other work does not count, so that a submission comes out the same on any machine.

    Attributes:
        wall_seconds: the whole submission, from the first cell to the last check.
        check_seconds: one check, or one cell.
        output_bytes: what is kept of all that its cells print and display.
        notebook_bytes: of the file that was handed in.
    """

    wall_seconds: float = 180.0
    check_seconds: float = 20.0
    cpu_seconds: int = 120
    memory_bytes: int = 2 * 2**30
    processes: int = 64
    file_bytes: int = 64 * 2**20
    output_bytes: int = 2**20
    notebook_bytes: int = LARGEST_BYTES
