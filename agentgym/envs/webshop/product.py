"""The records of the shop, which the importer shares."""

from agentgym.data.products import Catalogue, Goals, Instruction, ListCatalogue, Product

__all__ = ["Catalogue", "Goals", "Instruction", "ListCatalogue", "Product"]
