"""WebShop: buy the product that an instruction describes."""
