"""`.tsv`: columns between tabs, without quoting, so that a tab or a newline always ends a column."""

from collections.abc import Iterator

from clearhead.examples import Example
from clearhead.text.sources.lines import without_end
from clearhead.text.sources.scan import Scan
from clearhead.text.sources.tables import Fields, read_table


def read_tsv(scan: Scan) -> Iterator[Example]:
    """The lines of a table."""
    return read_table(scan, tsv_fields, must_name=False)


def tsv_fields(scan: Scan) -> Iterator[Fields]:
    """The columns of each line."""
    delimiter = scan.reading.delimiter or "\t"
    return ((number, without_end(line).split(delimiter)) for number, line in scan.lines())
