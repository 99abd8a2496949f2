"""The board of credit: estimators of advantages held against the truth, in all cells."""
