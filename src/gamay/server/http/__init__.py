"""The server's HTTP interface for administrators and other roles."""
