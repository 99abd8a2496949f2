"""Boxoban's levels and other files of levels."""
