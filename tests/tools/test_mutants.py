"""The list of planted faults fits the code, so that `mutants.py` can plant each of them."""

from collections import Counter

import pytest
from tools.mutants import CHECKOUT, Fault, failed_test, planted, read_faults

FAULTS = read_faults()
FAMILIES = ("retargeted", "margin", "lowrank", "representation")


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.what for fault in FAULTS])
def test_a_fault_changes_one_place_and_has_tests(fault):
    source = (CHECKOUT / "src" / "discreg" / fault.file).read_text(encoding="utf-8")
    compile(fault.planted(source), fault.file, "exec")
    assert fault.planted(source) != source
    assert fault.test_files(CHECKOUT)[0].name == fault.first


def test_every_family_has_ten_faults():
    counts = Counter(fault.family for fault in FAULTS)
    assert all(counts[family] >= 10 for family in FAMILIES)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)


def test_a_fault_is_planted_and_taken_out_again(tmp_path):
    path = tmp_path / "src" / "discreg" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text("score = product - mean\n")
    fault = Fault("a sign", "model.py", "product - mean", "product + mean", "base", "test_model.py")
    with planted(fault, tmp_path):
        assert path.read_text() == "score = product + mean\n"
    assert path.read_text() == "score = product - mean\n"
    for source in ("score = product\n", "product - mean, product - mean"):
        with pytest.raises(ValueError, match=r"model\.py: found [02] times"):
            fault.planted(source)


def test_the_test_that_failed_is_read_from_the_summary():
    summary = "F\nFAILED tests/base/test_a.py::test_b[1-x] - assert 1 == 2\n1 failed in 0.1s"
    assert failed_test(summary) == "tests/base/test_a.py::test_b[1-x]"
    assert failed_test("3 passed in 0.1s") == ""
