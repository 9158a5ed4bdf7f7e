"""What is free is read from the system, and what does not fit is refused with advice."""

import os

import pytest

from discreg.linalg import resources
from discreg.linalg.resources import (
    available_bytes,
    require_memory,
)

GB = 10**9


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that makes files in place of the system's; without any, there are none."""
    monkeypatch.setattr(resources, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(resources, "OWN_CGROUPS", tmp_path / "own_cgroups")
    monkeypatch.setattr(resources, "CGROUP_ROOT", tmp_path / "cgroup")

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("memory_", "memory.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


MEMINFO = "MemTotal:       2000000 kB\nMemAvailable:   1000000 kB\nHugePages_Total:       0\n"


def test_memory_of_this_machine_is_known():
    assert available_bytes() > 0


def test_without_control_groups_the_kernels_estimate_counts(machine):
    machine(meminfo=MEMINFO)
    assert available_bytes() == 1000000 * 1024


def test_limit_of_a_control_group_counts_and_cached_files_give_way(machine):
    machine(
        meminfo=MEMINFO,
        own_cgroups="0::/job/step\n",
        cgroup__job__step__memory_max="500000\n",
        cgroup__job__step__memory_current="300000\n",
        cgroup__job__step__memory_stat="anon 100000\ninactive_file 50000\n",
    )
    assert available_bytes() == 250000


def test_limit_of_a_parent_group_counts_and_max_is_no_limit(machine):
    machine(
        meminfo=MEMINFO,
        own_cgroups="0::/job/step\n",
        cgroup__job__step__memory_max="max\n",
        cgroup__job__step__memory_current="1000\n",
        cgroup__job__memory_max="400000\n",
        cgroup__job__memory_current="300000\n",
    )
    assert available_bytes() == 100000


def test_version_1_of_control_groups_inside_a_container(machine):
    """The container's own path is the host's and does not exist inside; the root's limit does."""
    machine(
        meminfo=MEMINFO,
        own_cgroups="5:cpu:/docker/abc\n4:memory:/docker/abc\n",
        cgroup__memory__memory_limit_in_bytes="400000\n",
        cgroup__memory__memory_usage_in_bytes="300000\n",
        cgroup__memory__memory_stat="total_inactive_file 20000\n",
    )
    assert available_bytes() == 120000


def test_a_group_above_its_limit_leaves_nothing(machine):
    machine(
        meminfo=MEMINFO,
        own_cgroups="0::/\n",
        cgroup__memory_max="1000\n",
        cgroup__memory_current="2000\n",
    )
    assert available_bytes() == 0


def test_without_proc_the_physical_memory_bounds(machine, monkeypatch):
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    assert available_bytes() == 4096000


def test_memory_is_unknown_where_the_system_does_not_tell(machine, monkeypatch):
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_bytes() is None
    require_memory(10**18, "Anything", "Nothing.")


def test_refusal_says_what_how_much_and_what_to_do(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 8 * GB)
    require_memory(8 * GB, "This", "Nothing.")
    with pytest.raises(MemoryError) as refusal:
        require_memory(1250 * GB, "A large table", "Use fewer rows.")
    assert str(refusal.value) == (
        "A large table would take 1,250.0 GB of memory, but 8.0 GB are free. Use fewer rows."
    )


def test_advice_may_depend_on_what_is_free(monkeypatch):
    monkeypatch.setattr(resources, "available_bytes", lambda: 2 * GB)
    with pytest.raises(MemoryError, match=r"Keep 250000000 numbers\.$"):
        require_memory(3 * GB, "A list", lambda free: f"Keep {free // 8} numbers.")
