"""Log lines as people read them: the message with its fields."""

from podwright.engine.records.log_fields import fields_of
from podwright.kube.log_format import text_of_fields


def line_of(record):
    """The message of a log record, followed by its fields as in text logs."""
    return record.getMessage() + text_of_fields(fields_of(record))


def lines_of(records):
    return [line_of(record) for record in records]
