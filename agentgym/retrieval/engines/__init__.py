"""Search engines: BM25, tantivy, Lucene, exact and approximate vectors, hybrids, remote servers."""
