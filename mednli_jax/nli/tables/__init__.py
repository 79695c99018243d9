"""The runs and tables of Romanov & Shivade 2018."""
