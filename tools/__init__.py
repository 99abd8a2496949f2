"""Scripts of the checkout: generated pages, the documentation as a site, the check of a release."""
