"""The report file before a start: a real EdgeCore that called the tool reads it when it connects (product.md 6.2)."""

from msgspec.structs import replace

from modules.upgrader.host.files import Files
from modules.upgrader.host.layout import Layout
from modules.upgrader.tool.phases import UNDO, Phase
from modules.upgrader.tool.record import Record
from modules.upgrader.tool.report import Report, encode, of_verdict, write_report
from modules.upgrader.tool.verdict import verdict_of

_ENDS_IN = {Phase.START: Phase.DONE, Phase.VERIFY: Phase.DONE} | dict.fromkeys(UNDO, Phase.ROLLED_BACK)


def announced(files: Files, layout: Layout, record: Record) -> Record:
    """Write what will be true if the coming start goes well; a rollback that begins later writes it anew.

    Returns the record with what was said. Nothing is done where a job of ours is behind the attempt, for then the agent
    reads the record, nor when it was said already: it may have been read, and taken away. Raises OSError.
    """
    end = _ENDS_IN.get(record.phase)
    if record.order.job or end is None:
        return record
    said = of_verdict(record.order, verdict_of(replace(record, phase=end), ""))
    if is_announced(record, said):
        return record
    write_report(files, layout, said)
    return replace(record, announced=encode(said).decode())


def is_announced(record: Record, report: Report) -> bool:
    """Is this what was written before the last start?"""
    return encode(report).decode() == record.announced
