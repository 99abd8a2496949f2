"""What benchmarks have alike: arguments, rounds of contestants, processes, JSON reports and pages."""
