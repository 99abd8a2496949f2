"""Playing suites: benchmark runs, attempts at tasks, and cost estimates."""
