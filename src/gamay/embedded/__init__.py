"""All roles in one process and one data folder."""
