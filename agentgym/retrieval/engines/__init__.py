"""Search engines: BM25, Lucene, exact and approximate vectors, hybrids, remote servers."""
