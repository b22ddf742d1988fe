"""The out-of-memory clinic of the last lesson: data, a network, sick scripts, and what watches them."""

from course_utils.clinic.dataset import CLASSES, FEATURES, WIDTH, Batches, ClinicDataset, ClinicResult, TwoBranches
from course_utils.clinic.watch import bytes_over_batches
from course_utils.memory.loops import collector_off

__all__ = [
    "CLASSES",
    "FEATURES",
    "WIDTH",
    "Batches",
    "ClinicDataset",
    "ClinicResult",
    "TwoBranches",
    "bytes_over_batches",
    "collector_off",
]
