"""Speed, measured side by side with other implementations in the same run."""
