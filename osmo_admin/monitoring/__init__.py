"""What operators watch: metrics, health, traces and logs."""
