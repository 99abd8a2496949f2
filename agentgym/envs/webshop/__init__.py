"""WebShop: buying what an instruction asks for."""
