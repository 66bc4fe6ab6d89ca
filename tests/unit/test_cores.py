"""The cores that a server uses by default: affinity, second threads of cores, and the quota of its control groups."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from srb.host import cores, memory
from srb.host.cgroups import cpu_quota, memory_limit, throttled_times
from srb.host.cores import give_way, gives_way, usable_cores
from tests.machines import GIB, FakeRoot
from tests.processes import DEADLINE


def test_without_a_quota_every_core_that_the_process_may_use_counts(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path, cpus=8).path
    assert usable_cores(root, range(8)) == 8
    assert usable_cores(root, [1, 5]) == 2


def test_the_second_thread_of_a_core_does_not_count(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path, cpus=8, siblings=True).path
    assert usable_cores(root, range(8)) == 4
    assert usable_cores(root, [0, 1, 2]) == 2


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("200000 100000", 2), ("350000 100000", 3), ("50000 100000", 1), ("1600000 100000", 8)],
)
def test_a_quota_of_version_2_limits_the_threads_to_whole_cores(tmp_path: Path, quota: str, expected: int) -> None:
    fake = FakeRoot(tmp_path, cpus=8)
    fake.write("sys/fs/cgroup/cpu.max", f"{quota}\n")
    assert usable_cores(tmp_path, range(8)) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("150000", 1), ("300000", 3)])
def test_a_quota_of_version_1_limits_the_threads_to_whole_cores(tmp_path: Path, quota: str, expected: int) -> None:
    fake = FakeRoot(tmp_path, cpus=8)
    fake.write("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    fake.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", f"{quota}\n")
    fake.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert usable_cores(tmp_path, range(8)) == expected


def test_the_lowest_quota_of_the_groups_above_holds(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path, cpus=8)
    fake.write("proc/self/cgroup", "0::/user.slice/srb.service\n")
    fake.write("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n")
    fake.write("sys/fs/cgroup/user.slice/srb.service/cpu.max", "400000 100000\n")
    assert cpu_quota(tmp_path) == 2.5
    assert usable_cores(tmp_path, range(8)) == 2


def test_where_both_versions_are_mounted_the_quota_may_be_in_either(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path, cpus=8)
    fake.write("proc/self/cgroup", "3:cpu,cpuacct:/app\n0::/app\n")
    fake.write("sys/fs/cgroup/unified/app/cpu.max", "300000 100000\n")
    assert usable_cores(tmp_path, range(8)) == 3
    fake.write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "200000\n")
    fake.write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "100000\n")
    assert usable_cores(tmp_path, range(8)) == 2


def test_the_memory_limit_is_that_of_the_group_with_the_least_room_and_cached_files_are_room(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path)
    assert memory_limit(tmp_path) is None
    fake.write("proc/self/cgroup", "0::/a/b\n")
    fake.write("sys/fs/cgroup/a/memory.max", f"{4 * GIB}\n")
    fake.write("sys/fs/cgroup/a/memory.current", f"{3 * GIB}\n")
    fake.write("sys/fs/cgroup/a/memory.stat", f"anon 5\ninactive_file {2 * GIB}\n")
    fake.write("sys/fs/cgroup/a/b/memory.max", "max\n")
    limit = memory_limit(tmp_path)
    assert limit is not None
    assert (limit.limit, limit.free) == (4 * GIB, 3 * GIB)


def test_version_1_has_no_word_for_no_memory_limit(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path)
    fake.write("proc/self/cgroup", "4:memory:/\n")
    fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(tmp_path) is None
    fake.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{GIB}\n")
    fake.write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{GIB // 4}\n")
    limit = memory_limit(tmp_path)
    assert limit is not None
    assert limit.free == GIB * 3 // 4


def test_the_times_that_a_group_was_stopped_are_counted(tmp_path: Path) -> None:
    fake = FakeRoot(tmp_path)
    assert throttled_times(tmp_path) == 0
    fake.write("sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 7\n")
    assert throttled_times(tmp_path) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
@pytest.mark.skipif(os.nice(0) == 19, reason="no thread can give way here")
def test_a_thread_that_gives_way_and_those_that_it_starts_come_after_the_others() -> None:
    before, after = os.nice(0), list[int]()
    ended, told = threading.Event(), threading.Barrier(3, timeout=DEADLINE)

    def started() -> None:
        after.append(threading.get_native_id())
        told.wait()
        ended.wait(DEADLINE)

    def encode() -> None:
        give_way()
        other = threading.Thread(target=started)
        other.start()
        started()
        other.join()

    thread = threading.Thread(target=encode)
    thread.start()
    try:
        told.wait()
        assert [os.getpriority(os.PRIO_PROCESS, each) for each in after] == [min(19, before + 5)] * 2
        assert [gives_way(each) for each in (*after, threading.get_native_id(), 999_999_999)] == [
            True,
            True,
            False,
            False,
        ]
        assert os.nice(0) == before
    finally:
        ended.set()
        thread.join()


def test_a_mac_tells_its_cores_and_its_memory_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "hw.perflevel0.physicalcpu": 6, "hw.physicalcpu": 8, "hw.memsize": 16 * GIB, "vm.page_free_count": 1000,
        "vm.page_pageable_external_count": 500,
    }  # fmt: skip
    for module in (cores, memory):
        monkeypatch.setattr(module, "sysctl", told.get)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == 6
    assert memory.total_memory(tmp_path) == 16 * GIB
    assert memory.free_memory(tmp_path) == 1500 * os.sysconf("SC_PAGE_SIZE")


def test_a_system_that_tells_nothing_has_the_cores_that_python_knows_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == os.cpu_count()
    assert memory.total_memory(tmp_path) is None
    assert memory.free_memory(tmp_path) is None
