"""Run logs: results, run folders, transcripts, recorded answers, replay."""
