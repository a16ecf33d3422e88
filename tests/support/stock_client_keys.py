"""Answers as the stock client reads them: the keys it knows, and the only times it can parse (design, O0, O7.2)."""

from __future__ import annotations

import re

TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?\Z")


def split_keys(words: str) -> frozenset[str]:
    """Keys of an object, from one text."""
    return frozenset(words.split())


LIST_KEYS = split_keys(
    """
    user name workflow_uuid submit_time start_time end_time queued_time duration status overview logs
    error_logs grafana_url dashboard_url pool app_owner app_name app_version priority labels
    """
)
DETAIL_KEYS = split_keys(
    """
    name uuid submitted_by cancelled_by spec template_spec logs events overview parent_name parent_job_id
    dashboard_url grafana_url tags submit_time start_time end_time exec_timeout queue_timeout duration
    queued_time status outputs groups pool backend app_owner app_name app_version plugins priority labels
    warnings
    """
)
GROUP_KEYS = split_keys(
    """
    name status start_time end_time processing_start_time scheduling_start_time initializing_start_time
    remaining_upstream_groups downstream_groups failure_message tasks
    """
)
TASK_KEYS = split_keys(
    """
    name retry_id status failure_message exit_code logs error_logs events start_time end_time
    processing_start_time scheduling_start_time initializing_start_time input_download_start_time
    input_download_end_time output_upload_start_time dashboard_url pod_name pod_ip task_uuid node_name lead
    """
)
TASK_LIST_KEYS = split_keys(
    """
    user workflow_id workflow_uuid task_name retry_id pool node start_time end_time duration status overview
    logs error_logs storage cpu memory gpu priority
    """
)
REVISION_KEYS = split_keys("config_type name revision username created_at description tags data")
