"""What a run came to: counts, waits and what was lost."""

from cloudretry.report.report import OperationReport, Report

__all__ = ["OperationReport", "Report"]
