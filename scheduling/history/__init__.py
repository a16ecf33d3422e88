"""What the past teaches: its replay, forecasts of starts, and advice on quotas."""
