"""Refuses system calls that no lesson needs (``refuse_calls``), for a process and all that come of it.

They would leave something in the kernel for the next submission (keys), look into other processes, or are where the
kernel's own errors tend to be found. See https://docs.kernel.org/userspace-api/seccomp_filter.html. Linux on x86-64 and
64-bit ARM; elsewhere nothing is refused.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

# https://github.com/torvalds/linux/blob/master/arch/x86/entry/syscalls/syscall_64.tbl
_X86_64 = {
    **{"add_key": 248, "request_key": 249, "keyctl": 250},
    **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438},
    **{"bpf": 321, "perf_event_open": 298, "userfaultfd": 323},
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
    **{"mount_setattr": 442, "name_to_handle_at": 303, "open_by_handle_at": 304},
    **{"init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320},
    **{"swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "quotactl": 179, "syslog": 103},
    **{"settimeofday": 164, "clock_settime": 227},
    **{"memfd_create": 319, "memfd_secret": 447, "shmget": 29},  # memory that no limit of a process counts
}
# https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/unistd.h
_AARCH64 = {
    **{"add_key": 217, "request_key": 218, "keyctl": 219},
    **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438},
    **{"bpf": 280, "perf_event_open": 241, "userfaultfd": 282},
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
    **{"mount_setattr": 442, "name_to_handle_at": 264, "open_by_handle_at": 265},
    **{"init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294},
    **{"swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "quotactl": 60, "syslog": 116},
    **{"settimeofday": 170, "clock_settime": 112},
    **{"memfd_create": 279, "memfd_secret": 447, "shmget": 194},
}
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
_X32 = 0x40000000  # the numbers of a third set of calls begin here
# The filter's own machine: https://github.com/torvalds/linux/blob/master/include/uapi/linux/bpf_common.h
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def refuse_calls() -> None:
    """Refuses them with EPERM from now on. The process must have given up gaining rights (``no_new_privs``).

    Raises:
        OSError: the kernel takes no filters.
    """
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return
    architecture, calls = _MACHINES[platform.machine()]
    program = _filter(architecture, sorted(calls.values()))
    code = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(whole, len(whole)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def _filter(architecture: int, numbers: list[int]) -> bytes:
    count = len(numbers)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 0, count + 3, architecture),  # another architecture's numbers mean something else
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, count + 1, 0, _X32),
        *((_EQUAL, count - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
