"""What a run came to: counts, waits and what was lost."""

from cloudretry.core.lost import LostCall
from cloudretry.report.report import OperationReport, Report

__all__ = ["LostCall", "OperationReport", "Report"]
