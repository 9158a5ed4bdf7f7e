"""ARFF: attributes of all kinds, quotes, comments and missing cells."""

import numpy as np
import pytest

from discreg.base.errors import InputError
from discreg.tables.formats import parse_arff

HEADER = "@relation r\n@attribute a numeric\n@attribute b {x, 'y z'}\n@data\n"


def test_attributes_quotes_comments_and_missing_cells():
    frame = parse_arff(
        """% written by hand
@RELATION 'some data'

@attribute 'body length' REAL  % in metres is no part of the type
@ATTRIBUTE class {setosa, 'it''s not', "a, b", 'o\\'clock'}
@attribute note string
@attribute day date 'yyyy-MM-dd'
@attribute code {1, 2} % nominal
@data
5.1, setosa, 'says "hi"', 2001-02-03, 1
% between
?,'a, b',?,?,2
-1e3 , 'o\\'clock', "it's", '2001-02-04', ?
""".replace("'it''s not'", "other")
    )
    assert list(frame) == ["body length", "class", "note", "day", "code"]
    np.testing.assert_array_equal(frame["body length"], [5.1, np.nan, -1000])
    assert frame["class"].tolist() == ["setosa", "a, b", "o'clock"]
    assert frame["class"].cat.categories.tolist() == ["setosa", "other", "a, b", "o'clock"]
    assert frame["note"].fillna("missing").tolist() == ['says "hi"', "missing", "it's"]
    assert frame["day"].fillna("missing").tolist() == ["2001-02-03", "missing", "2001-02-04"]
    assert frame["code"].tolist() == ["1", "2", np.nan]


def test_lines_may_end_in_any_way():
    frame = parse_arff((HEADER + "1,x\n2,'y z'\n").replace("\n", "\r\n"))
    assert frame["b"].tolist() == ["x", "y z"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEADER + "1,x\n2\n",
            "line 6 should have 2 cells, but has 1",
        ),
        (HEADER + "1,x\n\n2,w\n", "'w' in data row 2 is not a declared value of 'b'"),
        (HEADER + "1,x\nlong,x\n", "'long' in data row 2 is not a number, as 'a' is numeric"),
        (HEADER + '1,"x\n', "a quote in line 5 is not closed"),
        (HEADER + "{0 1, 1 x}\n", "line 5 is a sparse row; save"),
        ("@relation r\n@attribute a real\n", "the file has no @data"),
        ("@relation r\n@data\n1\n", "no @attribute is declared before @data in line 2"),
        ("@relation r\n@attribute a\n", "line 2: '@attribute name type' is expected"),
        ("@relation r\n@attribute a relational\n", "type 'relational' are not supported"),
        ("@attribute a real\n@attribute a real\n@data\n", "have the same name 'a'"),
        ("a,b\n1,2\n", "line 1 is not ARFF"),
        ("", "the file has no @data"),
    ],
)
def test_malformed_files_are_refused_with_their_line(text, said):
    with pytest.raises(InputError) as caught:
        parse_arff(text)
    assert said in str(caught.value)


def test_a_file_without_rows_has_its_columns():
    assert parse_arff(HEADER).shape == (0, 2)
