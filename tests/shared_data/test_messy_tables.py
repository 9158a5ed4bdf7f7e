"""What the guards report on real tables with mixed types, missing values and rare classes."""

import pandas as pd
import pytest

from discreg.base.errors import InputError
from discreg.comparison.prepare import Plan, prepare
from discreg.tables.formats import read_contents
from discreg.tables.table import as_table

FOUND = {
    "anneal": {"rare class"},
    "anneal.orig": {"rare class"},
    "audiology": {"rare class"},
    "autos": {"rare class"},
    "colic": {"duplicates"},
    "cylinder.bands": {"repeating identifier"},
    "ecoli": {"rare class"},
    "lymph": {"rare class"},
    "postoperative.patient.data": {"rare class"},
    "solar.flare2": {"rare class"},
    "soybean": {"rare class"},
    "spambase": {"duplicates"},
    "tae": {"duplicates"},
    "trains": {"rare class"},
    "zoo": {"rare class"},
}
REFUSED = {"bridges.version1": "target 'TYPE' is missing in 2 of 107 rows: data rows 106, 107"}


@pytest.mark.full
def test_43_tables_are_read_and_raise_few_alarms(data_folder):
    found, refused = {}, {}
    for path in sorted((data_folder / "arff").glob("*.arff.gz")):
        name = path.name.removesuffix(".arff.gz")
        frame = read_contents(path).X
        is_last = isinstance(frame.dtypes.iloc[-1], pd.CategoricalDtype)
        try:
            table = as_table(path, frame.columns[-1 if is_last else 0])
        except InputError as error:
            refused[name] = str(error)
            continue
        prepared = prepare(table, Plan(candidates=["LSR"], group_by_default=False))
        if flags := {flag.kind for flag in prepared.flags}:
            found[name] = flags
    assert found == FOUND
    assert refused.keys() == REFUSED.keys()
    for name, said in REFUSED.items():
        assert said in refused[name]
