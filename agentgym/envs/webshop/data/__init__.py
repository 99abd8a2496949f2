"""WebShop's published products: importer, and the store they are read from."""
