"""Paper search: find the papers that answer a query, by searching and by following citations."""
